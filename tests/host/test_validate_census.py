"""The census: attempts, failures, excluded rounds, late starts, budgets, teardowns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plans import make_plan
from synthetic import Attempt, make_results

from ep_campaign.validate import State, validate
from ep_campaign.validate.census import Fact, late_starts
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ep_campaign.plan import Plan, Start

ROUND_2 = "ep2/decode/round-02/torch-agrs"
ROUND_6 = "ep2/decode/round-06/torch-a2a"


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Six rounds of three arms with a family of two contrasts."""
    family = {"alpha": 0.25}  # 1 + ceil(log2(2 / 0.25)) = 4 rounds decide it
    return make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 6}], family=family)


def test_failures_are_counted_by_attempt(tmp_path: Path, plan: Plan) -> None:
    """k of n attempts: an infrastructure failure and its retry, and a start that crashed for good."""
    infrastructure = Attempt(Status.CRASHED, infrastructure=True, reason_code="rendezvous_timeout")
    planted = {ROUND_2: (infrastructure, Attempt()), "ep2/decode/round-03/torch-agrs": (Attempt(Status.TIMED_OUT),)}
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=planted))
    arm = found.census["arms"]["torch-agrs"]
    assert (arm["num_attempts"], arm["num_failed_attempts"], arm["num_infrastructure_failures"]) == (7, 2, 1)
    first, second = arm["failures"]
    assert (first["start"], first["attempt"], first["status"], first["reason_code"]) == (
        ROUND_2,
        1,
        "crashed",
        "rendezvous_timeout",
    )
    assert (second["status"], second["reason_code"], second["scored"]) == ("timed_out", "watchdog", True)
    assert found.census["num_ok_starts"] == 17
    assert found.state is State.PARTIAL


def test_a_retry_in_the_slot_leaves_the_folder_complete(tmp_path: Path, plan: Plan) -> None:
    """What counts is the last attempt; an infrastructure failure before it is a number in the census."""
    planted = {ROUND_2: (Attempt(Status.CRASHED, infrastructure=True), Attempt())}
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=planted))
    assert found.violations == ()
    assert found.census["late_starts"] == []


def test_rounds_are_excluded_by_contrast(tmp_path: Path, plan: Plan) -> None:
    """An arm's failure excludes the round from its own contrast, the reference's from both."""
    planted = {ROUND_2: (Attempt(Status.CRASHED, after_series=0),), ROUND_6: (Attempt(Status.INCORRECT),)}
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=planted))
    excluded = {row["arm"]: (row["num_complete_rounds"], row["excluded_rounds"]) for row in found.census["contrasts"]}
    assert excluded == {"torch-a2a-cached": (5, [6]), "torch-agrs": (4, [2, 6])}


def test_a_start_that_failed_after_the_primary_series_keeps_its_round(tmp_path: Path, plan: Plan) -> None:
    """Its dispatch_ready series was measured and verified before and after: the round is whole, the start is not."""
    planted = {ROUND_2: (Attempt(Status.CRASHED, after_series=1),)}
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=planted))
    assert all(row["excluded_rounds"] == [] for row in found.census["contrasts"])
    assert found.codes == ["not_ok"]


def test_one_incorrect_cell_excludes_that_cell_only(tmp_path: Path) -> None:
    """A start may be incorrect in FP8 and right in BF16."""
    family = {"alpha": 0.25}
    plan = make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 6}], family=family, dtypes=["fp8", "bf16"])
    planted = {ROUND_2: (Attempt(Status.INCORRECT, cell="ep2/decode/uniform/fp8"),)}
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=planted))
    excluded = {(row["cell"], row["arm"]) for row in found.census["contrasts"] if row["excluded_rounds"]}
    assert excluded == {("ep2/decode/uniform/fp8", "torch-agrs")}
    assert found.census["arms"]["torch-agrs"]["num_records"] == {"incorrect": 3, "ok": 33}  # 6 x 6 in all


