"""Every contrast at the primary boundary and mode: ratio, interval, practical threshold, and the verdict in words beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ep_campaign.figures.forest_rows import COLUMNS, HEADING_MM, NAME_MM, lay_out, ratio_ends
from ep_campaign.figures.marks import sentence
from ep_campaign.figures.ratios import RatioAxis, ratio_axis
from ep_campaign.figures.sheet import Entry, Page, sheet, words
from ep_campaign.figures.style import GREY, INK, SHADE, SMALL_PT, TEXT_PT, WIDTH_MM, Look, looks
from ep_campaign.numbers import level_text, listing, plural
from ep_campaign.stats.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ep_campaign.figures.forest_rows import Row
    from ep_campaign.figures.names import FigureId
    from ep_campaign.figures.view import View
    from ep_campaign.summary import Contrast

_FOOT_MM, _AXIS_MM, _MARGIN_MM = 10.0, 52.0, 2.0
_LARGE_PT, _TINY_PT = 4.5, 2.5


def draw_forest(view: View, figure_id: FigureId) -> Figure:
    """The figure of a whole campaign."""
    head = view.summary.head
    contrasts = view.primary_contrasts()
    threshold = head.family.practical_threshold
    reading = (
        f"{view.primary_text}. Ratio of latencies, arm over {head.reference}, on a logarithmic axis: below 1 the arm is "
        f"faster. Grey band: differences below the practical threshold of {100 * threshold:g} %."
    )
    page = Page(f"Every arm against {head.reference}: {figure_id.of}", [reading], view.stamp)
    if not contrasts:
        return words(page, ["Nothing is compared: no arm has a cell in common with the reference."])
    axis = ratio_axis(ratio_ends(contrasts))
    page.legend = _keys(contrasts)
    page.notes = _notes(view, contrasts, axis)
    rows, headings, rows_mm = lay_out(contrasts)
    body_mm = HEADING_MM + rows_mm + _FOOT_MM
    figure, (_, bottom, _, height) = sheet(page, body_mm)
    scale = height / body_mm
    left = (NAME_MM + _MARGIN_MM) / WIDTH_MM
    panel = figure.add_axes((left, bottom + _FOOT_MM * scale, _AXIS_MM / WIDTH_MM, rows_mm * scale))
    panel.set_ylim(rows_mm, 0)
    _dress(panel, axis, threshold)
    styles = looks(view.arms)
    for row in rows:
        _draw_row(panel, row, axis, styles[row.contrast.arm])
    for text, top_mm in headings:
        _write(panel, _MARGIN_MM, top_mm + HEADING_MM / 2, text, bold=True)
    for name, left_mm in COLUMNS:
        _write(panel, left_mm, -HEADING_MM / 2, name, bold=True)
    return figure


def _keys(contrasts: Sequence[Contrast]) -> list[Entry]:
    def mark(face: str, size: float = _LARGE_PT) -> Line2D:
        return Line2D([], [], color=INK, marker="o", markerfacecolor=face, markersize=size, linestyle="none")

    entries = [Entry("practical threshold", Patch(facecolor=SHADE, linewidth=0))]
    if any(map(_is_resolved, contrasts)):
        entries.append(Entry("faster or slower (filled)", mark(INK)))
    if any(contrast.interval and not _is_resolved(contrast) for contrast in contrasts):
        entries.append(Entry("no direction claimed (hollow)", mark("white")))
    if any(contrast.interval is None and contrast.ratios for contrast in contrasts):
        entries.append(Entry("one round", mark(INK, _TINY_PT)))
    return entries


def _notes(view: View, contrasts: Sequence[Contrast], axis: RatioAxis) -> list[str]:
    family = view.summary.head.family
    judged = "The campaign declares no family: nothing is judged."
    if family.num_contrasts:
        judged = (
            f"adj. p: {family.test.value.replace('_', '-')} test, Holm over the family of "
            f"{plural(family.num_contrasts, 'contrast')}, alpha {family.alpha:g}."
        )
    notes = [f"n: complete rounds. {judged}"]
    levels = {len(item.rounds): item.interval.level for item in contrasts if item.interval}
    if levels:
        listed = listing(f"{level_text(levels[n])} with {n} rounds" for n in sorted(levels, reverse=True))
        notes.append(f"Intervals are exact; their true level is {listed}.")
    withheld: dict[str, set[int]] = {}
    for item in contrasts:
        if item.interval is None and item.printable.sentence:
            withheld.setdefault(item.printable.sentence, set()).add(item.ep_size)
    notes += [sentence(f"EP {listing(map(str, sorted(sizes)))}: {text}") for text, sizes in withheld.items()]
    if any(map(axis.beyond, ratio_ends(contrasts))):
        notes.append("Arrowhead: beyond the axis; the number stands beside it.")
    return notes


def _dress(panel: Axes, axis: RatioAxis, threshold: float) -> None:
    panel.set_xlim(-axis.limit, axis.limit)
    panel.axvspan(axis.at(1 - threshold), axis.at(1 + threshold), facecolor=SHADE, linewidth=0, zorder=0)
    panel.axvline(0, color=INK, linewidth=0.8, zorder=1)
    panel.grid(visible=False)
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
    panel.set_xticks([axis.at(ratio) for ratio in axis.ticks], [f"{ratio:g}" for ratio in axis.ticks])
    panel.set_xlabel("t(arm) / t(reference)")
    titles: tuple[tuple[Literal["left", "right"], str], ...] = (
        ("left", "\N{LEFTWARDS ARROW} arm faster"),
        ("right", "arm slower \N{RIGHTWARDS ARROW}"),
    )
    for side, text in titles:
        panel.set_title(text, loc=side, fontsize=SMALL_PT, color=GREY, pad=3)


def _is_resolved(contrast: Contrast) -> bool:
    return contrast.ruling is not None and contrast.ruling.verdict in (Verdict.FASTER, Verdict.SLOWER)


def _draw_row(panel: Axes, row: Row, axis: RatioAxis, look: Look) -> None:
    contrast, y = row.contrast, row.middle_mm
    _write(panel, 2 * _MARGIN_MM, y, row.name)
    for (_, left_mm), text in zip(COLUMNS, row.texts, strict=True):
        _write(panel, left_mm, y, text, bold=_is_resolved(contrast) and text == row.texts[-1])
    if contrast.interval is None or contrast.ratio is None:
        for ratio in contrast.ratios:
            _draw_mark(panel, axis, ratio, y, look, look.colour, _TINY_PT)
        return
    ends = contrast.interval.lo, contrast.interval.hi
    panel.plot([axis.at(end) for end in ends], [y, y], color=look.colour, linewidth=1.4, zorder=3)
    for end in ends:
        if axis.beyond(end):
            _draw_mark(panel, axis, end, y, look, look.colour, _LARGE_PT)
    if not axis.beyond(contrast.ratio):
        _draw_mark(panel, axis, contrast.ratio, y, look, look.colour if _is_resolved(contrast) else "white", _LARGE_PT)


def _draw_mark(panel: Axes, axis: RatioAxis, ratio: float, y: float, look: Look, face: str, size: float) -> None:
    """A mark; an arrowhead at the end of the axis that the ratio lies beyond."""
    marker = look.marker
    if axis.beyond(ratio):
        marker = ">" if ratio > 1 else "<"
    panel.plot(
        axis.at(ratio),
        y,
        marker=marker,
        color=look.colour,
        markerfacecolor=face,
        markersize=size,
        linestyle="none",
        clip_on=False,
        zorder=4,
    )


def _write(panel: Axes, left_mm: float, y_mm: float, text: str, *, bold: bool = False) -> None:
    """Text at a place of the page: millimetres from its left edge, and from the top of the rows."""
    panel.text(
        (left_mm - NAME_MM - _MARGIN_MM) / _AXIS_MM,
        y_mm,
        text,
        transform=panel.get_yaxis_transform(),
        va="center",
        fontsize=TEXT_PT if bold else SMALL_PT,
        fontweight="bold" if bold else "normal",
        linespacing=1.15,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5} if bold else None,
    )
