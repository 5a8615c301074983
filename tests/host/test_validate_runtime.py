"""Validation between attempts: workloads, runtime, environment, workers, images and knobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from forge import edit_start
from plans import ARMS, campaign, make_plan
from synthetic import Attempt, make_results

from ep_campaign.validate import Severity, State, correctness, validate
from ep_campaign.validate import workloads as workloads_module
from ep_worker import quantise
from ep_worker.contract.provenance import not_applicable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan

START = "ep2/decode/round-02/torch-agrs"
RECORD = f"starts/{START}/attempt-1/start.json"
OTHER_WORKER = "6" * 64


@pytest.fixture
def made(tmp_path: Path) -> tuple[Plan, Results]:
    """An honest folder."""
    plan = make_plan(tmp_path)
    return plan, make_results(tmp_path / "results", plan)


def _found(made: tuple[Plan, Results]) -> set[tuple[str, str]]:
    """(code, field) of every violation."""
    return {(violation.code, violation.field) for violation in validate(*made).violations}


def _planted(tmp_path: Path, plan: Plan, attempt: Attempt, arm: str | None = None) -> tuple[Plan, Results]:
    """A folder in which one start, or all starts of an arm, went like `attempt`."""
    ids = [start.id for start in plan.starts if (start.arm == arm if arm else start.id == START)]
    return plan, make_results(tmp_path / "results", plan, attempts=dict.fromkeys(ids, (attempt,)))


WORKLOADS: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("route_sha256", lambda workload: workload.update(route_sha256="0" * 64)),
    ("weights_sha256", lambda workload: workload.update(weights_sha256="0" * 64)),
    ("input_sha256", lambda workload: workload.update(input_sha256="0" * 64)),
    ("counts", lambda workload: workload["counts"]["num_rows"][0].__setitem__(1, 5)),
]


@pytest.mark.parametrize(("field", "spoil"), WORKLOADS)
def test_a_workload_that_differs_between_arms_is_refused(
    made: tuple[Plan, Results], field: str, spoil: Callable[[dict[str, Any]], object]
) -> None:
    """Arms that did not get the same bytes cannot be compared; the message names both starts."""
    edit_start(made[1], START, lambda value: spoil(value["workload"]["uniform"]))
    differing = [v for v in validate(*made).violations if v.code == "workload_differs"]
    assert [(v.file, v.field) for v in differing] == [(RECORD, f"workload.uniform.{field}")]
    assert made[0].starts[0].id in differing[0].expected


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("route_sha256", "0" * 64),
        ("weights_sha256", "0" * 64),
        ("input_sha256", "0" * 64),
        ("num_tokens", [8, 9]),
        ("expert_load", {"min": 0, "max": 99, "mean": 4.0}),
    ],
)
def test_a_workload_that_the_plan_does_not_describe_is_refused(
    made: tuple[Plan, Results], field: str, value: Any
) -> None:
    """All arms alike, and yet not what the formulas give: a wrong worker is found by the host's own numbers."""
    for start in made[0].starts:
        edit_start(made[1], start.id, lambda record: record["workload"]["uniform"].update({field: value}))
    assert ("workload_wrong", f"workload.uniform.{field}") in _found(made)
    assert ("workload_differs", f"workload.uniform.{field}") not in _found(made)


def test_counts_that_the_route_does_not_give_are_refused(made: tuple[Plan, Results]) -> None:
    """All arms alike with one row too many: listing the route again shows it."""
    for start in made[0].starts:
        edit_start(
            made[1], start.id, lambda value: value["workload"]["uniform"]["counts"]["num_rows"][0].__setitem__(1, 5)
        )
    assert ("workload_wrong", "workload.uniform.counts") in _found(made)


def test_rank_digests_that_do_not_make_the_whole_are_refused(made: tuple[Plan, Results]) -> None:
    """The digest over all ranks is that of their digests in rank order; swapped ranks give another."""
    edit_start(made[1], START, lambda value: value["workload"]["uniform"]["route_sha256_by_rank"].reverse())
    assert _found(made) == {("workload_wrong", "workload.uniform.route_sha256_by_rank")}


def test_an_ok_record_without_a_workload_is_refused(made: tuple[Plan, Results]) -> None:
    """Nobody could say what was sent."""
    edit_start(made[1], START, lambda value: value["workload"].update(uniform=None))
    assert _found(made) == {("workload_missing", "workload.uniform")}


