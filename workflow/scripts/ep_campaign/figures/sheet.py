"""The page of a figure: title, stamp, legend and notes around a body of panels; nothing runs over its edge."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from ep_campaign.figures.style import (
    ALARM,
    CHAR_MM,
    GREY,
    INK,
    SMALL_PT,
    TEXT_PT,
    TITLE_PT,
    WIDTH_MM,
    Look,
    inches,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

_MARGIN_MM = 2.0
_TITLE_MM, _LINE_MM, _LEGEND_MM = 6.0, 3.6, 4.6
_GAP_MM = 2.0
_CHARS = int((WIDTH_MM - 2 * _MARGIN_MM) / CHAR_MM)
_HANDLE_MM = 9.0


@dataclass(frozen=True)
class Entry:
    """One entry of a legend: its name and the handle that draws its sample."""

    name: str
    handle: Any


@dataclass
class Page:
    """What surrounds the panels.

    Attributes:
        title: What is shown; one line.
        lines: How to read it, in sentences.
        stamp: What an unfinished campaign says in the corner.
        legend: Entries; empty for none.
        notes: What a reader must know of these data, below the panels.
    """

    title: str
    lines: Sequence[str] = ()
    stamp: str = ""
    legend: Sequence[Entry] = ()
    notes: list[str] = field(default_factory=list)


def sheet(page: Page, body_mm: float) -> tuple[Figure, tuple[float, float, float, float]]:
    """A figure with everything but its body, and the body's place in it (left, bottom, width, height; fractions)."""
    lines = _wrapped(page.lines)
    notes = _wrapped(page.notes)
    legend_rows = _legend_rows(page.legend)
    head_mm = _MARGIN_MM + _TITLE_MM + _LINE_MM * len(lines) + _LEGEND_MM * len(legend_rows) + _GAP_MM
    foot_mm = _MARGIN_MM + _LINE_MM * len(notes) + (_GAP_MM if notes else 0.0)
    height_mm = head_mm + body_mm + foot_mm
    figure = Figure(figsize=(inches(WIDTH_MM), inches(height_mm)))
    left = _MARGIN_MM / WIDTH_MM
    y_mm = height_mm - _MARGIN_MM
    figure.text(left, y_mm / height_mm, page.title, fontsize=TITLE_PT, fontweight="bold", va="top")
    if page.stamp:
        box = {"boxstyle": "square,pad=0.3", "facecolor": "white", "edgecolor": ALARM, "linewidth": 1.0}
        where = 1 - 1.5 * left, (y_mm - 0.8) / height_mm
        figure.text(
            *where, page.stamp, ha="right", va="top", color=ALARM, fontweight="bold", fontsize=TITLE_PT, bbox=box
        )
    y_mm -= _TITLE_MM
    for line in lines:
        figure.text(left, y_mm / height_mm, line, fontsize=TEXT_PT, va="top", color=GREY)
        y_mm -= _LINE_MM
    for row in legend_rows:
        _draw_legend(figure, row, y_mm / height_mm)
        y_mm -= _LEGEND_MM
    for index, note in enumerate(notes):
        y = (foot_mm - _GAP_MM - _LINE_MM * index) / height_mm
        figure.text(left, y, note, fontsize=SMALL_PT, va="top", color=INK)
    return figure, (left, foot_mm / height_mm, 1 - 2 * left, body_mm / height_mm)


def panels(page: Page, num_rows: int, num_columns: int, row_mm: float) -> tuple[Figure, list[list[Axes]]]:
    """A figure with a grid of panels in its body."""
    figure, rectangle = sheet(page, row_mm * num_rows)
    figure.set_layout_engine("constrained", rect=rectangle, w_pad=inches(0.8), h_pad=inches(1.2), wspace=0.02, hspace=0)
    grid = figure.subplots(num_rows, num_columns, squeeze=False)
    return figure, [list(row) for row in grid]


def words(page: Page, sentences: Sequence[str]) -> Figure:
    """A figure that has nothing to draw and says why."""
    lines = _wrapped(sentences)
    figure, (left, bottom, _, height) = sheet(page, 10 + 4.0 * len(lines))
    for index, line in enumerate(lines):
        y = bottom + height * (1 - (5 + 4.0 * index) / (10 + 4.0 * len(lines)))
        figure.text(left, y, line, fontsize=TEXT_PT, va="center")
    return figure


def arm_entries(styles: dict[str, Look], reference: str) -> list[Entry]:
    """Legend entries of the arms: marker and colour, the reference named as such."""
    return [
        Entry(
            f"{arm} (reference)" if arm == reference else arm,
            Line2D([], [], color=look.colour, marker=look.marker, linestyle="none", markersize=4),
        )
        for arm, look in styles.items()
    ]


def wrap_name(name: str, max_chars: int) -> str:
    """A name over several lines, broken after hyphens and dots where it can be."""
    lines = [""]
    for part in name.replace("-", "-\0").replace(".", ".\0").split("\0"):
        if lines[-1] and len(lines[-1]) + len(part) > max_chars:
            lines.append("")
        lines[-1] += part
    return "\n".join(
        piece for line in lines for piece in textwrap.wrap(line, max(4, max_chars), break_on_hyphens=False)
    )


def _wrapped(sentences: Sequence[str]) -> list[str]:
    """Lines that fit; a number is never parted from its per cent."""
    kept = [sentence.replace(" %", "\N{NO-BREAK SPACE}%") for sentence in sentences]
    return [line for sentence in kept for line in textwrap.wrap(sentence, _CHARS)]


def _legend_rows(entries: Sequence[Entry]) -> list[list[Entry]]:
    rows: list[list[Entry]] = []
    used_mm = WIDTH_MM
    for entry in entries:
        wide_mm = _HANDLE_MM + CHAR_MM * len(entry.name)
        if used_mm + wide_mm > WIDTH_MM - 2 * _MARGIN_MM:
            rows.append([])
            used_mm = 0.0
        rows[-1].append(entry)
        used_mm += wide_mm
    return rows


def _draw_legend(figure: Figure, row: list[Entry], y: float) -> None:
    legend = figure.legend(
        [entry.handle for entry in row],
        [entry.name for entry in row],
        loc="upper left",
        bbox_to_anchor=(_MARGIN_MM / WIDTH_MM, y),
        ncols=len(row),
        borderpad=0.1,
        borderaxespad=0.0,
        handlelength=1.8,
        handletextpad=0.4,
        columnspacing=1.2,
    )
    legend.set_in_layout(False)
