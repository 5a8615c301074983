"""The plan: its matrix, order and digest, and that a start's specification follows from it alone."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import ARMS, make_plan, profile

from ep_campaign.errors import CampaignError
from ep_campaign.plan import read_plan
from ep_worker.contract.series import phases
from ep_worker.contract.spec import StartSpec
from ep_worker.contract.terms import Boundary, Loop, Mode

MODES = [mode.value for mode in Mode]


def test_every_arm_runs_every_profile_once_a_round(tmp_path):
    """2 profiles x 3 arms x 3 rounds are 18 starts, in rounds, with positions from 0."""
    plan = make_plan(tmp_path, profiles=[profile("decode"), profile("prefill", 32)])

    assert list(range(18)) == [start.position for start in plan.starts]
    counts = Counter((start.round, start.profile, start.arm) for start in plan.starts)
    assert {1} == set(counts.values())
    assert sorted(start.round for start in plan.starts) == [start.round for start in plan.starts]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**63 - 1), sets=st.integers(1, 3))
def test_plans_are_balanced_for_any_seed(tmp_path, seed, sets):
    """With whole Williams sets every arm stands in each place equally often, and cells lead a start equally often."""
    plan = make_plan(
        tmp_path,
        seed=seed,
        dtypes=["bf16", "fp8"],
        ep_sizes=[{"ranks": 2, "rounds": 6 * sets, "scored": False}],
    )

    places = Counter((start.arm, start.order_position) for start in plan.starts)
    first_cells = Counter((start.arm, start.cells[0]) for start in plan.starts)
    assert {2 * sets} == set(places.values())
    assert {3 * sets} == set(first_cells.values())


def test_fewer_rounds_of_one_ep_size_lie_between_the_others(tmp_path):
    """EP 4 with 2 rounds beside EP 2 with 6: its rounds begin with overall rounds 1 and 4, not all at one end."""
    plan = make_plan(tmp_path, ep_sizes=[{"ranks": r, "rounds": n, "scored": False} for r, n in ((2, 6), (4, 2))])

    sequence = [(start.ep_size, start.round) for start in plan.starts]
    assert 6 * 3 + 2 * 3 == len(sequence)
    second = sequence.index((4, 2))
    assert {1, 2, 3} <= {number for size, number in sequence[:second] if size == 2}
    assert {5, 6} <= {number for size, number in sequence[second:] if size == 2}


def test_the_digest_follows_the_campaign_and_nothing_else(tmp_path):
    """The same campaign in another folder has the same digest; another seed has another."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()

    assert make_plan(tmp_path / "a").digest == make_plan(tmp_path / "b").digest
    assert make_plan(tmp_path / "a").digest != make_plan(tmp_path / "a", seed=8).digest


def test_a_plan_file_reads_back_and_an_altered_one_is_refused(tmp_path):
    """What was written is read; a changed number, another schema and no JSON are refused by code."""
    plan = make_plan(tmp_path)
    path = tmp_path / "plan.json"
    path.write_text(plan.text())
    assert plan.document == read_plan(path).document

    for text, code in [
        (plan.text().replace('"seed": 7', '"seed": 8'), "plan_altered"),
        (plan.text().replace("campaign/plan/1", "campaign/plan/9"), "plan_schema"),
        (plan.text()[:100], "bad_plan"),
        ("[]", "bad_plan"),
    ]:
        path.write_text(text)
        with pytest.raises(CampaignError) as caught:
            read_plan(path)
        assert (code,) == caught.value.codes


def test_a_specification_survives_json(tmp_path):
    """Every start's specification is read back as it was written."""
    plan = make_plan(tmp_path, dtypes=["bf16", "fp8"], measurement={"modes": MODES, "iterations": 20})

    for start in plan.starts:
        spec = plan.spec(start)
        assert spec == StartSpec.from_json(json.loads(json.dumps(spec.as_json())))
        assert start.cells == tuple(cell.id for cell in spec.cells)


def test_every_boundary_and_mode_is_measured_or_rejected_never_absent(tmp_path):
    """For each cell the series and the rejected rows together are exactly boundaries x modes."""
    plan = make_plan(tmp_path, dtypes=["bf16", "fp8"], measurement={"modes": MODES, "iterations": 20})
    spec = plan.spec(plan.starts[0])

    seen = Counter((s.cell, s.boundary, s.mode) for s in spec.series if s.loop is Loop.ROUNDTRIP)
    seen += Counter((r.cell, r.boundary, r.mode) for r in spec.rejected)
    assert {1} == set(seen.values())
    assert {(c.id, b, m) for c in spec.cells for b in Boundary for m in Mode} == set(seen)
    assert {Mode.LAUNCH_HIDDEN, Mode.GRAPH, Mode.OVERLAPPED} == {r.mode for r in spec.rejected}
    assert all(r.reason and r.reason_code == "cpu_mode" for r in spec.rejected)


def test_equal_work_is_measured_once(tmp_path):
    """BF16 from BF16 input is the dispatch-ready work under another name; FP8 has its cast inside and is not."""
    plan = make_plan(tmp_path, dtypes=["bf16", "fp8"])
    spec = plan.spec(plan.starts[0])

    same = {(s.cell.rsplit("/")[-1], s.boundary): s.same_as for s in spec.series}
    assert Boundary.DISPATCH_READY is same["bf16", Boundary.BF16_READY]
    assert same["fp8", Boundary.BF16_READY] is None
    assert same["bf16", Boundary.GEMM_READY] is None


