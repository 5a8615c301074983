"""Validation of one attempt's records: the matrix, statuses, oracle, samples, figures and bytes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from forge import edit_samples, edit_start
from plans import make_plan
from synthetic import make_results

from ep_campaign.validate import State, validate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan

START = "ep2/decode/round-02/torch-a2a"
CELL = "ep2/decode/uniform/bf16"
FIRST = f"records[{CELL} dispatch_ready host_start roundtrip]"
TWIN = f"records[{CELL} bf16_ready host_start roundtrip]"
REJECTED = f"records[{CELL} dispatch_ready graph roundtrip]"


@pytest.fixture
def made(tmp_path: Path) -> tuple[Plan, Results]:
    """An honest folder: host_start measured at three boundaries (bf16_ready shares dispatch_ready), graph rejected."""
    how = {"modes": ["host_start", "graph"], "isolated_loops": False, "iterations": 20, "warmups": 2}
    plan = make_plan(tmp_path, measurement=how)
    return plan, make_results(tmp_path / "results", plan)


def _edit(made: tuple[Plan, Results], change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Changes the records of one start; their order is dispatch_ready, bf16_ready (its twin), gemm_ready, 3 rejected."""
    edit_start(made[1], START, lambda value: change(value["records"]))


def _found(made: tuple[Plan, Results]) -> set[tuple[str, str]]:
    """(code, field) of every violation, all of which are in the one start."""
    violations = validate(*made).violations
    elsewhere = {item.code for item in violations if not item.file.startswith(f"starts/{START}")}
    assert elsewhere <= {"journal_disagrees"}  # a record that claims another attempt was not begun as that
    return {(violation.code, violation.field) for violation in violations}


def _fail(record: dict[str, Any], status: str) -> None:
    record.update(status=status, latency=None, samples=None, reason_code="planted", reason="planted")


IDENTITY = {
    "kind": "admission",
    "campaign": "other",
    "start": "ep2/decode/round-01/torch-a2a",
    "attempt": 2,
    "position": 99,
    "round": 1,
    "order_position": 9,
    "ep_size": 4,
    "profile": "prefill",
    "arm": "torch-agrs",
    "backend": "torch-agrs",
    "api_mode": "normal",
    "sample_axes": ["rank", "sample", "phase"],
    "sample_unit": "us",
}


@pytest.mark.parametrize("field", IDENTITY)
def test_a_record_of_something_else_is_refused(made: tuple[Plan, Results], field: str) -> None:
    """Every field that says what was measured is the plan's."""
    edit_start(made[1], START, lambda value: value.update({field: IDENTITY[field]}))
    assert ("identity_differs", field) in _found(made)


def test_a_record_of_another_plan_is_refused(made: tuple[Plan, Results]) -> None:
    """Starts of two plans are not one campaign."""
    edit_start(made[1], START, lambda value: value.update(plan_digest="0" * 64))
    assert _found(made) == {("plan_digest_differs", "plan_digest")}


def test_a_missing_series_is_refused(made: tuple[Plan, Results]) -> None:
    """The list of series is known before the start runs, so a missing one is missed."""
    _edit(made, lambda records: records.__delitem__(1))
    assert _found(made) == {("missing_record", TWIN)}


def test_a_missing_rejected_row_is_refused(made: tuple[Plan, Results]) -> None:
    """Unsupported cells are rows, never blanks."""
    _edit(made, lambda records: records.__delitem__(3))
    assert _found(made) == {("missing_record", REJECTED)}


def test_a_second_record_of_a_series_is_refused(made: tuple[Plan, Results]) -> None:
    """Nobody could say which of the two counts."""
    _edit(made, lambda records: records.append(dict(records[3])))
    assert _found(made) == {("duplicate_record", REJECTED)}


def test_an_extra_record_is_refused(made: tuple[Plan, Results]) -> None:
    """A mode that the plan does not measure."""
    _edit(made, lambda records: records.append({**records[3], "mode": "overlapped"}))
    assert _found(made) == {("extra_record", REJECTED.replace("graph", "overlapped"))}


DECLARED = {"iterations": 10, "warmups": 0, "chain_length": 2, "route": "zipf", "dtype": "fp8"}
DECLARED |= {"cast_placement": "in_kernel", "permute_placement": "in_kernel", "weight_placement": "in_kernel"}


@pytest.mark.parametrize("field", DECLARED)
def test_a_series_that_was_not_declared_so_is_refused(made: tuple[Plan, Results], field: str) -> None:
    """Iterations, warm-ups, chain, route, dtype and placements follow from the plan."""
    _edit(made, lambda records: records[0].update({field: DECLARED[field]}))
    assert ("series_differs", f"{FIRST}.{field}") in _found(made)


def test_a_rejection_with_another_reason_is_refused(made: tuple[Plan, Results]) -> None:
    """The reason and its source are the capability table's."""
    _edit(made, lambda records: records[3].update(reason="did not feel like it"))
    assert _found(made) == {("series_differs", f"{REJECTED}.reason")}


