"""The figures of a report, with what each shows and how to read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.figures import FigureId, Kind, figure_ids
from ep_campaign.report.document import Figure, Rank, Section

if TYPE_CHECKING:
    from ep_campaign.report.source import Source

_TITLES = {
    Kind.FOREST: "Every arm against the reference",
    Kind.LEVELS: "Latency of every start",
    Kind.ROUNDS: "Round by round",
    Kind.BOUNDARIES: "Boundaries and modes",
    Kind.DIAGNOSTICS: "Order, drift and unstable starts",
    Kind.EP_SIZES: "EP sizes side by side",
    Kind.TOKENS: "Latency against tokens per rank",
}
_READINGS = {
    Kind.FOREST: "Ratio of latencies with its exact interval; left of 1 the arm is faster. Filled marks carry a direction.",
    Kind.LEVELS: "One mark is one start, from left to right by round; beside them median and exact interval, where starts allow.",
    Kind.ROUNDS: "One line is one arm. Shaded rounds are excluded from some contrast; hollow marks are late starts.",
    Kind.BOUNDARIES: "Medians with their phases. Compare arms within one boundary and mode, never across.",
    Kind.DIAGNOSTICS: "Each start's difference from its arm's median, by its place in the round and by round. Red is a veto.",
    Kind.EP_SIZES: "Latency and input tokens per second of every arm; described, never judged across sizes.",
    Kind.TOKENS: "Above, medians with exact intervals; below, the ratio to the reference. Ringed points carry a direction.",
}


def figure_title(figure: FigureId) -> str:
    """What a figure shows and what it covers."""
    return f"{_TITLES[figure.kind]}: {figure.of}"


def gallery_section(source: Source) -> Section:
    """Every figure of the campaign."""
    blocks = tuple(Figure(item.name, figure_title(item), _READINGS[item.kind]) for item in figure_ids(source.plan))
    return Section("figures", "Figures", Rank.DETAIL, blocks)
