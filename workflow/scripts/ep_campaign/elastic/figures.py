"""The figures of an elastic campaign: what each load took at each width, and every token of one resize around its switch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter

from ep_campaign.elastic.tables import CHUNKS, REQUESTS
from ep_campaign.figures.sheet import Entry, Page, panels, words
from ep_campaign.figures.style import ALARM, GREY, MARK_PT, looks, save, style

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.layout import Results

SWEEP = "sweep"
_PANELS = (
    ("ttft_p50_ms", "TTFT p50 [ms]"),
    ("itl_p50_ms", "ITL p50 [ms]"),
    ("output_tokens_per_s", "output [tokens/s]"),
)
_ROW_MM, _RESIZE_MM = 52.0, 40.0
_LINES = ("-", "--", ":", "-.")
_NS_PER_S, _NS_PER_MS = 1e9, 1e6


def elastic_figure_names(plan: ElasticPlan) -> list[str]:
    """Names of the figures of a plan, without suffix."""
    return [SWEEP, *(f"resize-{state}-{arm}" for state in plan.resizes for arm in plan.arms)]


def draw_elastic_figures(plan: ElasticPlan, results: Results, statistics: dict[str, Any]) -> list[Path]:
    """Writes every figure as SVG and PNG; the same inputs give the same bytes."""
    results.figures.mkdir(parents=True, exist_ok=True)
    stamp = "" if statistics["state"] == "complete" else "PARTIAL"
    paths = []
    with style():
        paths += save(_sweep(plan, statistics, stamp), results.figures, SWEEP)
        for state in plan.resizes:
            for arm in plan.arms:
                figure = _resize(plan, results, statistics, state, arm, stamp)
                paths += save(figure, results.figures, f"resize-{state}-{arm}")
    return paths


def _sweep(plan: ElasticPlan, statistics: dict[str, Any], stamp: str) -> Figure:
    """Closed loops only: their concurrency is the axis. Every pass is a mark, lines join medians."""
    levels = [one for one in statistics["levels"] if one["concurrency"] is not None and one["num_passes"]]
    if not levels:
        return words(Page("Closed loops by width", stamp=stamp), ["No closed loop was measured."])
    arms = looks(tuple(plan.arms))
    lines = {state: _LINES[index % len(_LINES)] for index, state in enumerate(plan.sweeps)}
    legend = [
        Entry(
            f"{arm}, {state}",
            Line2D([], [], color=look.colour, marker=look.marker, ls=lines[state], ms=MARK_PT, lw=0.9),
        )
        for arm, look in arms.items()
        for state in plan.sweeps
    ]
    page = Page(
        "Closed loops by width",
        ["Each mark is one pass; lines join medians. A hollow mark is a pass whose client was late."],
        stamp,
        legend,
    )
    figure, axes = panels(page, 1, len(_PANELS), _ROW_MM)
    for axis, (metric, label) in zip(axes[0], _PANELS, strict=True):
        for arm, look in arms.items():
            for state in plan.sweeps:
                own = [one for one in levels if (one["arm"], one["state"]) == (arm, state)]
                _series(axis, own, metric, {"color": look.colour, "marker": look.marker, "ls": lines[state]})
        axis.set_xscale("log", base=2)
        ticks = sorted({one["concurrency"] for one in levels})
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.set_xlabel("concurrency")
        axis.set_ylabel(label)
        most = max((value for one in levels for value in one["metrics"][metric]["values"]), default=1.0)
        axis.set_ylim(0, 1.08 * most or 1.0)
    return _settled(figure)


def _series(axis: Axes, own: list[dict[str, Any]], metric: str, look: dict[str, Any]) -> None:
    points = [
        (one["concurrency"], one["metrics"][metric]["median"])
        for one in own
        if one["metrics"][metric]["median"] is not None
    ]
    axis.plot(*zip(*points, strict=True) if points else ((), ()), color=look["color"], ls=look["ls"], lw=0.9)
    for one in own:
        values = one["metrics"][metric]["values"]
        face = look["color"] if one["num_valid"] == one["num_passes"] else "none"
        axis.plot(
            [one["concurrency"]] * len(values),
            values,
            ls="",
            marker=look["marker"],
            ms=MARK_PT,
            mfc=face,
            mec=look["color"],
            mew=0.6,
        )


def _resize(
    plan: ElasticPlan, results: Results, statistics: dict[str, Any], state: str, arm: str, stamp: str
) -> Figure:
    """Gaps between tokens over time in the first counted round, with what the driver and the prober saw."""
    title = f"Resize {state} over {arm}, first counted round"
    rows = [one for one in statistics["resizes"] if (one["state"], one["arm"]) == (state, arm) and one["counted"]]
    if not rows:
        return words(Page(title, stamp=stamp), ["It was not measured."])
    first = min(rows, key=lambda one: one["round"])
    own = [one for one in rows if one["start"] == first["start"]]
    key = [("start", "==", first["start"]), ("attempt", "==", first["attempt"])]
    requests = pd.read_parquet(results.table(REQUESTS.name), filters=key)
    chunks = pd.read_parquet(results.table(CHUNKS.name), filters=key)
    load = requests[requests["phase"] == "load"]
    if load.empty:
        return words(Page(title, stamp=stamp), ["No load ran."])
    zero_ns = int(own[0]["sent_ns"])
    at_s, gap_ms = _gaps(chunks[chunks["has_content"] & (chunks["stream"] == "load")], zero_ns)
    page = Page(
        title,
        [
            "Each mark is a gap between two tokens of one request, at its end; time is from the request to resize.",
            "Shaded: from the request to its end. Red marks below: probes without a 200.",
        ],
        stamp,
    )
    figure, axes = panels(page, 1, 1, _RESIZE_MM)
    axis = axes[0][0]
    axis.plot(at_s, gap_ms, ls="", marker=".", ms=1.5, color=looks((arm,))[arm].colour, rasterized=False)
    for one in own:
        begin, end = (one["sent_ns"] - zero_ns) / _NS_PER_S, (one["ended_ns"] - zero_ns) / _NS_PER_S
        axis.axvspan(begin, end, color=GREY, alpha=0.15, lw=0)
        axis.text(
            begin,
            0.98,
            f"{one['old_width']} to {one['new_width']}: {one['verdict']}",
            va="top",
            transform=axis.get_xaxis_transform(),
        )
    failed = requests[(requests["phase"] == "probe") & ~requests["success"]]
    axis.plot(
        (failed["scheduled_ns"] - zero_ns) / _NS_PER_S,
        [0.02] * len(failed),
        ls="",
        marker="|",
        color=ALARM,
        transform=axis.get_xaxis_transform(),
    )
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")  # plain digits: mathematical text is off
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("time [s]")
    axis.set_ylabel("gap [ms]")
    return _settled(figure)


def _settled(figure: Figure) -> Figure:
    """The figure with its layout made and its panels on a grid of 1e-6: the layout's solver varies in the last digits."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for axis in figure.axes:
        left, bottom, width, height = (round(float(edge), 6) for edge in axis.get_position().bounds)
        axis.set_position((left, bottom, width, height))
    return figure


def _gaps(chunks: pd.DataFrame, zero_ns: int) -> tuple[list[float], list[float]]:
    ordered = chunks.sort_values(["number", "at_ns"])
    gap_ns = ordered.groupby("number")["at_ns"].diff()
    kept = gap_ns.notna() & (gap_ns > 0)
    return (
        list((ordered["at_ns"][kept] - zero_ns) / _NS_PER_S),
        list(gap_ns[kept] / _NS_PER_MS),
    )
