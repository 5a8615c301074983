"""Latency and input tokens per second of every arm over EP sizes: described, never judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, MaxNLocator

from ep_campaign.figures.marks import draw_summary
from ep_campaign.figures.sheet import Page, arm_entries, panels, words
from ep_campaign.figures.style import Look, looks
from ep_campaign.numbers import TimeUnit, time_unit

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ep_campaign.figures.names import FigureId
    from ep_campaign.figures.view import View
    from ep_campaign.summary import EpAxis, EpPoint

_ROW_MM = 40.0
_SPREAD = 0.5
_MARK_PT = 4.0
_US_PER_S = 1e6
_ROOM = 1.15


def draw_ep_sizes(view: View, figure_id: FigureId) -> Figure:
    """The figure of a whole campaign."""
    reading = (
        f"{view.primary_text}. Medians over starts with exact intervals; single starts where they are too few. Tokens of all "
        "ranks per second is the only throughput that compares across EP sizes. No verdict is made across sizes."
    )
    page = Page(f"EP sizes side by side: {figure_id.of}", [reading], view.stamp)
    rows: dict[tuple[str, str, str], list[EpAxis]] = {}
    for axis in view.summary.ep_axes:
        if axis.points:
            rows.setdefault((axis.profile, axis.route, axis.dtype.value), []).append(axis)
    if not rows:
        return words(page, [f"No start of any EP size has a value at {view.primary_text}."])
    sizes = sorted(size.ranks for size in view.summary.head.ep_sizes)
    styles = looks(view.arms)
    page.legend = arm_entries(styles, view.summary.head.reference)
    page.notes = _notes(view)
    figure, grid = panels(page, len(rows), 2, _ROW_MM)
    for (key, axes), (latency, rate) in zip(rows.items(), grid, strict=True):
        unit = time_unit(point.median_us for axis in axes for point in axis.points)
        for axis in axes:
            _draw(latency, rate, view, axis, sizes, unit, styles[axis.arm])
        latency.set_title(f"{key[0]}, route {key[1]}, {key[2]}: latency [{unit.symbol}]", loc="left", pad=3)
        rate.set_title("input tokens per second", loc="left", pad=3)
        for panel in (latency, rate):
            panel.set_ylim(0, _ROOM * panel.get_ylim()[1])
            panel.yaxis.set_major_locator(MaxNLocator(5))
            panel.set_xlim(-0.5, len(sizes) - 0.5)
            panel.set_xticks(range(len(sizes)), [f"EP {size}" for size in sizes])
        rate.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    return figure


def _draw(latency: Axes, rate: Axes, view: View, axis: EpAxis, sizes: list[int], unit: TimeUnit, look: Look) -> None:
    offset = _SPREAD * ((view.arms.index(axis.arm) + 0.5) / len(view.arms) - 0.5)
    for point in axis.points:
        x = sizes.index(point.ep_size) + offset
        times_us, rates = shown_values(view, axis, point)
        draw_summary(latency, x, [unit.of(time_us) for time_us in times_us], look, _MARK_PT)
        draw_summary(rate, x, rates, look, _MARK_PT)
        if point.interval_us is not None:
            ends = [unit.of(point.interval_us.lo), unit.of(point.interval_us.hi)]
            latency.plot([x, x], ends, color=look.colour, linewidth=1.0, zorder=2)


def shown_values(view: View, axis: EpAxis, point: EpPoint) -> tuple[list[float], list[float]]:
    """Latencies [us] and input tokens per second to draw: the median, or each start where they are too few for one."""
    cell = f"ep{point.ep_size}/{axis.profile}/{axis.route}/{axis.dtype.value}"
    level = view.primary(cell, axis.arm)
    if level is None or level.printable.summary:
        return [point.median_us], [point.input_tokens_per_second]
    num_tokens = next(item.num_input_tokens for item in view.summary.head.cells if item.id == cell)
    return list(level.values_us), [num_tokens / value * _US_PER_S for value in level.values_us]


def _notes(view: View) -> list[str]:
    numbers: dict[int, set[int]] = {}
    for axis in view.summary.ep_axes:
        for point in axis.points:
            numbers.setdefault(point.ep_size, set()).add(point.num_starts)
    listed = "; ".join(
        f"EP {size}: {min(counts)}" + (f" to {max(counts)}" if len(counts) > 1 else "")
        for size, counts in sorted(numbers.items())
    )
    return [f"Starts of each arm: {listed}. Each size has rounds of its own."]
