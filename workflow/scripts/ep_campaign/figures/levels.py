"""Every start of every cell at the primary boundary and mode, with median and exact interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from ep_campaign.figures.grid import cell_grid, cell_title, cut_note, placed, primary_axis, primary_levels
from ep_campaign.figures.marks import (
    START_KEYS,
    absences,
    draw_missing,
    draw_start,
    interval_notes,
    nothing,
    write,
    write_cut,
)
from ep_campaign.figures.sheet import Entry, Page, panels, words, wrap_name
from ep_campaign.figures.style import (
    CHAR_MM,
    GREY,
    INK,
    MARK_PT,
    MIN_MARK_PT,
    POINTS_PER_MM,
    SMALL_PT,
    WIDTH_MM,
    Look,
    looks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ep_campaign.figures.names import FigureId
    from ep_campaign.figures.scale import Axis
    from ep_campaign.figures.view import View
    from ep_campaign.summary import Cell, Level

_ROW_MM = 46.0
_STARTS_FROM, _STARTS_TO, _MEDIAN_AT = -0.32, 0.16, 0.32
_LABELS_MM = 16.0


def draw_levels(view: View, figure_id: FigureId) -> Figure:
    """The figure of one EP size and profile."""
    cells = view.cells_of(figure_id)
    reading = (
        f"{view.primary_text}. One mark is one start: the median over its iterations of the slowest rank. "
        "Marks run from left to right by round."
    )
    page = Page(f"Latency of every start: {figure_id.of}", [reading], view.stamp)
    shown = primary_levels(view, cells)
    if not shown:
        return words(page, nothing(view, figure_id, cells, view.primary_text))
    if any(level.printable.summary for level in shown):
        page.lines = [f"{reading} The number beside them is their median."]
    grid = cell_grid(cells, len(view.arms))
    axes = [primary_axis(view, row) for row in grid]
    page.legend = _keys(shown)
    page.notes = [*interval_notes(shown), *cut_note(view, grid, axes), *absences(view, cells)]
    figure, rows = panels(page, len(grid), len(grid[0]), _ROW_MM)
    styles = looks(view.arms)
    for axis, (row, row_panels) in zip(axes, placed(grid, rows), strict=True):
        for column, (cell, panel) in enumerate(zip(row, row_panels, strict=True)):
            column_mm = (WIDTH_MM / len(grid[0]) - _LABELS_MM) / len(view.arms)
            _draw_panel(panel, view, cell, axis, styles, column_mm)
            labels = _labels(view, cell, int(column_mm / CHAR_MM))
            panel.set_xticks(range(len(view.arms)), labels)
            if column == 0:
                panel.set_ylabel(f"latency [{axis.unit.symbol}]")
            else:
                panel.tick_params(labelleft=False)
    return figure


def _keys(levels: list[Level]) -> list[Entry]:
    entries = []
    if any(level.interval_us for level in levels):
        handle = Line2D([], [], color=INK, marker="|", markersize=8, markeredgewidth=1.2, linewidth=1.6)
        entries.append(Entry("median (bar) and its exact interval (line across it)", handle))
    if any(level.late_rounds for level in levels):
        entries.append(START_KEYS["late"])
    if any(level.missing for level in levels):
        entries.append(START_KEYS["missing"])
    return entries


def _labels(view: View, cell: Cell, max_chars: int) -> list[str]:
    """Names below the columns: the reference is named as such, and how many starts there are where some are missing."""
    labels = []
    for arm in view.arms:
        label = wrap_name(arm, max_chars)
        if arm == view.summary.head.reference:
            label += "\n(reference)" if max_chars >= len("(reference)") else "\n(ref.)"
        level = view.primary(cell.id, arm)
        if level is not None and len(level.values_us) != level.num_rounds:
            label += f"\n{len(level.values_us)} of {level.num_rounds}"
        labels.append(label)
    return labels


def _draw_panel(panel: Axes, view: View, cell: Cell, axis: Axis, styles: dict[str, Look], column_mm: float) -> None:
    panel.set_ylim(0, axis.unit.of(axis.top_us))
    for place, arm in enumerate(view.arms):
        level = view.primary(cell.id, arm)
        if level is None:
            middle = axis.unit.of(axis.top_us) / 2
            panel.text(place, middle, "cannot\nrun", ha="center", va="center", color=GREY, fontsize=SMALL_PT)
            continue
        _draw_starts(panel, level, place, axis, styles[arm], column_mm)
        if level.median_us is not None and level.printable.summary:
            _draw_median(panel, level, level.median_us, place, axis, styles[arm])
    panel.set_title(cell_title(cell), loc="left", pad=3)
    panel.set_xlim(-0.55, len(view.arms) - 0.45)
    panel.tick_params(axis="x", length=0)
    panel.yaxis.set_major_locator(MaxNLocator(5))


def _draw_starts(panel: Axes, level: Level, place: int, axis: Axis, look: Look, column_mm: float) -> None:
    step = (_STARTS_TO - _STARTS_FROM) / max(1, level.num_rounds - 1)
    size = min(MARK_PT, max(MIN_MARK_PT, POINTS_PER_MM * step * column_mm))
    values = dict(zip(level.rounds, level.values_us, strict=True))
    for number in range(1, level.num_rounds + 1):
        x = place + _STARTS_FROM + step * (number - 1)
        if number in values:
            draw_start(panel, x, values[number], axis, look, late=number in level.late_rounds, size=size)
        else:
            draw_missing(panel, x)
    write_cut(panel, place + (_STARTS_FROM + _STARTS_TO) / 2, level.values_us, axis)


def _draw_median(panel: Axes, level: Level, median_us: float, place: int, axis: Axis, look: Look) -> None:
    of, x = axis.unit.of, place + _MEDIAN_AT
    panel.plot([x - 0.08, x + 0.08], [of(median_us)] * 2, color=look.colour, linewidth=1.6, zorder=4)
    highest = median_us
    if level.interval_us is not None:
        highest = min(level.interval_us.hi, axis.cut_us or level.interval_us.hi)
        panel.plot([x, x], [of(level.interval_us.lo), of(highest)], color=look.colour, linewidth=1.2, zorder=4)
    write(panel, x, of(highest), axis.unit.text(median_us))
