"""One start of an elastic campaign with the real engine, and what becomes of one that fails or is broken off."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from elastic.runs import make_plan

from ep_campaign.elastic.attempts import read_attempts
from ep_campaign.elastic.ledger import client_ledger, reconcile, server_ledger
from ep_campaign.elastic.measure import describe_elastic, measure_elastic
from ep_campaign.layout import Results

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.elastic.plan import ElasticPlan

ENGINE = {"max-len": 64, "hidden": 32, "ffn": 32, "num-heads": 2, "num-layers": 1, "num-experts": 8}


def plan_of(transport: str = "shm", **arguments: Any) -> ElasticPlan:
    """A plan of one arm: a sweep at width 2, and a growth under load."""
    return make_plan(
        target={"driver": "engine", "max_num_seqs": 4, "arguments": {**ENGINE, **arguments}},
        arms=[{"name": "only", "transport": transport, "arguments": {"transport": "shm"}}],
        reference="only",
        states=[{"name": "narrow", "widths": [2]}, {"name": "grow", "kind": "resize", "widths": [2, 4]}],
        cells=[
            {"concurrency": 2, "requests": 4, "num_warmups": 2},
            {"arrivals": "poisson", "rate_per_s": 20, "requests": 3},
        ],
        prompt={"unit": "bytes", "num_units": 16, "max_tokens": 4},
        resize={"concurrency": 2, "before_s": 0.3, "after_s": 0.3, "poll_s": 0.1, "timeout_s": 60},
        rounds=1,
    )


def measured(plan: ElasticPlan, root: Path, state: str) -> tuple[Results, dict[str, Any], str]:
    """Results, the outcome of a state's only start, and the start's name."""
    results = Results(root / plan.name)
    start = next(one for one in plan.starts if one.state == state)
    return results, measure_elastic(plan, results, start, 1), start.id


@pytest.mark.slow
def test_a_growth_under_load(tmp_path: Path) -> None:
    """Converged, with its load, its prober, a ledger that agrees, and a proved teardown; only the switch may refuse (503)."""
    plan = plan_of()
    results, outcome, _ = measured(plan, tmp_path, "grow")
    assert ("ok", 1) == (outcome["status"], len(outcome["attempts"]))
    found: list[Any] = []
    attempt = next(read_attempts(plan, results, found))
    record, load = attempt.record, attempt.runs["load"]
    assert ("converged", "ok", True) == (record.resizes[0].verdict, record.teardown, attempt.counted)
    assert {"load", "probe"} == {one["phase"] for one in load.requests}
    loaded = [one for one in load.requests if one["phase"] == "load"]
    refused = [one for one in loaded if not one["success"]]
    assert 0 < len(loaded) - len(refused)
    assert [] == [one["error"] for one in refused if one["status"] != 503]
    server = server_ledger(record)
    assert server is not None
    assert reconcile(*client_ledger(record, [load]), server) is None


@pytest.mark.slow
def test_a_sweep_whose_transport_is_not_proved(tmp_path: Path) -> None:
    """The engine used shared memory; an arm that says TCP is inadmissible, and its requests are kept."""
    plan = plan_of(transport="tcp")
    results, outcome, start = measured(plan, tmp_path, "narrow")
    assert ("inadmissible", "transport_unproved") == (outcome["status"], outcome["attempts"][0]["reason_code"])
    attempt = next(read_attempts(plan, results, []))
    assert {"closed-2": 6, "poisson-20": 7} == {name: len(run.requests) for name, run in attempt.runs.items()}
    assert attempt.record.calibration is not None
    assert 4 == attempt.record.calibration["num_requests"]
    assert "prove shm, expected tcp" in describe_elastic(plan, plan.by_id[start], outcome)


def test_an_engine_that_does_not_come_up_is_tried_again(tmp_path: Path) -> None:
    """Twice with one retry; what the engine said is the reason, and each attempt keeps its folder."""
    plan = plan_of(**{"max-width": 1})
    results, outcome, start = measured(plan, tmp_path, "narrow")
    assert [("crashed", "engine_not_started")] * 2 == [
        (one["status"], one["reason_code"]) for one in outcome["attempts"]
    ]
    assert [1, 2] == results.attempts(start)
    assert "width 2 is above max_width 1" in outcome["attempts"][0]["reason"]


def test_an_attempt_that_a_dead_controller_left(tmp_path: Path) -> None:
    """It is recorded as interrupted, and the slot tries again."""
    plan = plan_of(**{"max-width": 1})
    results = Results(tmp_path / plan.name)
    start = plan.starts[0]
    results.attempt(start.id, 1).mkdir(parents=True)
    outcome = measure_elastic(plan, results, start, 1)
    assert ["interrupted", "engine_not_started", "engine_not_started"] == [
        one["reason_code"] for one in outcome["attempts"]
    ]
