"""The boundaries and modes side by side: medians with intervals, the phases of a round-trip stacked."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from ep_campaign.figures.marks import draw_summary, interval_notes, nothing
from ep_campaign.figures.sheet import Entry, Page, arm_entries, panels, words
from ep_campaign.figures.style import GREY, INK, MARK_PT, SMALL_PT, Look, lighter, looks
from ep_campaign.numbers import TimeUnit, listing, time_unit
from ep_worker.contract.terms import Boundary, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ep_campaign.figures.names import FigureId
    from ep_campaign.figures.view import View
    from ep_campaign.summary import Cell, Level

_ROW_MM = 38.0
_GROUP = 0.8
"""Width of the bars of one boundary, of 1."""
_FAR = 1.5
"""An interval's end above so many times the largest median is cut off."""


_BARS = (
    "Bars: medians over starts; each phase is the slowest rank's own median, so the parts need not add up to the whole. "
    "Marks: median of the whole, with its exact interval."
)
_SINGLE_STARTS = "Marks: single starts, too few for a median."
_ALONE = "Compare arms within one boundary and mode, never across."


class _Phase(NamedTuple):
    """How one phase of a bar is drawn."""

    name: str
    lightness: float
    hatch: str


_PHASES = (_Phase("layout", 0.85, "xxxx"), _Phase("dispatch", 0.0, ""), _Phase("combine", 0.55, "////"))


def draw_boundaries(view: View, figure_id: FigureId) -> Figure:
    """The figure of one EP size and profile."""
    cells = view.cells_of(figure_id)
    page = Page(f"Boundaries and modes: {figure_id.of}", [_ALONE], view.stamp)
    levels = [level for level in view.roundtrips(cells) if level.values_us]
    if not levels:
        why = nothing(view, figure_id, cells, "any boundary or mode")
        return words(page, list(dict.fromkeys([*why, *_unsupported(view, cells)])))
    modes = [mode for mode in Mode if any(level.mode is mode for level in levels)]
    boundaries = [item for item in Boundary if any(level.boundary is item for level in levels)]
    has_bars = any(level.printable.summary for level in levels)
    page.lines = [f"{_BARS if has_bars else _SINGLE_STARTS} {_ALONE}"]
    styles = looks(view.arms)
    page.legend = [*arm_entries(styles, view.summary.head.reference), *_keys(levels)]
    page.notes = [*_same_note(levels), *interval_notes(levels), *_unsupported(view, cells)]
    figure, rows = panels(page, len(cells), len(modes), _ROW_MM)
    for cell, row in zip(cells, rows, strict=True):
        here = [level for level in levels if level.cell == cell.id]
        unit, top_us = _scale(here)
        for mode, panel in zip(modes, row, strict=True):
            _draw_panel(panel, view, [level for level in here if level.mode is mode], boundaries, unit, styles)
            panel.set_ylim(0, unit.of(top_us))
            panel.tick_params(axis="x", length=0)
            panel.yaxis.set_major_locator(MaxNLocator(5))
            if panel is not row[0]:
                panel.tick_params(labelleft=False)
        row[0].set_ylabel(f"{cell.route}, {cell.dtype.value}\nlatency [{unit.symbol}]")
    for mode, panel in zip(modes, rows[0], strict=True):
        primary = mode is view.summary.head.primary_mode
        panel.set_title(f"{mode.value} (primary)" if primary else mode.value, loc="left", pad=3)
    return figure


def _scale(levels: Sequence[Level]) -> tuple[TimeUnit, float]:
    medians = [level.median_us for level in levels if level.median_us is not None]
    values = [value for level in levels if not level.printable.summary for value in level.values_us]
    if not medians:
        return TimeUnit.MICROSECONDS, 1.0
    far = _FAR * max(medians)
    ends = [min(far, level.interval_us.hi) for level in levels if level.interval_us is not None]
    highest = max([*medians, *ends, *(min(far, value) for value in values)])
    return time_unit(medians), 1.12 * highest