def test_a_latency_without_ok_is_refused(made: tuple[Plan, Results]) -> None:
    """Only ok may carry a latency: a failed cell's number would be read as a result."""
    _edit(made, lambda records: records[2].update(status="crashed", reason_code="planted"))
    assert {code for code, _ in _found(made)} == {"bad_record", "status_differs", "not_ok"}


def test_a_failure_without_a_reason_is_refused(made: tuple[Plan, Results]) -> None:
    """A status other than ok says why."""

    def change(value: dict[str, Any]) -> None:
        for record in value["records"][:3]:
            _fail(record, "crashed")
            record["reason_code"] = ""
        value["status"] = "crashed"

    edit_start(made[1], START, change)
    codes = {code for code, _ in {(v.code, v.field) for v in validate(*made).violations}}
    assert "bad_record" in codes


def test_ok_without_a_latency_is_refused(made: tuple[Plan, Results]) -> None:
    """An ok record is a measurement."""
    _edit(made, lambda records: records[2].update(latency=None))
    assert ("bad_record", f"records[{CELL} gemm_ready host_start roundtrip]") in _found(made)


def test_ok_without_resolved_knobs_is_refused(made: tuple[Plan, Results]) -> None:
    """What an arm ran with is part of what was measured."""
    _edit(made, lambda records: records[2].update(resolved=None))
    assert _found(made) == {("bad_record", f"records[{CELL} gemm_ready host_start roundtrip]")}


def test_a_rejection_that_was_not_planned_is_refused(made: tuple[Plan, Results]) -> None:
    """A run may fail, but it may not declare itself unsupported."""

    def change(records: list[dict[str, Any]]) -> None:
        for record in records[:2]:
            _fail(record, "unsupported")

    _edit(made, change)
    assert ("unplanned_rejection", FIRST) in _found(made)


def test_a_start_that_says_less_than_its_worst_record_is_refused(made: tuple[Plan, Results]) -> None:
    """The status of a start is the worst of its records; an incorrect cell cannot hide in an ok start."""

    def change(records: list[dict[str, Any]]) -> None:
        for record in records[:2]:
            _fail(record, "incorrect")

    _edit(made, change)
    found = _found(made)
    assert ("status_differs", "status") in found


def test_a_twin_that_differs_is_refused(made: tuple[Plan, Results]) -> None:
    """One measurement under two names has one value."""
    _edit(made, lambda records: records[1]["latency"].update(median_ns=1.0))
    assert _found(made) == {("twin_differs", f"{TWIN}.latency")}


def test_a_twin_with_samples_is_refused(made: tuple[Plan, Results]) -> None:
    """The samples are kept once, under the boundary that was measured."""
    _edit(made, lambda records: records[1].update(samples=records[0]["samples"]))
    assert ("twin_differs", f"{TWIN}.samples") in _found(made)


@pytest.mark.parametrize("stage", ["before", "after"])
def test_ok_with_a_failed_oracle_is_refused(made: tuple[Plan, Results], stage: str) -> None:
    """An oracle that says otherwise, before or after timing, contradicts ok."""

    def change(records: list[dict[str, Any]]) -> None:
        for record in records[:2]:
            record["oracle"][stage]["passed"] = False

    _edit(made, change)
    assert {("oracle_not_passed", f"{name}.oracle.{stage}") for name in (FIRST, TWIN)} <= _found(made)


def test_ok_without_an_oracle_is_refused(made: tuple[Plan, Results]) -> None:
    """What was not checked is not ok."""

    def change(records: list[dict[str, Any]]) -> None:
        for record in records[:2]:
            record["oracle"]["after"] = None

    _edit(made, change)
    assert ("oracle_not_passed", f"{FIRST}.oracle.after") in _found(made)


def test_an_error_above_its_tolerance_is_refused(made: tuple[Plan, Results]) -> None:
    """The numbers decide, not the flag beside them."""

    def change(records: list[dict[str, Any]]) -> None:
        for record in records[:2]:
            record["oracle"]["before"]["max_token_error"] = 0.1

    _edit(made, change)
    expected = {("oracle_error_over_tolerance", f"{name}.oracle.before.max_token_error") for name in (FIRST, TWIN)}
    assert _found(made) == expected


def test_a_widened_tolerance_is_refused(made: tuple[Plan, Results]) -> None:
    """A tolerance beyond BF16 rounding lets a lost contribution pass."""

    def change(records: list[dict[str, Any]]) -> None:
        for record in records[:2]:
            record["oracle"]["before"]["tolerance"] = 0.05

    _edit(made, change)
    assert _found(made) == {("tolerance_widened", f"{name}.oracle.before.tolerance") for name in (FIRST, TWIN)}


FIGURES = ["median_ns", "mean_ns", "min_ns", "max_ns", "input_tokens_per_second"]


