"""The synthetic results folders that other tests stand on."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from plans import make_plan, profile
from synthetic import Attempt, Model, make_results

from ep_worker.contract.record import problems
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.layout import Results

QUIET = {"start_sd": 0.0, "round_sd": 0.0, "iteration_sd": 0.0, "rank_sd": 0.0}


def _start(results: Results, start_id: str, attempt: int = 1) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((results.attempt(start_id, attempt) / "start.json").read_text())
    return value


def test_a_campaign_of_twelve_rounds_takes_seconds(tmp_path: Path) -> None:
    """12 rounds, two profiles, three arms: 72 starts in under 3 s, every record without a fault."""
    plan = make_plan(
        tmp_path,
        profiles=[profile("decode"), profile("prefill", 32)],
        ep_sizes=[{"ranks": 2, "rounds": 12, "scored": False}],
        dtypes=["fp8", "bf16"],
    )
    began = time.perf_counter()
    results = make_results(tmp_path / "results", plan)
    assert time.perf_counter() - began < 3
    found = [problems(record) for start in plan.starts for record in _start(results, start.id)["records"]]
    assert len(found) == 72 * 2 * 3
    assert not any(found)


def test_planted_effects_are_in_the_medians(tmp_path: Path) -> None:
    """Without noise a median is the base times its arm, place and round, rounded to whole nanoseconds."""
    plan = make_plan(tmp_path)
    late_second = plan.by_id["ep2/decode/round-02/torch-agrs"]
    model = Model(arm_factor={"torch-agrs": 1.5}, order_effect=0.1, drift=0.01, **QUIET)
    results = make_results(tmp_path / "results", plan, model)
    record = _start(results, late_second.id)["records"][0]
    # 200 us x 1.5 x exp(0.1 x places after the first + 0.01 x rounds after the first)
    expected = 200e3 * 1.5 * np.exp(0.1 * (late_second.order_position - 1) + 0.01)
    assert record["latency"]["median_ns"] == pytest.approx(expected, abs=0.5)


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    """Two folders of one model hold the same start.json, another seed another."""
    plan = make_plan(tmp_path)
    folders = [make_results(tmp_path / name, plan, Model(seed=seed)) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    texts = [(folder.attempt(plan.starts[0].id, 1) / "start.json").read_bytes() for folder in folders]
    assert texts[0] == texts[1] != texts[2]


def test_planted_faults_have_their_status(tmp_path: Path) -> None:
    """Each planted end becomes the status of its start, and its outcome says the same."""
    plan = make_plan(tmp_path)
    ids = [start.id for start in plan.starts]
    ends = [Status.CRASHED, Status.TIMED_OUT, Status.INCORRECT, Status.INADMISSIBLE, Status.NOT_RUN]
    planted = {start_id: (Attempt(status),) for start_id, status in zip(ids, ends, strict=False)}
    planted[ids[5]] = (Attempt(Status.CRASHED, infrastructure=True), Attempt(teardown="failed"))
    planted[ids[6]] = ()
    planted[ids[7]] = (Attempt(Status.CRASHED), Attempt(late=True))
    planted[ids[8]] = (Attempt(interrupted=True),)
    results = make_results(tmp_path / "results", plan, attempts=planted)
    for start_id, status in zip(ids, ends, strict=False):
        assert _start(results, start_id)["status"] == status.value
        assert json.loads(results.outcome(start_id, 1).read_text())["status"] == status.value
    retried = json.loads(results.outcome(ids[5], 1).read_text())
    assert [row["status"] for row in retried["attempts"]] == ["crashed", "ok"]
    assert _start(results, ids[5], 2)["teardown"] == "failed"
    assert not results.start(ids[6]).exists()
    assert _start(results, ids[7], 2)["sequence"] == 9  # after 9 starts, less one unrun, one missing, plus one retry
    assert results.outcome(ids[7], 2).exists()
    assert results.attempts(ids[8]) == [1]
    assert not results.outcome(ids[8], 1).exists()


def test_an_unknown_start_is_refused(tmp_path: Path) -> None:
    """A fault planted in a start that the plan does not have would test nothing."""
    with pytest.raises(ValueError, match="no starts of the plan"):
        make_results(tmp_path / "results", make_plan(tmp_path), attempts={"ep2/decode/round-99/x": ()})
