"""Marks and notes that several figures share: a start, a late one, one that is missing, one that is above the axis."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from matplotlib.lines import Line2D

from ep_campaign.figures.sheet import Entry
from ep_campaign.figures.style import GREY, INK, SMALL_PT, Look
from ep_campaign.numbers import level_text, listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from ep_campaign.figures.names import FigureId
    from ep_campaign.figures.scale import Axis
    from ep_campaign.figures.view import View
    from ep_campaign.summary import Cell, Level

_HOLLOW = Line2D([], [], color=INK, marker="o", markerfacecolor="white", linestyle="none", markersize=4)
_CROSS = Line2D([], [], color=GREY, marker="x", linestyle="none", markersize=4)
START_KEYS = {
    "late": Entry("hollow: late start, run after its round had closed", _HOLLOW),
    "missing": Entry("planned start without an ok record", _CROSS),
}
_ARROW_FROM = 0.9
"""Where an arrow begins, as a share of the axis; values stand below."""
_LISTED = 3


def draw_start(panel: Axes, x: float, value_us: float, axis: Axis, look: Look, *, late: bool, size: float) -> None:
    """One start, `size` points wide; above the axis it becomes an arrow at the top, whose value `write_cut` adds."""
    if axis.cuts(value_us):
        top = axis.unit.of(axis.top_us)
        arrow = {"arrowstyle": "-|>", "color": look.colour, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
        panel.annotate("", (x, top), (x, _arrow_tail(panel, top)), arrowprops=arrow, zorder=5)
        return
    panel.plot(
        x,
        axis.unit.of(value_us),
        marker=look.marker,
        markersize=size,
        markerfacecolor="white" if late else look.colour,
        markeredgecolor=look.colour,
        markeredgewidth=0.7,
        linestyle="none",
        zorder=3,
    )


def write_cut(panel: Axes, x: float, values_us: Sequence[float], axis: Axis) -> None:
    """The values of the starts above the axis, below their arrows; the largest ones where there are many."""
    cut = sorted((value for value in values_us if axis.cuts(value)), reverse=True)
    if not cut:
        return
    more = f", +{len(cut) - _LISTED}" if len(cut) > _LISTED else ""
    listed = "; ".join(axis.unit.text(value) for value in cut[:_LISTED])
    write(panel, x, _arrow_tail(panel, axis.unit.of(axis.top_us)), listed + more, above=False)


def _arrow_tail(panel: Axes, top: float) -> float:
    return top - (1 - _ARROW_FROM) * (top - panel.get_ylim()[0])


def draw_summary(panel: Axes, x: float, values: Sequence[float], look: Look, size: float) -> None:
    """What stands for several starts (a median), or for each of them where they are too few: marks above everything."""
    panel.plot(
        [x] * len(values),
        values,
        marker=look.marker,
        color=look.colour,
        markersize=size,
        markeredgecolor=INK,
        markeredgewidth=0.4,
        linestyle="none",
        zorder=4,
    )


def draw_missing(panel: Axes, x: float) -> None:
    """A planned start without an ok record: a cross on the lower edge."""
    (cross,) = panel.plot(x, 0, marker="x", color=GREY, markersize=4, linestyle="none", zorder=5)
    cross.set_transform(panel.get_xaxis_transform())
    cross.set_clip_on(False)


def write(panel: Axes, x: float, y: float, text: str, *, above: bool = True) -> None:
    """Small text centred just above, or below, a point."""
    panel.annotate(
        text,
        (x, y),
        (0, 4 if above else -1),
        textcoords="offset points",
        ha="center",
        va="bottom" if above else "top",
        fontsize=SMALL_PT,
        zorder=6,
    )


def interval_notes(levels: Sequence[Level]) -> list[str]:
    """What intervals are shown and their true level by number of starts, and why there are none where there are none."""
    true_levels = {len(level.values_us): level.interval_us.level for level in levels if level.interval_us is not None}
    notes = []
    if true_levels:
        listed = listing(f"{level_text(true_levels[n])} with {n} starts" for n in sorted(true_levels, reverse=True))
        notes.append(f"Intervals of medians are exact; their true level is {listed}.")
    withheld = {level.printable.sentence: None for level in levels if level.interval_us is None}
    return notes + [sentence(text) for text in withheld if text]


def nothing(view: View, figure_id: FigureId, cells: Sequence[Cell], where: str) -> list[str]:
    """Why a figure has nothing to draw, in sentences; `where` says at which boundary and mode it looked."""
    levels = [level for cell in cells for arm in view.arms if (level := view.primary(cell.id, arm))]
    ends: dict[tuple[str, int], str] = {}
    for level in levels:
        for item in level.missing:
            ends[(level.arm, item.round)] = (
                "never tried" if item.status is None else item.status.value.replace("_", " ")
            )
    counts = Counter(ends.values())
    became = f"; of its starts {listing(f'{number} {end}' for end, number in counts.items())}" if counts else ""
    return [f"No start of {figure_id.of} has a value at {where}{became}.", *absences(view, cells)]


def absences(view: View, cells: Sequence[Cell]) -> list[str]:
    """One sentence for each reason why an arm is absent from cells."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for arm in view.arms:
            if reason := view.why_absent(cell.id, arm):
                reasons.setdefault((arm, reason), []).append(f"{cell.route}/{cell.dtype.value}")
    return [
        f"{arm} cannot run {'here' if len(where) == len(cells) else 'in ' + listing(where)}: {reason}."
        for (arm, reason), where in reasons.items()
    ]


def sentence(text: str) -> str:
    """A clause as a sentence: capital and full stop."""
    return f"{text[0].upper()}{text[1:]}."