@pytest.mark.parametrize("field", FIGURES)
def test_a_figure_that_does_not_follow_from_the_samples_is_refused(made: tuple[Plan, Results], field: str) -> None:
    """One part in 10^9 is too much for a number that is computed again in float64."""
    _edit(made, lambda records: records[2]["latency"].update({field: records[2]["latency"][field] * (1 + 1e-9)}))
    name = f"records[{CELL} gemm_ready host_start roundtrip].latency.{field}"
    assert _found(made) == {("latency_differs", name)}


def test_phase_medians_are_checked(made: tuple[Plan, Results]) -> None:
    """Each phase apart; one that is missing, one that is not measured."""

    def change(records: list[dict[str, Any]]) -> None:
        phases = records[2]["latency"]["phase_median_ns"]
        phases["dispatch"] += 1
        del phases["combine"]

    _edit(made, change)
    name = f"records[{CELL} gemm_ready host_start roundtrip].latency.phase_median_ns"
    assert _found(made) == {("latency_differs", f"{name}.dispatch"), ("latency_differs", f"{name}.combine")}


@pytest.mark.parametrize(
    ("value_ns", "code"),
    [(0, "sample_not_positive"), (-5, "sample_not_positive"), (2**62, "sample_too_large")],
)
def test_an_impossible_sample_is_refused(made: tuple[Plan, Results], value_ns: int, code: str) -> None:
    """No time is zero or negative, and none is above the start's own bound of half an hour."""
    edit_samples(made[1], START, lambda data: struct.pack_into("<q", data, 0, value_ns))
    assert (code, f"{FIRST}.samples") in _found(made)


def test_a_changed_sample_changes_its_figures(made: tuple[Plan, Results]) -> None:
    """One sample made slower moves the mean and the maximum: the record no longer follows from it."""
    edit_samples(made[1], START, lambda data: struct.pack_into("<q", data, 24, 10**9))
    fields = {field for code, field in _found(made) if code == "latency_differs"}
    assert {f"{FIRST}.latency.mean_ns", f"{FIRST}.latency.max_ns"} <= fields


SAMPLES: list[tuple[str, str, Callable[[dict[str, Any]], object]]] = [
    ("samples_shape", "shape", lambda samples: samples.update(shape=[10, 2, 8])),
    ("samples_shape", "phases", lambda samples: samples.update(phases=["dispatch", "layout", "combine", "roundtrip"])),
    ("samples_offset", "offset_bytes", lambda samples: samples.update(offset_bytes=8)),
    ("samples_offset", "offset_bytes", lambda samples: samples.update(offset_bytes=10**12)),
    ("samples_shape", "shape", lambda samples: samples.update(shape=[10**9, 10**9, 4])),
]


@pytest.mark.parametrize(("code", "field", "spoil"), SAMPLES)
def test_samples_that_are_not_as_declared_are_refused(
    made: tuple[Plan, Results], code: str, field: str, spoil: Callable[[dict[str, Any]], object]
) -> None:
    """Axes in another order, other phases, other places, shapes beyond any memory."""
    _edit(made, lambda records: spoil(records[0]["samples"]))
    assert (code, f"{FIRST}.samples.{field}") in _found(made)


def test_bytes_that_do_not_follow_from_the_route_are_refused(made: tuple[Plan, Results]) -> None:
    """Twice the bytes would be twice the bandwidth."""

    def change(records: list[dict[str, Any]]) -> None:
        records[2]["payload_bytes"]["per_selection"]["dispatch_all"] *= 2

    _edit(made, change)
    assert _found(made) == {("payload_bytes_wrong", f"records[{CELL} gemm_ready host_start roundtrip].payload_bytes")}


@pytest.mark.parametrize(("peak", "state"), [(0.1, State.COMPLETE), (0.001, State.REFUSED)])
def test_a_result_faster_than_its_link_is_refused(tmp_path: Path, peak: float, state: State) -> None:
    """At most 8 tokens x 512 B leave a rank: 4,096 B in 200 us is 0.02 GB/s, below a link of 0.1 and above one of 0.001."""
    plan = make_plan(tmp_path, limits={"link_peak_gigabytes_per_second": peak})
    found = validate(plan, make_results(tmp_path / "results", plan))
    assert found.state is state
    assert found.codes == ([] if state is State.COMPLETE else ["faster_than_link"])


def test_a_rank_that_makes_the_latency_is_noted(made: tuple[Plan, Results]) -> None:
    """Rank 1 twice as slow in every round-trip of the primary boundary: a note names it, and the folder stays usable."""

    def slow(data: bytearray) -> None:
        for sample in range(20):  # dispatch_ready comes first: [sample, rank, phase], 4 phases
            place = 8 * (sample * 2 * 4 + 4)
            struct.pack_into("<4q", data, place, *(2 * value for value in struct.unpack_from("<4q", data, place)))

    edit_samples(made[1], START, slow)
    notes = [item for item in validate(*made).violations if item.code == "slow_rank"]

    assert [FIRST] == [item.field for item in notes if item.file.startswith(f"starts/{START}")]
    assert any("rank 1 is the slowest in 100% of samples" in item.found for item in notes)