def test_phases_alone_are_measured_where_they_stand(tmp_path):
    """With BF16 input as the primary boundary, its round-trip may share samples; its phases alone have no twin to share."""
    primary = {"boundary": "bf16_ready", "mode": "host_start"}
    plan = make_plan(tmp_path, measurement={"primary": primary, "isolated_loops": True, "iterations": 20})
    spec = plan.spec(plan.starts[0])

    measured = {series.key for series in spec.series if series.same_as is None}
    alone = [series for series in spec.series if series.loop is not Loop.ROUNDTRIP]
    assert alone
    assert all(series.same_as is None and series.boundary is Boundary.BF16_READY for series in alone)
    for series in spec.series:
        if series.same_as is not None:
            assert (series.cell, series.same_as.value, series.mode.value, series.loop.value) in measured


def test_phases_follow_arm_and_mode(tmp_path):
    """An arm with a layout of its own is stamped in four phases, a cached one in three, a chain in one."""
    plan = make_plan(
        tmp_path, measurement={"modes": ["host_start", "chained"], "isolated_loops": True, "iterations": 20}
    )
    held = {}
    for start in plan.starts[:3]:
        entry = plan.capability(start.arm, "decode")
        for series in plan.spec(start).series:
            held[start.arm, series.mode.value, series.loop.value] = [p.value for p in phases(series, entry)]

    assert ["layout", "dispatch", "combine", "roundtrip"] == held["torch-a2a", "host_start", "roundtrip"]
    assert ["dispatch", "combine", "roundtrip"] == held["torch-a2a-cached", "host_start", "roundtrip"]
    assert ["roundtrip"] == held["torch-agrs", "chained", "roundtrip"]
    assert ["layout"] == held["torch-a2a", "host_start", "layout"]
    assert ("torch-agrs", "host_start", "layout") not in held


def test_what_an_arm_cannot_take_is_a_row_and_not_a_start(tmp_path):
    """An arm that needs a GPU has rejected rows with reason and source, and no start; the others run."""
    arms = [{"name": arm, "backend": arm} for arm in ARMS]
    plan = make_plan(tmp_path, arms=[*arms, {"name": "v2", "backend": "deepep-v2"}])

    rows = [row for row in plan.document["rejected"] if row["arm"] == "v2"]
    assert ["device"] == [row["reason_code"] for row in rows]
    assert "runs on cpu" in rows[0]["reason"]
    assert set(ARMS) == {start.arm for start in plan.starts}


def test_a_matrix_that_nothing_can_run_is_refused(tmp_path):
    """A CPU campaign of GPU arms is an empty matrix."""
    arms = [{"name": "a", "backend": "deepep-v2"}, {"name": "b", "backend": "deepep-v2"}]
    with pytest.raises(CampaignError) as caught:
        make_plan(tmp_path, arms=arms, reference="a")

    assert ("empty_matrix",) == caught.value.codes


def test_family_holds_scored_cells_that_the_filters_keep(tmp_path):
    """Two dtypes, two routes, one kept route: 2 contrasts a cell in 2 cells; EP 4 is described only."""
    plan = make_plan(
        tmp_path,
        dtypes=["bf16", "fp8"],
        routes=[{"name": "uniform", "kind": "uniform"}, {"name": "zipf", "kind": "zipf"}],
        family={"routes": ["zipf"]},
        ep_sizes=[{"ranks": 2, "rounds": 12}, {"ranks": 4, "rounds": 2, "scored": False}],
    )

    assert 4 == len(plan.contrasts)
    assert {"ep2/decode/zipf/bf16", "ep2/decode/zipf/fp8"} == {c["cell"] for c in plan.contrasts}
    assert ARMS[0] not in {c["arm"] for c in plan.contrasts}


def test_orders_are_balanced_over_the_arms_that_run(tmp_path):
    """One of four arms never runs: in 12 rounds each of the other three stands four times in each place."""
    arms = [{"name": arm, "backend": arm} for arm in ARMS] + [{"name": "never", "backend": "deepep-v2"}]
    plan = make_plan(tmp_path, arms=arms, ep_sizes=[{"ranks": 2, "rounds": 12, "scored": False}])

    assert {(arm, place): 4 for arm in ARMS for place in (1, 2, 3)} == Counter(
        (start.arm, start.order_position) for start in plan.starts
    )
    assert [] == [warning for warning in plan.document["warnings"] if warning["code"] == "order_unbalanced"]


def test_a_primary_mode_that_the_reference_cannot_take_is_refused(tmp_path):
    """Verdicts come from the primary mode: without the reference there, no campaign."""
    measurement = {"modes": ["host_start", "graph"], "primary": {"mode": "graph"}, "iterations": 20, "warmups": 2}
    with pytest.raises(CampaignError) as refused:
        make_plan(tmp_path, measurement=measurement)
    assert ("primary_never_runs",) == refused.value.codes


def test_the_family_holds_only_arms_that_the_primary_mode_takes(tmp_path):
    """On GPUs torch-a2a waits for the host and takes no graph: it is no contrast where graphs carry the verdicts."""
    plan = make_plan(
        tmp_path,
        device="cuda",
        reference="torch-agrs",
        ep_sizes=[{"ranks": 2, "rounds": 12}],
        measurement={"modes": ["host_start", "graph"], "primary": {"mode": "graph"}, "iterations": 20, "warmups": 2},
    )
    assert {"torch-a2a-cached"} == {contrast["arm"] for contrast in plan.contrasts}