def _draw_panel(
    panel: Axes, view: View, levels: list[Level], boundaries: list[Boundary], unit: TimeUnit, styles: dict[str, Look]
) -> None:
    width = _GROUP / len(view.arms)
    by_key = {(level.boundary, level.arm): level for level in levels}
    for group, boundary in enumerate(boundaries):
        for place, arm in enumerate(view.arms):
            x = group - _GROUP / 2 + width * (place + 0.5)
            level = by_key.get((boundary, arm))
            if level is None:
                panel.text(x, 0, "\N{MULTIPLICATION SIGN}", ha="center", va="bottom", color=GREY, fontsize=SMALL_PT)
            else:
                _draw_bar(panel, level, x, 0.92 * width, unit, styles[arm])
    panel.set_xticks(range(len(boundaries)), [boundary.value.replace("_", "_\n") for boundary in boundaries])
    panel.set_xlim(-0.55, len(boundaries) - 0.45)


def parts(level: Level) -> list[tuple[_Phase, float]]:
    """The phases of a bar from the bottom up [us]; the whole as one where it is not split."""
    found = [(phase, getattr(level, f"{phase.name}_us")) for phase in _PHASES]
    split = [(phase, value) for phase, value in found if value is not None]
    return split or [(_Phase("whole", 0.75, ""), level.median_us or 0.0)]


def _draw_bar(panel: Axes, level: Level, x: float, width: float, unit: TimeUnit, look: Look) -> None:
    if not level.printable.summary or level.median_us is None:
        draw_summary(panel, x, [unit.of(value) for value in level.values_us], look, MARK_PT)
        return
    base = 0.0
    for phase, value in parts(level):
        panel.bar(
            x,
            unit.of(value),
            width,
            bottom=unit.of(base),
            color=lighter(look.colour, phase.lightness),
            edgecolor=look.colour,
            hatch=phase.hatch,
            linewidth=0.5,
            linestyle="--" if level.same_as else "-",
            zorder=2,
        )
        base += value
    if level.interval_us is not None:
        ends = [unit.of(level.interval_us.lo), unit.of(level.interval_us.hi)]
        panel.plot([x, x], ends, color=INK, linewidth=1.0, zorder=3)
    draw_summary(panel, x, [unit.of(level.median_us)], look, MARK_PT)


def _keys(levels: Sequence[Level]) -> list[Entry]:
    shown = {phase.name for level in levels if level.printable.summary for phase, _ in parts(level)}
    entries = [
        Entry(
            phase.name,
            Patch(facecolor=lighter(GREY, phase.lightness), edgecolor=GREY, hatch=phase.hatch, linewidth=0.5),
        )
        for phase in (*_PHASES, _Phase("whole", 0.75, ""))
        if phase.name in shown
    ]
    entries = [Entry("round-trip, not split", item.handle) if item.name == "whole" else item for item in entries]
    if any(level.interval_us for level in levels):
        entries.append(Entry("interval", Line2D([], [], color=INK, linewidth=1.0)))
    return entries


def _same_note(levels: Sequence[Level]) -> list[str]:
    if not any(level.same_as and level.printable.summary for level in levels):
        return []
    return ["Dashed outline: the same work as an earlier boundary, measured once and shown under both names."]


def _unsupported(view: View, cells: Sequence[Cell]) -> list[str]:
    """One sentence for each reason why arms were not measured somewhere."""
    ids = {cell.id for cell in cells}
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for row in view.summary.unsupported:
        if row.cell in ids:
            reasons.setdefault((row.mode, row.reason), {})[row.arm] = None
    everyone = set(view.arms)
    return [
        f"{'Not measured' if mode == '*' else f'{mode} not measured'}, {'all arms' if set(arms) == everyone else listing(arms)}: "
        f"{reason}."
        for (mode, reason), arms in reasons.items()
    ]
