"""Bytes from the route: against brute force, and against the published campaigns' own figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_worker.contract import workload
from ep_worker.contract.accounting import CONVENTIONS, RouteCounts, count_route, dispatch_row_bytes, payload_bytes
from ep_worker.contract.terms import Dtype


@st.composite
def routes(draw):
    """Ranks, domain size, experts, and for each rank a [T, K] route with masked slots and possibly no token."""
    num_domains, domain_size = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    num_ranks = num_domains * domain_size
    experts = num_ranks * draw(st.integers(1, 3))
    top_k = draw(st.integers(1, min(4, experts)))
    row = st.lists(st.integers(0, experts - 1), min_size=top_k, max_size=top_k, unique=True).flatmap(
        lambda ids: st.tuples(*[st.sampled_from([expert, workload.MASKED]) for expert in ids])
    )
    by_rank = [draw(st.lists(row, max_size=4)) for _ in range(num_ranks)]
    return num_ranks, domain_size, experts, [np.array(rows, dtype=np.int64).reshape(-1, top_k) for rows in by_rank]


@settings(max_examples=60, deadline=None)
@given(routes())
def test_counts_equal_brute_force(route):
    """Selections, deduplicated rows and domain rows are what counting one token at a time gives."""
    num_ranks, domain_size, experts, by_rank = route
    counts = count_route(np, by_rank, experts, domain_size)

    for source, expert_TK in enumerate(by_rank):
        targets = [[e // (experts // num_ranks) for e in row if e >= 0] for row in expert_TK.tolist()]
        assert counts.num_selections[source] == [sum(row.count(r) for row in targets) for r in range(num_ranks)]
        assert counts.num_rows[source] == [sum(r in row for row in targets) for r in range(num_ranks)]
        domains = [{rank // domain_size for rank in row} for row in targets]
        assert counts.num_domain_rows[source] == [
            sum(d in row for row in domains) for d in range(num_ranks // domain_size)
        ]
    assert counts == RouteCounts.from_json(counts.as_json())


@settings(max_examples=60, deadline=None)
@given(routes(), st.sampled_from(Dtype))
def test_conventions_are_ordered(route, dtype):
    """Deduplication never adds bytes, remote never exceeds all, and no rank sends more than all ranks together."""
    _num_ranks, domain_size, experts, by_rank = route
    table = payload_bytes(count_route(np, by_rank, experts, domain_size), dtype, 256)

    for phase in ("dispatch_all", "dispatch_remote", "combine_all", "combine_remote"):
        figures = [table[convention][phase] for convention in CONVENTIONS]
        assert figures == sorted(figures, reverse=True)
    for row in table.values():
        assert row["dispatch_remote"] <= row["dispatch_all"]
        assert row["rank_max_remote"] <= row["dispatch_remote"] + row["combine_remote"]


def test_published_payload_per_rank():
    """The published decode payload: 128 x 8 selections of 21,728 bytes (FP8) and 28,672 bytes (BF16) a rank."""
    by_rank = [
        workload.affine_experts(np, np.arange(rank * 128, (rank + 1) * 128, dtype=np.int64), 256, 8, 20260824)
        for rank in range(16)
    ]
    counts = count_route(np, by_rank, 256, 8)

    for dtype, per_rank in ((Dtype.FP8, 22_249_472), (Dtype.BF16, 29_360_128)):
        table = payload_bytes(counts, dtype, 7168)["per_selection"]
        assert per_rank * 16 == table["dispatch_all"] + table["combine_all"]
    # Every token of that route reaches 8 distinct ranks and both nodes: nothing is deduplicated between ranks.
    assert counts.num_rows == counts.num_selections
    assert [[128, 128]] * 16 == counts.num_domain_rows


@pytest.mark.parametrize(("dtype", "expected"), [(Dtype.BF16, 14336), (Dtype.FP8, 7168 + 56 * 4)])
def test_row_bytes(dtype, expected):
    """BF16 takes 2 bytes a column; FP8 one, and a float32 scale for each 128."""
    assert expected == dispatch_row_bytes(dtype, 7168)


def test_a_hot_receivers_link_counts_though_its_sender_sends_little():
    """3 ranks send 4 tokens each to rank 0: its link takes in 12 rows and gives 12 sums back; no sender's carries more than 4.

    BF16, 128 columns: a row and a sum are 256 B. Into rank 0: 12 x 256 of dispatch; out of it as much of combine.
    """
    by_rank = [np.full((4, 1), 0, dtype=np.int64) for _ in range(4)]
    table = payload_bytes(count_route(np, by_rank, 4, 4), Dtype.BF16, 128)

    assert 12 * 256 == table["rank_deduplicated"]["rank_max_remote"]
    assert 12 * 256 == table["rank_deduplicated"]["dispatch_remote"]


def test_a_link_carries_tokens_and_sums_in_one_direction():
    """2 ranks swap 2 tokens: each link carries 2 tokens out (FP8: 132 B each) and, for the other's 2, 2 sums of 256 B."""
    by_rank = [np.full((2, 1), other, dtype=np.int64) for other in (1, 0)]
    table = payload_bytes(count_route(np, by_rank, 2, 2), Dtype.FP8, 128)

    assert 2 * 132 + 2 * 256 == table["rank_deduplicated"]["rank_max_remote"]
