"""Start values of every arm from round to round: what a round shares, what drifts, what is missing or late."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from ep_campaign.figures.grid import cell_grid, cell_title, cut_note, placed, primary_axis, primary_levels
from ep_campaign.figures.marks import START_KEYS, absences, draw_start, nothing, write_cut
from ep_campaign.figures.sheet import Entry, Page, arm_entries, panels, words
from ep_campaign.figures.style import MARK_PT, SHADE, Look, looks
from ep_worker.contract.terms import Loop

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ep_campaign.figures.names import FigureId
    from ep_campaign.figures.scale import Axis
    from ep_campaign.figures.view import View
    from ep_campaign.summary import Cell, Level

_ROW_MM = 44.0
_ROOM, _ROOM_FOR_ARROWS = 0.12, 0.6
_LEAST_SPREAD = 0.02


def draw_rounds(view: View, figure_id: FigureId) -> Figure:
    """The figure of one EP size and profile."""
    cells = view.cells_of(figure_id)
    reading = f"{view.primary_text}. One line is one arm. The value axis does not begin at zero."
    page = Page(f"Round by round: {figure_id.of}", [reading], view.stamp)
    shown = primary_levels(view, cells)
    if not shown:
        return words(page, nothing(view, figure_id, cells, view.primary_text))
    styles = looks(view.arms)
    grid = cell_grid(cells, len(view.arms))
    axes = [_zoomed(primary_axis(view, row)) for row in grid]
    page.legend = [*arm_entries(styles, view.summary.head.reference), *_keys(view, cells, shown)]
    page.notes = [*cut_note(view, grid, axes), *absences(view, cells)]
    figure, rows = panels(page, len(grid), len(grid[0]), _ROW_MM)
    for axis, (row, row_panels) in zip(axes, placed(grid, rows), strict=True):
        for column, (cell, panel) in enumerate(zip(row, row_panels, strict=True)):
            _draw_panel(panel, view, cell, axis, styles)
            if column == 0:
                panel.set_ylabel(f"latency [{axis.unit.symbol}]")
            else:
                panel.tick_params(labelleft=False)
    for panel in rows[-1]:
        panel.set_xlabel("round")
    return figure


def _keys(view: View, cells: list[Cell], levels: list[Level]) -> list[Entry]:
    entries = []
    if any(excluded_rounds(view, cell) for cell in cells):
        patch = Patch(facecolor=SHADE, linewidth=0)
        entries.append(Entry("round excluded from some contrast", patch))
    if any(level.late_rounds for level in levels):
        entries.append(START_KEYS["late"])
    return entries


def excluded_rounds(view: View, cell: Cell) -> list[int]:
    """Rounds that some contrast of a cell leaves out."""
    contrasts = [item for item in view.primary_contrasts() if item.cell == cell.id and item.loop is Loop.ROUNDTRIP]
    return sorted({item.round for contrast in contrasts for item in contrast.excluded})


def _zoomed(axis: Axis) -> Axis:
    """The axis from just below the smallest value, with room for arrows only where there are any."""
    highest = axis.cut_us or axis.highest_us
    spread = max(highest - axis.lowest_us, _LEAST_SPREAD * highest)
    top_us = highest + (_ROOM_FOR_ARROWS if axis.cut_us else _ROOM) * spread
    return replace(axis, lowest_us=axis.lowest_us - _ROOM * spread, top_us=top_us)


def _draw_panel(panel: Axes, view: View, cell: Cell, axis: Axis, styles: dict[str, Look]) -> None:
    panel.set_ylim(axis.unit.of(axis.lowest_us), axis.unit.of(axis.top_us))
    for number in excluded_rounds(view, cell):
        panel.axvspan(number - 0.4, number + 0.4, facecolor=SHADE, linewidth=0, zorder=0)
    by_round: dict[int, list[float]] = {}
    num_rounds = 1
    for level in (view.primary(cell.id, arm) for arm in view.arms):
        if level is None:
            continue
        num_rounds = level.num_rounds
        _draw_line(panel, level, axis, styles[level.arm])
        for number, value in zip(level.rounds, level.values_us, strict=True):
            by_round.setdefault(number, []).append(value)
    for number, values in by_round.items():
        write_cut(panel, number, values, axis)
    panel.set_xlim(0.4, num_rounds + 0.6)
    every = 1 + num_rounds // 13
    panel.set_xticks(range(1, num_rounds + 1, every))
    panel.yaxis.set_major_locator(MaxNLocator(5))
    panel.set_title(cell_title(cell), loc="left", pad=3)


def _draw_line(panel: Axes, level: Level, axis: Axis, look: Look) -> None:
    values = list(zip(level.rounds, level.values_us, strict=True))
    within = [(number, value) for number, value in values if not axis.cuts(value)]
    # Neighbouring rounds only: a line across a missing round would show a value that nobody measured.
    for _, run in groupby(enumerate(within), key=lambda item: item[1][0] - item[0]):
        points = [point for _, point in run]
        xs, ys = [number for number, _ in points], [axis.unit.of(value) for _, value in points]
        panel.add_line(Line2D(xs, ys, color=look.colour, linewidth=0.8, zorder=2))
    for number, value in values:
        draw_start(panel, number, value, axis, look, late=number in level.late_rounds, size=MARK_PT)
