"""The rows of the forest: which contrasts stand under which heading, and what is printed beside each."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from ep_campaign.figures.sheet import wrap_name
from ep_campaign.figures.style import CHAR_MM, WIDTH_MM
from ep_campaign.numbers import p_text, ratio_text
from ep_campaign.summary import Role
from ep_worker.contract.terms import Loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ep_campaign.summary import Contrast

LINE_MM, ROW_MM, HEADING_MM = 3.4, 5.0, 6.0
NAME_MM = 32.0
COLUMNS = (("n", 91.0), ("ratio [interval]", 97.0), ("adj. p", 126.0), ("verdict", 138.0))
"""Texts to the right of the axis, and where each begins [mm]."""
_VERDICT_CHARS = int((WIDTH_MM - 2.0 - COLUMNS[-1][1]) / 1.35)


@dataclass(frozen=True)
class Row:
    """One contrast, its place and its words.

    Attributes:
        contrast: Contrast.
        top_mm: Distance of its upper edge from the top of the body.
        height_mm: Height.
        name: Its arm, over as many lines as it needs.
        texts: One for each of `COLUMNS`.
    """

    contrast: Contrast
    top_mm: float
    height_mm: float
    name: str
    texts: tuple[str, ...]

    @property
    def middle_mm(self) -> float:
        """Distance of its middle from the top of the body."""
        return self.top_mm + self.height_mm / 2


def lay_out(contrasts: Sequence[Contrast]) -> tuple[list[Row], list[tuple[str, float]], float]:
    """Rows under the heading of their cell, from the top down; headings with their places; the height of all [mm]."""
    rows, headings, y_mm = [], [], 0.0
    for _, group in groupby(contrasts, key=lambda item: item.place):
        members = list(group)
        headings.append((heading(members), y_mm))
        y_mm += HEADING_MM
        for contrast in members:
            name, texts = wrap_name(contrast.arm, int((NAME_MM - 4) / CHAR_MM)), row_texts(contrast)
            num_lines = max(text.count("\n") for text in (name, *texts)) + 1
            rows.append(Row(contrast, y_mm, ROW_MM + LINE_MM * (num_lines - 1), name, texts))
            y_mm += rows[-1].height_mm
    return rows, headings, y_mm


def heading(contrasts: Sequence[Contrast]) -> str:
    """A cell in words: `EP 2, decode, route uniform, fp8`; that it is not judged where none of its contrasts is."""
    first = contrasts[0]
    phase = "" if first.loop is Loop.ROUNDTRIP else f", {first.loop.value} alone"
    text = f"EP {first.ep_size}, {first.profile}, route {first.route}, {first.dtype.value}{phase}"
    return text if any(item.role is Role.FAMILY for item in contrasts) else f"{text} (described, not judged)"


def row_texts(contrast: Contrast) -> tuple[str, ...]:
    """Complete rounds, ratio with interval, adjusted p, and verdict, as printed beside the axis."""
    if contrast.ratio is not None and contrast.interval is not None:
        ratio = f"{ratio_text(contrast.ratio)} [{ratio_text(contrast.interval.lo)}, {ratio_text(contrast.interval.hi)}]"
    elif contrast.ratio_of_medians is not None:
        ratio = f"{ratio_text(contrast.ratio_of_medians)} (of medians)"
    else:
        ratio = ", ".join(map(ratio_text, contrast.ratios)) or "no complete round"
    verdict = str(contrast.ruling) if contrast.ruling else "described"
    p = p_text(contrast.adjusted_p if contrast.printable.verdicts else None)
    return str(len(contrast.rounds)), ratio, p, wrap_words(verdict, _VERDICT_CHARS)


def wrap_words(text: str, max_chars: int) -> str:
    """A text over several lines."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > max_chars:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def ratio_ends(contrasts: Sequence[Contrast]) -> Iterator[float]:
    """Every ratio that is drawn: the ends of intervals, and single rounds where there is no interval."""
    for contrast in contrasts:
        if contrast.interval is not None:
            yield from (contrast.interval.lo, contrast.interval.hi)
        else:
            yield from contrast.ratios
