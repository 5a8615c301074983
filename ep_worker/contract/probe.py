"""What a launch that is no scored start measured: read from its record, and made figures of."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any

from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Found:
    """What a probe left of one cell.

    Attributes:
        by_rank: For each rank what it measured; empty where there is nothing.
        reason: Why there is nothing; else empty.
    """

    by_rank: list[dict[str, Any]]
    reason: str


def found_in(record: Mapping[str, Any]) -> Found:
    """What a record of a probe holds, or why it holds nothing."""
    if record["status"] != Status.OK.value:
        return Found([], f"{record['status']} {record['reason_code']}: {record['reason']}")
    return Found(list(record["probe"]), "")


def slowest_median_ns(by_rank: Sequence[Sequence[int]]) -> float:
    """Median over iterations of the slowest rank [ns]; [rank][iteration]."""
    return float(median(max(row) for row in zip(*by_rank, strict=True)))


def kernel_medians_ns(by_rank: Sequence[Mapping[str, Sequence[int]]]) -> dict[str, float]:
    """For each group of kernels that ran at all, its time on the slowest rank, median over iterations [ns]."""
    medians = {name: slowest_median_ns([times[name] for times in by_rank]) for name in by_rank[0]}
    return {name: value for name, value in medians.items() if value > 0}
