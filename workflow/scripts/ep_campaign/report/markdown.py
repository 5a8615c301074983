"""The document as GitHub-flavoured Markdown; nothing in it can become markup, a link, a mention or a table cell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ep_campaign.report.clean import clean
from ep_campaign.report.document import Bullets, Commands, Figure, Paragraph, Quoted, Strong, Table, pieces

if TYPE_CHECKING:
    from ep_campaign.report.document import Block, Document, Piece, Section, Text

_SPECIAL = re.compile(r"[\\`*~$]|<(?=[A-Za-z/!?])|&(?=#|\w+;)|\](?=[\[(:])")
"""What is read as more than itself anywhere in a line; an angle or a bracket only where a tag or a link could begin."""
_UNDERSCORE = re.compile(r"(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
_REFERENCE = re.compile(r"([@#])(?=[0-9A-Za-z])")
_ADDRESS = re.compile(r"(https?):(?=//)|(www)(?=\.)", re.IGNORECASE)
_LINE_START = re.compile(r"^(\d*)([-+#.)\[>=])")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_JOINER = "\N{WORD JOINER}"
"""Stands between a sign and the name that a forge would link to; it has no width."""


def render_markdown(document: Document, *, figures_folder: str = "figures") -> str:
    """The whole document, its figures linked relative to its own place."""
    parts = [f"# {escape(document.title)}"]
    if document.stamp:
        parts.append(f"**{escape(document.stamp)}**")
    parts += [render_section(section, figures_folder) for section in document.sections]
    return "\n\n".join(parts) + "\n"


def render_section(section: Section, figures_folder: str | None) -> str:
    """One section; figures are named, not linked, where there is no folder of theirs."""
    blocks = [render_block(block, figures_folder) for block in section.blocks]
    return "\n\n".join([f"## {escape(section.title)}", *blocks])


def render_block(block: Block, figures_folder: str | None) -> str:
    """One block."""
    match block:
        case Paragraph():
            return inline(block.text)
        case Bullets():
            return "\n".join(f"- {inline(item)}" for item in block.items)
        case Commands():
            fence = "`" * max(3, 1 + max(map(_longest_run, block.lines), default=0))
            return "\n".join([f"{fence}console", *map(clean, block.lines), fence])
        case Table():
            return _table(block)
        case Figure():
            return _figure(block, figures_folder)


def _table(table: Table) -> str:
    if not table.rows:
        return f"**{escape(table.caption)}**: none."
    rule = ["--:" if name in table.numbers else "---" for name in table.head]
    lines = [_row([inline(name, in_table=True) for name in table.head]), _row(rule)]
    lines += [_row([inline(cell, in_table=True) for cell in row]) for row in table.rows]
    return "\n".join([f"**{escape(table.caption)}**", "", *lines])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _figure(figure: Figure, folder: str | None) -> str:
    text = f"**{escape(figure.title)}.** {escape(figure.reading)}"
    if folder is None:
        return f"{text} File {inline(Quoted(f'figures/{figure.name}.svg'))}."
    return f"![{escape(figure.title)}]({folder}/{figure.name}.svg)\n\n{text}"


def inline(text: Text, *, in_table: bool = False) -> str:
    """A text as Markdown of one line."""
    rendered = "".join(_piece(piece, in_table=in_table) for piece in pieces(text))
    return rendered if in_table else _LINE_START.sub(r"\1\\\2", rendered)


def _piece(piece: Piece, *, in_table: bool) -> str:
    if isinstance(piece, Quoted):
        return _code(clean(piece.text), in_table=in_table)
    text = f"**{escape(piece.text)}**" if isinstance(piece, Strong) else escape(piece)
    return text.replace("|", "\\|") if in_table else text


def escape(text: str) -> str:
    """Plain text: every sign that Markdown or a forge reads as more than itself is disarmed."""
    leading, trailing = " " * text.startswith(" "), " " * text.endswith(" ")
    line = clean(text)
    line = _SPECIAL.sub(lambda match: f"\\{match[0]}", line)
    line = _UNDERSCORE.sub(r"\\_", line)
    line = _REFERENCE.sub(rf"\1{_JOINER}", line)
    line = _ADDRESS.sub(lambda match: f"{match[1]}{_JOINER}:" if match[1] else f"{match[2]}{_JOINER}", line)
    return f"{leading}{line}{trailing}" if line else leading


def _code(text: str, *, in_table: bool) -> str:
    """A code span; in a table, whose cells end at a bar even inside code, a text with bars becomes character references."""
    if not text:
        return "(empty)"
    if in_table and "|" in text:
        return f"<code>{_PUNCTUATION.sub(lambda match: f'&#{ord(match[0])};', text)}</code>"
    fence = "`" * (_longest_run(text) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall(r"`+", text)), default=0)
