"""Bytes from the route, in named conventions; a bandwidth without its convention is not a number.

Legend: R ranks; a matrix [R][R] is indexed by source rank, then destination rank.

per_selection: one row for each (token, expert) pair: what low-latency kernels send, and what the published campaigns count.
rank_deduplicated: one row for each (token, destination rank): what normal-mode kernels send.
domain_deduplicated: one row for each (token, destination scale-up domain): what crosses the scale-out network when the
domain forwards inside itself. A fourth, measured link counters, is an observation and lives in a record's provenance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ep_worker.contract.terms import Dtype

FP8_BLOCK = 128
"""Columns that share one float32 scale in FP8 rows."""

Matrix = list[list[int]]

CONVENTIONS = ("per_selection", "rank_deduplicated", "domain_deduplicated")


@dataclass(frozen=True)
class RouteCounts:
    """What a route sends where, counted in rows.

    Attributes:
        num_selections: [R][R] (token, expert) pairs from a source rank to the experts of a destination rank.
        num_rows: [R][R] tokens of a source rank with at least one expert on the destination rank.
        num_domain_rows: [R][number of domains] tokens with at least one expert in the destination domain.
        domain_size: Ranks of one scale-up domain.
    """

    num_selections: Matrix
    num_rows: Matrix
    num_domain_rows: Matrix
    domain_size: int

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return {
            "domain_size": self.domain_size,
            "num_domain_rows": self.num_domain_rows,
            "num_rows": self.num_rows,
            "num_selections": self.num_selections,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RouteCounts:
        """Back from `as_json`."""
        return cls(value["num_selections"], value["num_rows"], value["num_domain_rows"], value["domain_size"])


def dispatch_row_bytes(dtype: Dtype, hidden: int) -> int:
    """Bytes of one dispatched row: 2 H in BF16; H plus a float32 scale for each 128 columns in FP8."""
    return 2 * hidden if dtype is Dtype.BF16 else hidden + hidden // FP8_BLOCK * 4


def combine_row_bytes(hidden: int) -> int:
    """Bytes of one combined row: BF16."""
    return 2 * hidden


def _split(counts: Matrix, local_column: list[int]) -> tuple[int, list[int], list[int]]:
    """Rows in all; for each source the rows that leave it; for each destination the rows that come to it from elsewhere."""
    total = sum(map(sum, counts))
    leaving = [sum(row) - row[column] for row, column in zip(counts, local_column, strict=True)]
    coming = [
        sum(row[target] for row, column in zip(counts, local_column, strict=True) if column != target)
        for target in range(len(counts[0]) if counts else 0)
    ]
    return total, leaving, coming


def payload_bytes(counts: RouteCounts, dtype: Dtype, hidden: int) -> dict[str, dict[str, int]]:
    """Bytes of one round-trip over all ranks, by convention.

    Returns:
        For each convention: `dispatch_all`, `dispatch_remote`, `combine_all`, `combine_remote` (bytes summed over ranks;
        remote leaves the rank, or the domain in `domain_deduplicated`) and `rank_max_remote`, the most bytes that any one
        rank's link carries in one direction: tokens that it sends and partial sums that it returns, or tokens that come to it and
        sums that come back. Of `domain_deduplicated`, whose rows come to a domain and no rank, what the source's link carries.
    """
    ranks = range(len(counts.num_rows))
    sources = {
        "per_selection": (counts.num_selections, list(ranks)),
        "rank_deduplicated": (counts.num_rows, list(ranks)),
        "domain_deduplicated": (counts.num_domain_rows, [rank // counts.domain_size for rank in ranks]),
    }
    there, back = dispatch_row_bytes(dtype, hidden), combine_row_bytes(hidden)
    table = {}
    for convention in CONVENTIONS:
        total, leaving, coming = _split(*sources[convention])
        remote = sum(leaving)
        if convention == "domain_deduplicated":
            most = max(leaving, default=0) * max(there, back)
        else:
            both = list(zip(leaving, coming, strict=True))
            most = max((max(out * there + into * back, into * there + out * back) for out, into in both), default=0)
        table[convention] = {
            "combine_all": total * back,
            "combine_remote": remote * back,
            "dispatch_all": total * there,
            "dispatch_remote": remote * there,
            "rank_max_remote": most,
        }
    return table


def count_route(xp: Any, expert_RTK: list[Any], num_experts: int, domain_size: int) -> RouteCounts:
    """Counts of a whole route.

    Args:
        xp: Array module, numpy or torch.
        expert_RTK: For each rank its int64 [T, K] expert ids, -1 where masked; T may differ between ranks.
        num_experts: Experts in all, spread evenly and in order over the ranks.
        domain_size: Ranks of one scale-up domain; divides the number of ranks.
    """
    num_ranks = len(expert_RTK)
    experts_per_rank = num_experts // num_ranks
    selections, rows, domain_rows = [], [], []
    for expert_TK in expert_RTK:
        target_TK = xp.where(expert_TK < 0, num_ranks, expert_TK // experts_per_rank)
        by_slot_TKR = target_TK[:, :, None] == xp.arange(num_ranks, dtype=xp.int64)[None, None, :]
        selections.append([int(n) for n in by_slot_TKR.sum((0, 1)).tolist()])
        by_rank_TR = by_slot_TKR.sum(1) > 0
        rows.append([int(n) for n in by_rank_TR.sum(0).tolist()])
        by_domain_TD = by_rank_TR.reshape(len(by_rank_TR), num_ranks // domain_size, domain_size).sum(2) > 0
        domain_rows.append([int(n) for n in by_domain_TD.sum(0).tolist()])
    return RouteCounts(selections, rows, domain_rows, domain_size)