def test_a_workload_of_no_planned_route_is_refused(made: tuple[Plan, Results]) -> None:
    """A route that the plan does not have."""
    edit_start(made[1], START, lambda value: value["workload"].update(extra=value["workload"]["uniform"]))
    assert _found(made) == {("workload_unknown", "workload.extra")}


def test_a_workload_too_large_for_the_host_is_noted(
    made: tuple[Plan, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above the bound (16 tokens x 128 columns here) digests are only held against each other, and a note says so."""
    monkeypatch.setattr(workloads_module, "MAX_ELEMENTS", 16 * 128 - 1)
    assert _found(made) == {("digest_not_recomputed", "workload.uniform.input_sha256")}
    assert validate(*made).state is State.COMPLETE


@pytest.mark.parametrize("value", [None, "", not_applicable("shy")])
def test_a_blank_in_the_provenance_is_refused(tmp_path: Path, value: Any) -> None:
    """Null, empty, or not applicable on a platform that has the thing."""
    made = _planted(tmp_path, make_plan(tmp_path), Attempt(provenance={"torch_commit": value}))
    assert ("provenance_incomplete", "provenance.torch_commit") in _found(made)


@pytest.mark.parametrize("value", ["fast", -1, [50]])
def test_a_timer_floor_that_is_no_time_is_refused(tmp_path: Path, value: Any) -> None:
    """It is a covariate of host speed: a number of nanoseconds."""
    made = _planted(tmp_path, make_plan(tmp_path), Attempt(provenance={"timer_floor_ns": value}))
    assert ("provenance_incomplete", "provenance.timer_floor_ns") in _found(made)


def test_a_missing_and_an_unknown_provenance_field_are_refused(made: tuple[Plan, Results]) -> None:
    """The fields are exactly the contract's."""

    def change(value: dict[str, Any]) -> None:
        value["provenance"]["mood"] = value["provenance"].pop("torch_version")

    edit_start(made[1], START, change)
    assert _found(made) == {
        ("provenance_incomplete", "provenance.mood"),
        ("provenance_incomplete", "provenance.torch_version"),
    }


def test_a_runtime_that_differs_is_refused_and_named_once_an_arm(tmp_path: Path) -> None:
    """Another torch for one arm in all rounds is one violation that names both starts."""
    plan = make_plan(tmp_path)
    made = _planted(tmp_path, plan, Attempt(provenance={"torch_version": "2.12.0"}), arm="torch-agrs")
    differing = validate(*made).violations
    assert [(v.code, v.field) for v in differing] == [("runtime_differs", "provenance.torch_version")]
    assert {'"2.12.0"', '"2.13.0"'} == {differing[0].found, differing[0].expected.partition(",")[0]}
    assert "starts/" in differing[0].expected


def test_ranks_of_different_runtimes_are_refused(made: tuple[Plan, Results]) -> None:
    """One rank on another kernel."""
    change = {"by_rank": ["6.1", "6.2"]}
    for start in made[0].starts:
        edit_start(made[1], start.id, lambda value: value["provenance"].update(kernel=change))
    assert _found(made) == {("runtime_differs", "provenance.kernel")}


def test_memory_may_differ_by_what_firmware_keeps(made: tuple[Plan, Results]) -> None:
    """Equal machines report totals that differ by megabytes; half the memory is another machine."""

    def reported(num_bytes: int) -> Callable[[dict[str, Any]], object]:
        return lambda value: value["provenance"].update(memory_total_bytes={"value": num_bytes})

    edit_start(made[1], START, reported((1 << 34) - (1 << 22)))
    assert _found(made) == set()
    edit_start(made[1], START, reported(1 << 33))
    assert _found(made) == {("runtime_differs", "provenance.memory_total_bytes")}


def test_an_undeclared_variable_is_refused(tmp_path: Path) -> None:
    """A variable that one arm alone has, and that the plan does not declare."""
    made = _planted(tmp_path, make_plan(tmp_path), Attempt(environment={"NCCL_ALGO": "Ring"}), arm="torch-agrs")
    assert _found(made) == {("environment_differs", "provenance.environment.NCCL_ALGO")}


def test_a_variable_that_changes_within_an_arm_is_refused(tmp_path: Path) -> None:
    """One start of an arm had it, the others did not."""
    made = _planted(tmp_path, make_plan(tmp_path), Attempt(environment={"NCCL_ALGO": "Ring"}))
    assert ("environment_differs", "provenance.environment.NCCL_ALGO") in _found(made)


def _with_arm(tmp_path: Path, **fields: Any) -> Plan:
    arms = campaign()["arms"]
    return make_plan(tmp_path, arms=[*arms[:2], {**arms[2], **fields}])


DECLARED = {"environment": {"NCCL_ALGO": "Ring"}, "environment_reasons": {"NCCL_ALGO": "the build needs it"}}


def test_a_declared_difference_is_allowed(tmp_path: Path) -> None:
    """The plan says which variable differs, and why."""
    plan = _with_arm(tmp_path, **DECLARED)
    assert validate(plan, make_results(tmp_path / "results", plan)).violations == ()


def test_a_declaration_covers_no_other_arm(tmp_path: Path) -> None:
    """An arm that did not declare the variable must not have it, even where another arm did."""
    plan = _with_arm(tmp_path, **DECLARED)
    made = _planted(tmp_path, plan, Attempt(environment={"NCCL_ALGO": "Ring"}), arm=ARMS[1])
    assert _found(made) == {("environment_differs", "provenance.environment.NCCL_ALGO")}


@pytest.mark.parametrize("seen", ["Tree", None])
def test_a_variable_that_was_asked_for_and_not_observed_is_refused(tmp_path: Path, seen: str | None) -> None:
    """Observed with another value, or not at all."""
    plan = _with_arm(tmp_path, **DECLARED)
    results = make_results(tmp_path / "results", plan)

    def change(value: dict[str, Any]) -> None:
        value["provenance"]["environment"]["value"].pop("NCCL_ALGO")
        if seen is not None:
            value["provenance"]["environment"]["value"]["NCCL_ALGO"] = seen

    for start in plan.starts:
        if start.arm == ARMS[2]:
            edit_start(results, start.id, change)
    assert _found((plan, results)) == {("environment_not_applied", "provenance.environment.NCCL_ALGO")}


def test_a_variable_that_no_rank_records_is_noted(tmp_path: Path) -> None:
    """A name without a recorded prefix cannot be proved; that is said and not refused."""
    plan = _with_arm(tmp_path, environment={"HOME_X": "1"}, environment_reasons={"HOME_X": "why"})
    results = make_results(tmp_path / "results", plan)
    for start in plan.starts:
        if start.arm == ARMS[2]:
            edit_start(results, start.id, lambda value: value["provenance"]["environment"]["value"].pop("HOME_X"))
    found = validate(plan, results)
    assert found.codes == ["environment_not_recorded"]
    assert found.state is State.COMPLETE


def test_a_worker_that_the_folder_does_not_accept_is_refused(tmp_path: Path) -> None:
    """Starts of two workers are not one campaign, unless it is recorded as a mixed one: then it is noted."""
    plan = make_plan(tmp_path)
    planted = {START: (Attempt(worker_digest=OTHER_WORKER),)}
    refused = validate(plan, make_results(tmp_path / "a", plan, attempts=planted))
    assert refused.codes == ["worker_not_accepted"]
    both = ("5" * 64, OTHER_WORKER)
    mixed = validate(plan, make_results(tmp_path / "b", plan, attempts=planted, workers=both))
    assert [(v.severity, v.code) for v in mixed.violations] == [(Severity.NOTE, "mixed_workers")]


@pytest.mark.parametrize("digests", [[], ["5" * 64, OTHER_WORKER]])
def test_ranks_of_different_workers_are_refused(tmp_path: Path, digests: list[str]) -> None:
    """All ranks of a start ran one worker, and said which."""
    plan = make_plan(tmp_path)
    results = make_results(tmp_path / "results", plan, workers=("5" * 64, OTHER_WORKER))
    edit_start(results, START, lambda value: value.update(worker_digests=digests))
    assert ("worker_differs", "worker_digests") in _found((plan, results))


def test_an_image_that_is_not_the_plans_is_refused(made: tuple[Plan, Results]) -> None:
    """Another image; and a tag, which can move."""
    edit_start(made[1], START, lambda value: value.update(image="registry/uccl:latest"))
    assert _found(made) == {("image_differs", "image"), ("image_not_by_digest", "image")}


def test_an_image_that_moved_under_its_name_is_refused(tmp_path: Path) -> None:
    """The container runtime reports another image ID for one start of an arm."""
    plan = make_plan(tmp_path)
    attempts = {start.id: (Attempt(provenance={"image_id": "sha256:1"}),) for start in plan.starts}
    attempts[START] = (Attempt(provenance={"image_id": "sha256:2"}),)
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=attempts))
    assert found.codes == ["image_id_differs"]


