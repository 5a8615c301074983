"""The report as the text of a pull request: at most so many characters, the answer open, everything else folded.

A forge takes 65,536 characters at most. Where the whole does not fit, the least important sections go first, then the later
rows of long tables; what is left out is named.
"""

from __future__ import annotations

import html
from dataclasses import replace
from typing import TYPE_CHECKING

from ep_campaign.numbers import plural
from ep_campaign.report.document import Paragraph, Quoted, Rank, Section, Table
from ep_campaign.report.markdown import escape, render_section

if TYPE_CHECKING:
    from ep_campaign.report.document import Block, Document

MAX_CHARS = 60_000
_RESERVE = 1_500
"""Room for the title, the stamp and the list of what was left out."""
_MAX_ROWS = (1 << 20, 200, 100, 50, 20, 10, 5, 1)
"""Rows of one table that are tried, in turn."""


def render_pull_request(document: Document, max_chars: int = MAX_CHARS) -> str:
    """The text, `max_chars` long at most.

    Raises:
        ValueError: Not even one row of each table of the answer fits.
    """
    chosen = _choose(document, max_chars - _RESERVE)
    texts = [chosen[section.anchor] for section in document.sections if section.anchor in chosen]
    left_out = [section.title for section in document.sections if section.anchor not in chosen]
    parts = [f"## {escape(document.title)}"]
    if document.stamp:
        parts.append(f"**{escape(document.stamp)}**")
    parts += texts
    if left_out:
        listed = ", ".join(escape(title) for title in left_out)
        parts.append(f"Left out here for length, and found in `RESULTS.md` and `report.html`: {listed}.")
    else:
        parts.append("The same, with its figures, stands in `RESULTS.md` and `report.html`.")
    text = "\n\n".join(parts) + "\n"
    if len(text) > max_chars:
        msg = f"the shortest text has {len(text):,} characters, {max_chars:,} are allowed"
        raise ValueError(msg)
    return text


def _choose(document: Document, room: int) -> dict[str, str]:
    """Sections that fit, by anchor, the most important ones first; the answer with as many rows as fit."""
    chosen: dict[str, str] = {}
    for rank in Rank:
        for section in document.sections:
            if section.rank is not rank:
                continue
            allowed = _MAX_ROWS if rank <= Rank.CAVEAT else _MAX_ROWS[:1]
            for max_rows in allowed:
                text = _render(shorten(section, max_rows))
                if len(text) + 2 <= room or (rank is Rank.ANSWER and max_rows == _MAX_ROWS[-1]):
                    chosen[section.anchor] = text
                    room -= len(text) + 2
                    break
    return chosen


def _render(section: Section) -> str:
    """A section open where it holds the answer, folded otherwise; figures are named, not linked."""
    text = render_section(section, figures_folder=None)
    if section.rank is Rank.ANSWER:
        return f"#{text}"
    _, _, body = text.partition("\n\n")
    return f"<details><summary>{html.escape(section.title)}</summary>\n\n{body}\n\n</details>"


def shorten(section: Section, max_rows: int) -> Section:
    """The section with at most so many rows in each table; a sentence says how many are not shown."""
    blocks: list[Block] = []
    for block in section.blocks:
        if isinstance(block, Table) and len(block.rows) > max_rows:
            blocks.append(replace(block, rows=block.rows[:max_rows]))
            rest = plural(len(block.rows) - max_rows, "further row")
            blocks.append(Paragraph((f"{rest} in ", Quoted("RESULTS.md"), ".")))
        else:
            blocks.append(block)
    return replace(section, blocks=tuple(blocks))
