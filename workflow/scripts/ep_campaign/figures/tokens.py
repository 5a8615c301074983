"""Latency of every arm against tokens per rank, whole and phase by phase, and its ratio to the reference beneath."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from ep_campaign.figures.sheet import Entry, Page, arm_entries, panels, words
from ep_campaign.figures.style import ALARM, GREY, INK, Look, looks
from ep_campaign.numbers import TimeUnit, time_unit
from ep_campaign.report.words import RESOLVED
from ep_campaign.stats.verdict import Verdict
from ep_worker.contract.terms import Loop

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ep_campaign.figures.names import FigureId
    from ep_campaign.figures.view import View
    from ep_campaign.summary import Cell, Contrast, Level

_LOOPS = (Loop.ROUNDTRIP, Loop.DISPATCH, Loop.COMBINE)
_TITLES = {Loop.ROUNDTRIP: "round-trip", Loop.DISPATCH: "dispatch", Loop.COMBINE: "combine"}
_ROW_MM = 38.0
_MARK_PT, _RING_PT = 3.2, 7.5
_TICKS = (0.5, 0.67, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0, 3.0)
_ROOM = 1.06
_CAP_PT = 1.5


def draw_tokens(view: View, figure_id: FigureId) -> Figure:
    """The figure of one EP size."""
    reading = (
        f"{view.primary_text}. Medians over starts with exact intervals, where starts allow; else every start. Beneath: arm / "
        f"{view.summary.head.reference}, with exact interval; above 1 the arm is slower. All axes are logarithmic. Dispatch and "
        "combine are timed alone, with a fixed handle."
    )
    page = Page(f"Latency against tokens per rank: {figure_id.of}", [reading], view.stamp)
    tokens = {p.name: p.tokens_per_rank for p in view.summary.head.profiles if p.name in view.plan.token_profiles()}
    cells = [cell for cell in view.cells_of_size(figure_id.ep_size) if cell.profile in tokens]
    cells.sort(key=lambda cell: (cell.route, cell.dtype.value, tokens[cell.profile]))
    loops = [loop for loop in _LOOPS if any(True for _ in _levels(view, cells, loop))]
    if not loops:
        return words(page, [f"No start has a value at {view.primary_text}."])
    styles = looks(view.arms)
    page.legend = [*arm_entries(styles, view.summary.head.reference), *_rings(view, cells)]
    groups = [list(group) for _, group in groupby(cells, key=lambda cell: (cell.route, cell.dtype))]
    figure, grid = panels(page, 2 * len(groups), len(loops), _ROW_MM)
    for row, group in enumerate(groups):
        unit = time_unit(level.median_us for loop in loops for level in _levels(view, group, loop))
        for column, loop in enumerate(loops):
            above, below = grid[2 * row][column], grid[2 * row + 1][column]
            _draw_latency(above, view, group, loop, tokens, unit, styles)
            _draw_ratio(below, view, group, loop, tokens, styles)
            title = f"{group[0].route}, {group[0].dtype.value}: {_TITLES[loop]}"
            above.set_title(f"{title} [{unit.symbol}]", loc="left", pad=3)
            for panel in (above, below):
                _token_axis(panel, [tokens[cell.profile] for cell in group], labels=panel is below)
    return figure


def _levels(view: View, cells: Sequence[Cell], loop: Loop) -> Iterator[Level]:
    head = view.summary.head
    for cell in cells:
        for arm in view.arms:
            level = view.level(cell.id, arm, head.primary_boundary, head.primary_mode, loop)
            if level is not None and level.values_us:
                yield level


def _draw_latency(
    panel: Axes,
    view: View,
    cells: Sequence[Cell],
    loop: Loop,
    tokens: dict[str, int],
    unit: TimeUnit,
    styles: dict[str, Look],
) -> None:
    panel.set_yscale("log")
    for arm in view.arms:
        look, line = styles[arm], []
        for level in (item for item in _levels(view, cells, loop) if item.arm == arm):
            x = tokens[level.profile]
            shown = [level.median_us] if level.printable.summary and level.median_us else level.values_us
            values = [unit.of(value) for value in shown if value is not None]
            panel.plot([x] * len(values), values, look.marker, color=look.colour, markersize=_MARK_PT, zorder=3)
            if level.printable.summary and level.median_us:
                line.append((x, unit.of(level.median_us)))
            if level.interval_us is not None:
                ends = [unit.of(level.interval_us.lo), unit.of(level.interval_us.hi)]
                panel.plot([x, x], ends, "_-", color=look.colour, linewidth=0.9, markersize=_CAP_PT, zorder=2)
        if line:
            panel.plot(*zip(*line, strict=True), color=look.colour, linewidth=0.9, zorder=2)
    panel.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    panel.yaxis.set_minor_locator(NullLocator())


def _draw_ratio(
    panel: Axes, view: View, cells: Sequence[Cell], loop: Loop, tokens: dict[str, int], styles: dict[str, Look]
) -> None:
    panel.set_yscale("log")
    panel.axhline(1.0, color=GREY, linewidth=0.8)
    ends = [1 / _ROOM, _ROOM]
    for contrast in _contrasts(view, cells, loop):
        look, x = styles[contrast.arm], tokens[contrast.profile]
        if contrast.ratio is None or contrast.interval is None:
            panel.plot([x] * len(contrast.ratios), contrast.ratios, look.marker, color=look.colour, markersize=2.0)
            ends += contrast.ratios
            continue
        lo, hi = contrast.interval.lo, contrast.interval.hi
        ends += (lo, hi)
        panel.plot([x, x], [lo, hi], "_-", color=look.colour, linewidth=0.9, markersize=_CAP_PT, zorder=2)
        panel.plot(x, contrast.ratio, look.marker, color=look.colour, markersize=_MARK_PT, zorder=3)
        if contrast.ruling is not None and contrast.ruling.verdict in RESOLVED:
            ring = ALARM if contrast.ruling.verdict is Verdict.SLOWER else INK
            panel.plot(x, contrast.ratio, "o", markerfacecolor="none", markeredgecolor=ring, markersize=_RING_PT)
    lowest, highest = min(ends) / _ROOM, max(ends) * _ROOM
    panel.set_ylim(lowest, highest)
    panel.yaxis.set_major_locator(FixedLocator([tick for tick in _TICKS if lowest <= tick <= highest]))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.yaxis.set_minor_locator(NullLocator())


def _contrasts(view: View, cells: Sequence[Cell], loop: Loop) -> list[Contrast]:
    head, ids = view.summary.head, {cell.id for cell in cells}
    primary = (head.primary_boundary, head.primary_mode, loop)
    return [
        item
        for item in view.summary.contrasts
        if item.cell in ids and (item.boundary, item.mode, item.loop) == primary and item.rounds
    ]


def _rings(view: View, cells: Sequence[Cell]) -> list[Entry]:
    """Legend entries of the rings that are drawn."""
    verdicts = {
        item.ruling.verdict for loop in _LOOPS for item in _contrasts(view, cells, loop) if item.ruling is not None
    }
    rings = ((Verdict.SLOWER, "judged slower", ALARM), (Verdict.FASTER, "judged faster", INK))
    return [
        Entry(
            name,
            Line2D([], [], marker="o", markerfacecolor="none", markeredgecolor=colour, linestyle="none", markersize=6),
        )
        for verdict, name, colour in rings
        if verdict in verdicts
    ]


def _token_axis(panel: Axes, tokens: Sequence[int], *, labels: bool) -> None:
    panel.set_xscale("log", base=2)
    panel.xaxis.set_major_locator(FixedLocator(sorted(set(tokens))))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.tick_params(axis="x", labelrotation=45, labelbottom=labels)
    if labels:
        panel.set_xlabel("tokens per rank")