def test_a_knob_that_resolves_differently_is_refused(made: tuple[Plan, Results]) -> None:
    """An automatic choice fell differently in one start: it measured another arm."""

    def change(value: dict[str, Any]) -> None:
        for record in value["records"]:
            record["resolved"]["buffer_bytes"] = 1

    edit_start(made[1], START, change)
    assert {code for code, _ in _found(made)} == {"resolved_differs"}


def test_a_knob_that_was_not_applied_is_noted(tmp_path: Path) -> None:
    """Asked for 3 SMs, resolved to 4096 bytes of buffers: the report must not name the arm by what it asked."""
    plan = _with_arm(tmp_path, knobs={"buffer_bytes": 1})
    found = validate(plan, make_results(tmp_path / "results", plan))
    assert found.codes == ["knob_not_applied"]
    assert found.state is State.COMPLETE


def test_failed_attempts_are_not_compared(tmp_path: Path) -> None:
    """An attempt that failed on a broken machine does not spoil the one that followed."""
    plan = make_plan(tmp_path)
    broken = Attempt(status=Attempt().status.CRASHED, provenance={"kernel": "other"}, infrastructure=True)
    found = validate(plan, make_results(tmp_path / "results", plan, attempts={START: (broken, Attempt())}))
    assert found.violations == ()


