"""Records: what a status forbids and demands, derived figures from samples, and which status is the worst."""

from __future__ import annotations

import math

import pytest

from ep_worker.contract.record import latency_summary, problems, slowest_rank
from ep_worker.contract.terms import Status, worst

PASSED = {"passed": True, "max_token_error": 0.0}
LATENCY = {"median_ns": 2.0, "mean_ns": 2.0, "min_ns": 1, "max_ns": 3, "phase_median_ns": {"roundtrip": 2.0}}
OK = {
    "status": "ok",
    "loop": "roundtrip",
    "same_as": None,
    "latency": LATENCY,
    "samples": {"offset_bytes": 0},
    "oracle": {"before": PASSED, "after": PASSED},
}


def test_an_honest_record_has_no_problem():
    """An ok record with latency, samples and two passed oracles; a failed one with a reason and nothing else."""
    assert not problems(OK)
    assert not problems({"status": "crashed", "reason_code": "backend_raised", "loop": "roundtrip"})


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.OK])
@pytest.mark.parametrize("field", ["latency", "samples"])
def test_only_ok_carries_a_latency(status, field):
    """Any other status with a latency, or samples, is a problem."""
    record = {"status": status.value, "reason_code": "x", field: LATENCY}

    assert [f"status {status.value} with field {field!r}"] == problems(record)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"status": "fine"}, "status is 'fine'"),
        ({"latency": None}, "without latency"),
        ({"samples": None}, "without samples"),
        ({"oracle": None}, "without an oracle"),
        ({"oracle": {"before": PASSED, "after": None}}, "without an oracle"),
        ({"oracle": {"before": PASSED, "after": {"passed": False}}}, "without an oracle"),
        ({"latency": {**LATENCY, "min_ns": -1}}, "not a positive finite"),
        ({"latency": {**LATENCY, "mean_ns": math.nan}}, "not a positive finite"),
        ({"latency": {**LATENCY, "phase_median_ns": {"roundtrip": 0}}}, "not a positive finite"),
    ],
)
def test_a_broken_record_is_named(change, problem):
    """Each change to an honest record is found."""
    assert any(problem in found for found in problems({**OK, **change}))


def test_a_failure_needs_a_reason_code():
    """A status without a reason is a blank in the report."""
    assert ["status timed_out without a reason code"] == problems({"status": "timed_out", "reason_code": ""})


def test_the_slowest_rank_is_taken_for_each_sample():
    """Two samples, two ranks, phases (dispatch, roundtrip): maxima over ranks are (5, 9) and (6, 8)."""
    times = [1, 9, 5, 7, 6, 8, 2, 3]

    assert [5, 6] == slowest_rank(times, 2, 2, 0)
    assert [9, 8] == slowest_rank(times, 2, 2, 1)


def test_derived_figures():
    """Chains of 2: (9, 8) / 2 give median 4.25 ns, and 17 tokens in 4.25 ns are 4e9 a second."""
    found = latency_summary([1, 9, 5, 7, 6, 8, 2, 3], 2, ["dispatch", "roundtrip"], 2, 17)

    assert 4.25 == found["median_ns"] == found["mean_ns"]
    assert (4.0, 4.5) == (found["min_ns"], found["max_ns"])
    assert {"dispatch": 2.75, "roundtrip": 4.25} == found["phase_median_ns"]
    assert 4e9 == pytest.approx(found["input_tokens_per_second"])


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        ([Status.OK, Status.UNSUPPORTED], Status.OK),
        ([Status.UNSUPPORTED], Status.UNSUPPORTED),
        ([Status.OK, Status.CRASHED, Status.TIMED_OUT], Status.CRASHED),
        ([Status.CRASHED, Status.INCORRECT], Status.INCORRECT),
        ([], Status.CRASHED),
    ],
)
def test_the_worst_status_of_a_start(statuses, expected):
    """A fact of the arm never hides a measured cell; wrong results are the worst; no record at all is a crash."""
    assert expected is worst(statuses)