def test_a_budget_that_ended_is_told(tmp_path: Path, plan: Plan) -> None:
    """Rounds that the budget closed are missing, and the first of them is named."""
    planted = {start.id: (Attempt(Status.NOT_RUN),) for start in plan.starts if start.round >= 5}
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=planted))
    assert found.census["budget_ended"] == {"num_starts": 6, "first_round": {"ep2": 5}}
    assert found.codes == ["not_run"]
    assert found.state is State.PARTIAL
    assert found.census["arms"]["torch-agrs"]["num_attempts"] == 4  # what began nothing is no attempt at launching


def test_teardowns_are_counted(tmp_path: Path, plan: Plan) -> None:
    """A teardown that failed, or was never reached, keeps its results and is counted."""
    ids = [start.id for start in plan.starts if start.arm == "torch-agrs"]
    planted = {ids[0]: (Attempt(teardown="failed"),), ids[1]: (Attempt(teardown="not_reached"),)}
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=planted))
    assert found.census["arms"]["torch-agrs"]["teardown"] == {"failed": 1, "not_reached": 1, "ok": 4}
    assert found.state is State.COMPLETE


@pytest.mark.parametrize("start_id", [ROUND_2, ROUND_6])
def test_a_start_rerun_after_its_round_is_late(tmp_path: Path, plan: Plan, start_id: str) -> None:
    """A later job re-ran it when its round had closed; the last round closes too, when its first jobs have ended."""
    planted = {start_id: (Attempt(Status.CRASHED), Attempt(late=True))}
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=planted))
    assert found.census["late_starts"] == [{"start": start_id, "attempt": 2, "sequence": 19}]
    assert found.state is State.COMPLETE


def _fact(start: Start, sequence: int | None, *, scored: bool = True, first_job: bool = True) -> Fact:
    return Fact(start, 1, sequence, scored, first_job, Status.OK, "", "", False, "ok", {"ok": 1}, frozenset())


def test_late_is_told_by_sequence_numbers(plan: Plan) -> None:
    """Cases by hand: in order; a first job after a later round began; a second job inside its round, and after it."""
    by_round = {n: [start for start in plan.starts if start.round == n] for n in (1, 2)}
    (a, b, c), (d, e, f) = by_round[1], by_round[2]
    in_order = [_fact(start, n) for n, start in enumerate((a, b, c, d, e, f), 1)]
    assert late_starts(in_order) == set()
    skipped = [_fact(b, 1), _fact(c, 2), _fact(d, 3), _fact(a, 4), _fact(e, 5), _fact(f, 6)]
    assert late_starts(skipped) == {a.id}
    again_inside = [_fact(a, 1, scored=False), _fact(a, 2, first_job=False), _fact(b, 3), _fact(c, 4)]
    assert late_starts(again_inside) == set()
    again_after = [_fact(a, 1, scored=False), _fact(b, 2), _fact(c, 3), _fact(a, 4, first_job=False)]
    assert late_starts(again_after) == {a.id}
    never_begun = [_fact(a, None), _fact(b, 1), _fact(c, 2)]
    assert late_starts(never_begun) == set()


@settings(max_examples=40, deadline=None)
@given(order=st.permutations(range(6)))
def test_no_start_of_the_latest_round_is_late_by_a_first_job(order: Sequence[int]) -> None:
    """Whatever the order of first jobs, only rounds that have a later one can close under them."""
    starts = [_START_OF[n // 3 + 1, n % 3] for n in range(6)]
    facts = [_fact(starts[n], place) for place, n in enumerate(order, 1)]
    late = late_starts(facts)
    first_of_round_2 = min(place for place, n in enumerate(order, 1) if n >= 3)
    assert late == {starts[n].id for place, n in enumerate(order, 1) if n < 3 and place > first_of_round_2}


def _starts() -> dict[tuple[int, int], Start]:
    from ep_campaign.plan import Start

    return {
        (number, n): Start(f"ep2/decode/round-{number:02d}/arm-{n}", 0, number, 2, "decode", f"arm-{n}", n + 1, ())
        for number in (1, 2)
        for n in range(3)
    }


_START_OF = _starts()