def test_what_a_backend_sets_itself_needs_no_declaration(tmp_path: Path) -> None:
    """DeepEP V1 sets NVSHMEM's variables, the worker a build's JIT cache; the same difference in another arm is refused."""
    arms = [{"name": name, "backend": name, "api_modes": {"decode": mode}} for name, mode in GPU_ARMS]
    shape = {"name": "decode", "tokens_per_rank": 8, "hidden": 7168, "experts": 256, "top_k": 8}
    plan = make_plan(tmp_path, device="cuda", arms=arms, reference="deepep-v1", profiles=[shape])
    seen = {"deepep-v1": {"NVSHMEM_QP_DEPTH": "1024"}, "deepep-v2": {"EP_JIT_CACHE_DIR": "/cache"}}

    def codes(folder: str, own: dict[str, dict[str, str]]) -> set[tuple[str, str]]:
        attempts = {start.id: (Attempt(provenance={"environment": own.get(start.arm, {})}),) for start in plan.starts}
        found = validate(plan, make_results(tmp_path / folder, plan, attempts=attempts)).violations
        return {(item.code, item.field) for item in found if item.code == "environment_differs"}

    assert not codes("own", seen)
    swapped = {"deepep-v1": seen["deepep-v2"], "deepep-v2": seen["deepep-v1"]}
    assert {
        ("environment_differs", "provenance.environment.EP_JIT_CACHE_DIR"),
        ("environment_differs", "provenance.environment.NVSHMEM_QP_DEPTH"),
    } == codes("swapped", swapped)


GPU_ARMS = (("deepep-v1", "low_latency"), ("deepep-v2", "elastic"), ("deepep-v1-nosync", "normal"))


def test_the_tolerance_of_a_kernels_cast_is_the_workers() -> None:
    """One number on both sides, though the host imports no torch."""
    assert quantise.CAST_ERROR == correctness.CAST_ERROR


@pytest.mark.parametrize(("tolerance", "refused"), [(0.0745239, False), (0.0746, True)])
def test_a_kernel_that_casts_and_groups_may_round_as_often_as_it_does(
    tmp_path: Path, tolerance: float, refused: bool
) -> None:
    """2^-4 (1 + 2^-8) for the cast; three BF16 roundings, (1 + 2^-8)^3 - 1, of which one is the expert's own output; 2^-16."""
    arms = [{"name": name, "backend": name, "api_modes": {"decode": mode}} for name, mode in GPU_ARMS]
    shape = {"name": "decode", "tokens_per_rank": 8, "hidden": 7168, "experts": 256, "top_k": 8}
    sizes = [{"ranks": 2, "rounds": 1, "scored": False}]
    plan = make_plan(
        tmp_path, device="cuda", arms=arms, reference="deepep-v1", profiles=[shape], dtypes=["fp8"], ep_sizes=sizes
    )
    results = make_results(tmp_path / "results", plan)

    def widen(value: dict[str, Any]) -> None:
        for record in value["records"]:
            if record["status"] == "ok":
                record["oracle"]["before"]["tolerance"] = tolerance

    edit_start(results, "ep2/decode/round-01/deepep-v1", widen)
    found = {item.code for item in validate(plan, results).violations}
    assert refused == ("tolerance_widened" in found)
