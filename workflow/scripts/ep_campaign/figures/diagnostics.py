"""What speaks against the starts of each cell: the place in a round, drift over rounds, unstable starts."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from ep_campaign.figures.grid import cell_title, primary_levels
from ep_campaign.figures.marks import START_KEYS, nothing
from ep_campaign.figures.sheet import Entry, Page, arm_entries, panels, words
from ep_campaign.figures.style import ALARM, INK, MARK_PT, SMALL_PT, Look, looks
from ep_campaign.numbers import listing, p_text, plural
from ep_campaign.stats.diagnostics import DRIFT_RHO, UNSTABLE_MIN_STARTS, UNSTABLE_RATIO, UNSTABLE_SHARE, VETO_P
from ep_campaign.stats.printable import SUMMARY_MIN_N

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ep_campaign.figures.names import FigureId
    from ep_campaign.figures.view import View
    from ep_campaign.summary import Cell, Diagnostics, Level

_ROW_MM = 36.0
_LEAST_PERCENT, _MOST_PERCENT = 4.0, 40.0
_ROOM = 1.15
_SHOWN_RANKS = 4
_EDGE = 0.88
_ARROWHEAD_PT, _LINE_PT = 5.5, 8.8
RHO = "\N{GREEK SMALL LETTER RHO}"
_SPREAD = 0.5
"""Width that the arms of one place or round share."""


def draw_diagnostics(view: View, figure_id: FigureId) -> Figure:
    """The figure of one EP size and profile."""
    cells = view.cells_of(figure_id)
    reading = (
        f"{view.primary_text}. Each start as its difference from the median of its arm. Left: by its place in the round, "
        f"with the median of each place (bar). Right: by round. A red line is a veto: it takes the verdicts away."
    )
    page = Page(f"Order, drift and unstable starts: {figure_id.of}", [reading], view.stamp)
    shown = [cell for cell in cells if primary_levels(view, [cell])]
    if not shown:
        return words(page, nothing(view, figure_id, cells, view.primary_text))
    styles = looks(view.arms)
    levels = primary_levels(view, shown)
    page.legend = [*arm_entries(styles, view.summary.head.reference), *_keys(levels)]
    limit = _limit(levels)
    page.notes = _notes(levels)
    figure, rows = panels(page, len(shown), 2, _ROW_MM)
    for cell, (by_place, by_round) in zip(shown, rows, strict=True):
        _draw_by_place(by_place, view, cell, styles)
        _draw_by_round(by_round, view, cell, styles)
        for panel in (by_place, by_round):
            panel.set_ylim(-limit, limit)
            panel.axhline(0, color=INK, linewidth=0.6, zorder=1)
        by_place.set_ylabel("difference [%]")
        by_round.tick_params(labelleft=False)
        found = view.diagnostics(cell.id)
        _title(by_place, [Line(cell_title(cell), veto=False), order_line(found)])
        _title(by_round, [drift_line(found), unstable_line(found)])
    rows[-1][0].set_xlabel("place in the round")
    rows[-1][1].set_xlabel("round")
    return figure


class Line(NamedTuple):
    """One line above a panel, and whether it is a veto."""

    text: str
    veto: bool


def order_line(found: Diagnostics | None) -> Line:
    """What the test of the place says."""
    if found is None or found.order is None or found.order.num_rounds < SUMMARY_MIN_N:
        return Line("place: too few rounds complete over all arms", veto=False)
    what = "ORDER EFFECT" if found.order.veto else "place"
    text = f"{what}: p = {p_text(found.order.p)}"
    if len(found.order.mean_ranks) <= _SHOWN_RANKS:
        text += f"; mean ranks {', '.join(f'{rank:.1f}' for rank in found.order.mean_ranks)}"
    return Line(text, found.order.veto)


def drift_line(found: Diagnostics | None) -> Line:
    """Which arms drift, else the strongest correlation of value and round."""
    arms = found.arms if found is not None else ()
    if drifting := [item.arm for item in arms if item.drift_veto]:
        return Line(f"DRIFT: {listing(drifting)}", veto=True)
    tested = [item for item in arms if item.rho is not None and item.num_starts >= SUMMARY_MIN_N]
    if not tested:
        return Line("drift: too few starts", veto=False)
    most = max(tested, key=lambda item: abs(item.rho or 0.0))
    rho = f"{most.rho:+.2f}".replace("-", "\N{MINUS SIGN}")
    return Line(f"drift: largest {RHO} {rho}, p = {p_text(most.drift_p)} ({most.arm})", veto=False)


def unstable_line(found: Diagnostics | None) -> Line:
    """Which arms have unstable starts, else how many starts are far above their arm's median."""
    arms = found.arms if found is not None else ()
    if unstable := [item.arm for item in arms if item.unstable_veto]:
        return Line(f"UNSTABLE STARTS: {listing(unstable)}", veto=True)
    number = sum(len(item.unstable_rounds) for item in arms)
    text = f"{plural(number, 'start')} above {UNSTABLE_RATIO:g} x its arm's median" if number else "no unstable start"
    return Line(text, veto=False)


