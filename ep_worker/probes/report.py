"""What probes found, as figures: medians over iterations of the slowest rank, and tables of them."""

from __future__ import annotations

from math import comb
from statistics import median
from typing import TYPE_CHECKING, Any

from ep_worker.contract.probe import kernel_medians_ns, slowest_median_ns
from ep_worker.contract.spec import PROFILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ep_worker.contract.probe import Found

MOST_OVERHEAD = 0.02
"""What this harness may add to a minimal loop."""
WITHIN, BEYOND, NOT_RESOLVED = "within 2 %", "beyond 2 %", "not resolved"
"""The interval of the ratio lies within, wholly beyond, or across the border."""


def overhead_ratios(by_rank: Sequence[Sequence[Mapping[str, Sequence[int]]]]) -> list[float]:
    """For each block the harness's median over the minimal loop's; [rank][block]."""
    ratios = []
    for block in zip(*by_rank, strict=True):
        ours, minimal = (slowest_median_ns([times[name] for times in block]) for name in ("ours", "minimal"))
        ratios.append(ours / minimal)
    return ratios


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """The narrowest pair of order statistics, alike from both ends, that holds the median with at least this probability.

    The extremes where there are too few values for it: P(both beyond rank k) = 2 * sum of C(n, i) / 2^n for i < k.
    """
    ordered, number = sorted(values), len(values)
    outside, rank = 2 / 2**number, 1
    while rank + 1 <= number // 2 and outside + 2 * comb(number, rank) / 2**number <= 1 - level:
        outside += 2 * comb(number, rank) / 2**number
        rank += 1
    return ordered[rank - 1], ordered[-rank]


def summary(kind: str, arm: str, found: Found) -> dict[str, Any]:
    """One arm's figures, or why it has none; `holds` where the check does."""
    if found.reason:
        return {"arm": arm, "holds": False, "reason": found.reason}
    if kind == PROFILE:
        return {"arm": arm, "holds": True, "median_ns": kernel_medians_ns([one["times_ns"] for one in found.by_rank])}
    ratios = overhead_ratios([one["blocks"] for one in found.by_rank])
    middle = median(ratios)
    low, high = median_interval(ratios)
    inside = low >= 1 - MOST_OVERHEAD and high <= 1 + MOST_OVERHEAD
    beyond = high < 1 - MOST_OVERHEAD or low > 1 + MOST_OVERHEAD
    verdict = WITHIN if inside else BEYOND if beyond else NOT_RESOLVED
    mode = found.by_rank[0]["mode"]
    minimal = median(
        slowest_median_ns([one["blocks"][block]["minimal"] for one in found.by_rank]) for block in range(len(ratios))
    )
    return {
        "arm": arm,
        "holds": verdict != BEYOND,
        "verdict": verdict,
        "mode": mode,
        "minimal_median_ns": minimal,
        "median_ratio": middle,
        "interval": [low, high],
        "ratios": ratios,
    }


def kernels(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of groups: kernel time (profiler, own process) [us]."""
    lines = ["| arm | group | median of the slowest rank [us] |", "|---|---|---|"]
    for row in rows:
        if not row["holds"]:
            lines.append(f"| {row['arm']} | **none**: {row['reason']} | |")
            continue
        lines += [f"| {row['arm']} | {name} | {value / 1000:.1f} |" for name, value in row["median_ns"].items()]
    return "\n".join(lines)


def overhead(rows: Sequence[Mapping[str, Any]]) -> str:
    """A table of arms: ratio of medians, block by block."""
    lines = [
        "| arm | mode | minimal loop [us] | ours / minimal, median | its 95 % interval | |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "reason" in row:
            lines.append(f"| {row['arm']} | | | **none**: {row['reason']} | | |")
            continue
        (low, high), ratio, us = row["interval"], row["median_ratio"], row["minimal_median_ns"] / 1000
        word = row["verdict"] if row["holds"] else f"**{row['verdict']}**"
        lines.append(f"| {row['arm']} | {row['mode']} | {us:.1f} | {ratio:.4f} | {low:.4f} to {high:.4f} | {word} |")
    return "\n".join(lines)
