"""Workloads recomputed on the host."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import make_plan, profile

from ep_campaign.workload import MAX_ELEMENTS, count, expert_ids, input_digests, route_workload
from ep_worker.contract.accounting import count_route
from ep_worker.contract.spec import Route, Shape
from ep_worker.contract.workload import RouteKind

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan
    from ep_worker.contract.spec import StartSpec

PUBLISHED_SEED = 20260824
PUBLISHED_ROUTE = "2faaa30925b7e296347a15963d52ab5f828cccbced161eac81c84c3134f26884"
PUBLISHED_INPUT = "829eba61c7ee2f8a7ff38ac4a993ee4508b1d7e6dd1e2182be31943d13e58ed2"


def _spec(plan: Plan) -> StartSpec:
    return plan.spec(plan.starts[0])


def test_the_published_digests_are_reproduced(tmp_path: Path) -> None:
    """The affine formula gives the route and input digests that the 2026 campaigns printed for EP 16, 128 tokens."""
    shape = Shape("decode", 128, 128, hidden=7168, experts=256, top_k=8)
    affine = Route("affine", RouteKind.AFFINE, PUBLISHED_SEED, (128,) * 16)
    spec = replace(_spec(make_plan(tmp_path)), input_kind="affine", shape=shape, ep_size=16, domain_size=8)
    assert route_workload(spec, affine, tmp_path).digests["route_sha256"] == PUBLISHED_ROUTE
    assert input_digests(spec, affine)["input_sha256"] == PUBLISHED_INPUT
    assert 16 * 128 * 7168 < MAX_ELEMENTS  # so that validation recomputes them too


@pytest.mark.parametrize(
    "route",
    [
        {"name": "r", "kind": "uniform"},
        {"name": "r", "kind": "zipf"},
        {"name": "r", "kind": "grouped", "groups": 4, "groups_per_token": 2},
        {"name": "r", "kind": "masked", "masked_fraction": 0.5},
        {"name": "r", "kind": "ragged", "empty_ranks": 1},
        {"name": "r", "kind": "affine"},
    ],
    ids=lambda route: str(route["kind"]),
)
def test_every_kind_of_route_keeps_its_shape(tmp_path: Path, route: dict[str, object]) -> None:
    """Every rank has its tokens, every token distinct experts in range or none, every weight row its sum."""
    plan = make_plan(tmp_path, routes=[route], profiles=[profile("decode", 16)])
    spec = _spec(plan)
    experts = expert_ids(spec, spec.route("r"), tmp_path)
    made = route_workload(spec, spec.route("r"), tmp_path)
    assert tuple(len(expert_TK) for expert_TK in experts) == spec.route("r").num_tokens
    for expert_TK in experts:
        for row in expert_TK.tolist():
            kept = [expert for expert in row if expert >= 0]
            assert len(set(kept)) == len(kept)
            assert all(expert < spec.shape.experts for expert in kept)
    assert sum(map(sum, made.counts.num_selections)) == sum(int((e >= 0).sum()) for e in experts)


def test_a_trace_is_read_in_rank_order(tmp_path: Path) -> None:
    """Token g of the global numbering takes line g of the trace."""
    (tmp_path / "trace.csv").write_text("".join(f"{g % 8},{(g + 1) % 8}\n" for g in range(16)), encoding="ascii")
    plan = make_plan(tmp_path, routes=[{"name": "t", "kind": "trace", "trace": "trace.csv"}])
    spec = _spec(plan)
    here = replace(spec.route("t"), trace="trace.csv")
    experts = expert_ids(spec, here, tmp_path)
    # rank 1 begins at token 8: its first line is "0,1", its last (g = 15) "7,0"
    assert experts[1].tolist()[0] == [0, 1]
    assert experts[1].tolist()[-1] == [7, 0]


@settings(max_examples=60, deadline=None)
@given(data=st.data(), num_ranks=st.sampled_from([2, 4]), domain_size=st.sampled_from([1, 2]), top_k=st.integers(1, 4))
def test_counts_agree_with_the_contracts(data: st.DataObject, num_ranks: int, domain_size: int, top_k: int) -> None:
    """Listing distinct pairs and the contract's one-hot sums count the same rows, masked slots and empty ranks included."""
    row = st.lists(st.integers(-1, 7), min_size=top_k, max_size=top_k)
    ranks = [
        np.array(data.draw(st.lists(row, max_size=5)), dtype=np.int64).reshape(-1, top_k) for _ in range(num_ranks)
    ]
    assert count(ranks, 8, domain_size) == count_route(np, ranks, 8, domain_size)