def _keys(levels: list[Level]) -> list[Entry]:
    return [START_KEYS["late"]] if any(level.late_rounds for level in levels) else []


def differences(level: Level) -> dict[int, float]:
    """By round, how far a start lies from the median of its arm [%]."""
    middle = median(level.values_us)
    return {number: 100 * (value / middle - 1) for number, value in zip(level.rounds, level.values_us, strict=True)}


def _limit(levels: list[Level]) -> float:
    most = max(abs(value) for level in levels for value in differences(level).values())
    return max(_LEAST_PERCENT, min(_MOST_PERCENT, _ROOM * most))


def _notes(levels: list[Level]) -> list[str]:
    vetoes = (
        f"Vetoes: place, p < {VETO_P:g} (Friedman); drift, p < {VETO_P:g} and |{RHO}| > {DRIFT_RHO:g} (Spearman); unstable, at "
        f"least {UNSTABLE_MIN_STARTS} starts and over {100 * UNSTABLE_SHARE:g} % above {UNSTABLE_RATIO:g} x their arm's median."
    )
    beyond = sum(abs(value) > _MOST_PERCENT for level in levels for value in differences(level).values())
    arrows = f"{plural(beyond, 'start')} beyond the axis, drawn as arrowheads; by round with their value [%]."
    return [vetoes, arrows] if beyond else [vetoes]


def _draw_by_place(panel: Axes, view: View, cell: Cell, styles: dict[str, Look]) -> None:
    by_place: dict[int, list[float]] = {}
    for arm in view.arms:
        level = view.primary(cell.id, arm)
        if level is None or not level.values_us:
            continue
        for number, value in differences(level).items():
            place = view.place(level, number)
            late = number in level.late_rounds
            _draw(panel, place + _offset(view, arm), value, styles[arm], late=late)
            if not late:
                by_place.setdefault(place, []).append(value)
    for place, values in by_place.items():
        panel.plot([place - 0.36, place + 0.36], [median(values)] * 2, color=INK, linewidth=1.4, zorder=4)
    panel.set_xlim(0.4, len(view.arms) + 0.6)
    panel.set_xticks(range(1, len(view.arms) + 1))


def _draw_by_round(panel: Axes, view: View, cell: Cell, styles: dict[str, Look]) -> None:
    num_rounds = 1
    for arm in view.arms:
        level = view.primary(cell.id, arm)
        if level is None or not level.values_us:
            continue
        num_rounds = level.num_rounds
        for number, value in differences(level).items():
            x = number + _offset(view, arm)
            _draw(panel, x, value, styles[arm], late=number in level.late_rounds)
            _name_arrow(panel, x, value, styles[arm])
    panel.set_xlim(0.4, num_rounds + 0.6)
    panel.set_xticks(range(1, num_rounds + 1, 1 + num_rounds // 13))


def _offset(view: View, arm: str) -> float:
    return _SPREAD * ((view.arms.index(arm) + 0.5) / len(view.arms) - 0.5)


def _draw(panel: Axes, x: float, value: float, look: Look, *, late: bool) -> None:
    """One start; beyond the axis, a larger arrowhead inside its edge."""
    beyond = abs(value) > _MOST_PERCENT
    edge = _EDGE * _MOST_PERCENT
    panel.plot(
        x,
        max(-edge, min(edge, value)) if beyond else value,
        marker=("^" if value > 0 else "v") if beyond else look.marker,
        markersize=_ARROWHEAD_PT if beyond else MARK_PT,
        markerfacecolor="white" if late else look.colour,
        markeredgecolor=look.colour,
        markeredgewidth=0.7,
        linestyle="none",
        zorder=3,
    )


def _name_arrow(panel: Axes, x: float, value: float, look: Look) -> None:
    """The value of a start beyond the axis, upright beside its arrowhead: rounds stand too close for anything wider."""
    if abs(value) <= _MOST_PERCENT:
        return
    up = value > 0
    panel.annotate(
        f"{value:+.0f}".replace("-", "\N{MINUS SIGN}"),
        (x, _EDGE * _MOST_PERCENT * (1 if up else -1)),
        (0, -_ARROWHEAD_PT if up else _ARROWHEAD_PT),
        textcoords="offset points",
        ha="center",
        va="top" if up else "bottom",
        rotation=90,
        fontsize=SMALL_PT,
        color=look.colour,
    )


def _title(panel: Axes, lines: list[Line]) -> None:
    """Two lines above a panel, the vetoes among them in red."""
    panel.set_title(
        " ", loc="left", pad=_LINE_PT + 3
    )  # keeps the room; the lines are drawn one by one for their colours
    for index, line in enumerate(reversed(lines)):
        panel.annotate(
            line.text,
            (0, 1),
            (0, 3 + _LINE_PT * index),
            xycoords="axes fraction",
            textcoords="offset points",
            fontsize=SMALL_PT,
            color=ALARM if line.veto else INK,
            fontweight="bold" if line.veto else "normal",
            annotation_clip=False,
        )
