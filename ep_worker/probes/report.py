"""What probes found, as figures: medians over iterations of the slowest rank, and tables of them."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from ep_worker.contract.spec import PROFILE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ep_worker.probes.launch import Found

MOST_OVERHEAD = 0.02
"""What this harness may add to a minimal loop."""


def slowest_median_ns(by_rank: Sequence[Sequence[int]]) -> float:
    """Median over iterations of the slowest rank [ns]; [rank][iteration]."""
    return float(median(max(row) for row in zip(*by_rank, strict=True)))


def kernel_medians_ns(by_rank: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, float]:
    """For each group of kernels that ran at all, its time on the slowest rank, median over iterations [ns]."""
    medians = {name: slowest_median_ns([times[name] for times in by_rank]) for name in by_rank[0]}
    return {name: value for name, value in medians.items() if value > 0}


def overhead_ratios(by_rank: Sequence[Sequence[Mapping[str, Sequence[int]]]]) -> list[float]:
    """For each block the harness's median over the minimal loop's; [rank][block]."""
    ratios = []
    for block in zip(*by_rank, strict=True):
        ours, minimal = (slowest_median_ns([times[name] for times in block]) for name in ("ours", "minimal"))
        ratios.append(ours / minimal)
    return ratios


def summary(kind: str, arm: str, found: Found) -> dict[str, Any]:
    """One arm's figures, or why it has none; `holds` where the check does."""
    if found.reason:
        return {"arm": arm, "holds": False, "reason": found.reason}
    if kind == PROFILE:
        return {"arm": arm, "holds": True, "median_ns": kernel_medians_ns([one["times_ns"] for one in found.by_rank])}
    ratios = overhead_ratios([one["blocks"] for one in found.by_rank])
    middle = median(ratios)
    mode = found.by_rank[0]["mode"]
    minimal = median(
        slowest_median_ns([one["blocks"][block]["minimal"] for one in found.by_rank]) for block in range(len(ratios))
    )
    return {
        "arm": arm,
        "holds": abs(middle - 1) <= MOST_OVERHEAD,
        "mode": mode,
        "minimal_median_ns": minimal,
        "median_ratio": middle,
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
    lines = ["| arm | mode | minimal loop [us] | ours / minimal, median | quartiles | |", "|---|---|---|---|---|---|"]
    for row in rows:
        if "reason" in row:
            lines.append(f"| {row['arm']} | | | **none**: {row['reason']} | | |")
            continue
        ordered = sorted(row["ratios"])
        low, high = ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
        word = "within 2 %" if row["holds"] else "**not within 2 %**"
        us, ratio = row["minimal_median_ns"] / 1000, row["median_ratio"]
        lines.append(f"| {row['arm']} | {row['mode']} | {us:.1f} | {ratio:.4f} | {low:.4f} to {high:.4f} | {word} |")
    return "\n".join(lines)
