"""Validation as a whole: an honest folder passes, the listing names everything, one violation of each kind is found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from forge import read
from plans import ARMS, make_plan, profile
from synthetic import Attempt, make_results

from ep_campaign.plan import Plan
from ep_campaign.validate import Severity, State, validate
from ep_campaign.validate.finding import Validation, Violation, note, refusal, sort_violations
from ep_worker.contract.canonical import pretty_json
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from pathlib import Path


def test_an_honest_folder_is_complete(tmp_path: Path) -> None:
    """Every mode, boundary, dtype, route kind and isolated loop, two profiles, two EP sizes: no violation at all."""
    plan = make_plan(
        tmp_path,
        profiles=[profile("decode"), profile("prefill", 16)],
        routes=[
            {"name": "uniform", "kind": "uniform"},
            {"name": "ragged", "kind": "ragged", "empty_ranks": 1},
            {"name": "masked", "kind": "masked"},
            {"name": "affine", "kind": "affine"},
        ],
        dtypes=["fp8", "bf16"],
        ep_sizes=[{"ranks": 2, "rounds": 2, "scored": False}, {"ranks": 4, "rounds": 1, "scored": False}],
        measurement={"iterations": 20, "warmups": 2},
    )
    found = validate(plan, make_results(tmp_path / "results", plan))
    assert found.violations == ()
    assert found.state is State.COMPLETE
    assert found.census["num_ok_starts"] == found.census["num_starts"] == 2 * 3 * 3  # profiles x arms x (2 + 1) rounds


def test_an_honest_failure_is_partial_and_not_refused(tmp_path: Path) -> None:
    """Crashed, timed out, inadmissible and incorrect starts are results; what they lack leaves the folder partial."""
    plan = make_plan(tmp_path)
    ends = (Status.CRASHED, Status.TIMED_OUT, Status.INADMISSIBLE, Status.INCORRECT, Status.NOT_RUN)
    planted = {start.id: (Attempt(status),) for start, status in zip(plan.starts, ends, strict=False)}
    found = validate(plan, make_results(tmp_path / "results", plan, attempts=planted))
    assert found.state is State.PARTIAL
    assert found.of(Severity.REFUSE) == []
    assert found.codes == ["not_ok", "not_run"]


def test_equal_folders_give_equal_text(tmp_path: Path) -> None:
    """The document is plain JSON and depends on the folder's content alone."""
    plan = make_plan(tmp_path)
    planted = {plan.starts[4].id: (Attempt(Status.CRASHED),)}
    documents = [
        pretty_json(validate(plan, make_results(tmp_path / name, plan, attempts=planted)).as_json())
        for name in ("a", "b")
    ]
    assert documents[0] == documents[1]
    assert json.loads(documents[0])["state"] == "partial"


def test_everything_is_found_at_once(tmp_path: Path) -> None:
    """Four faults in four files give at least one violation each."""
    plan = make_plan(tmp_path)
    results = make_results(tmp_path / "results", plan)
    ids = [start.id for start in plan.starts]
    for start_id, name in zip(ids, ("start.json", "rank-0.jsonl", "samples.bin.gz", "spec.json"), strict=False):
        path = results.attempt(start_id, 1) / name
        path.write_bytes(path.read_bytes() + b"\n")
    found = validate(plan, results)
    assert found.state is State.REFUSED
    altered = {violation.file for violation in found.violations if violation.code == "altered_file"}
    files = ("start.json", "rank-0.jsonl", "samples.bin.gz", "spec.json")
    assert altered == {f"starts/{i}/attempt-1/{name}" for i, name in zip(ids, files, strict=False)}


def test_the_listing_names_file_field_and_code() -> None:
    """One line a violation: severity, place, found, expected, what to do, code; the worst come first."""
    violations = [note("n", "a.json", "", "x", "y", "look"), refusal("r", "b.json", "records[1]", "1", "2", "mend it")]
    found = Validation("tiny", "d" * 64, sort_violations([*violations, violations[0]]), {})
    assert found.text() == (
        "tiny: refused (1 refuse, 0 partial, 1 note)\n"
        "refuse b.json: records[1]: found 1, expected 2; mend it [r]\n"
        "note a.json: found x, expected y; look [n]\n"
    )


@pytest.mark.parametrize(
    ("severities", "state"),
    [
        ([], State.COMPLETE),
        ([Severity.NOTE], State.COMPLETE),
        ([Severity.NOTE, Severity.PARTIAL], State.PARTIAL),
        ([Severity.PARTIAL, Severity.REFUSE], State.REFUSED),
    ],
)
def test_the_worst_violation_decides(severities: list[Severity], state: State) -> None:
    """Notes change nothing, something missing makes it partial, a contradiction refuses."""
    violations = tuple(Violation(severity, "c", "f", "", "x", "y", "z") for severity in severities)
    assert Validation("tiny", "", violations, {}).state is state


def test_a_plan_for_another_campaign_is_refused(tmp_path: Path) -> None:
    """A folder holds one plan; validating it against another one is refused for the plan and for every start."""
    plan = make_plan(tmp_path)
    results = make_results(tmp_path / "results", plan)
    other = Plan({**plan.document, "seed": 8})
    found = validate(other, results)
    assert {"plan_differs", "plan_digest_differs", "spec_differs"} <= set(found.codes)


def test_an_altered_plan_is_refused(tmp_path: Path) -> None:
    """A plan whose digest does not match its content was edited after it was written."""
    plan = make_plan(tmp_path)
    results = make_results(tmp_path / "results", plan)
    value = read(results.plan)
    value["arms"][ARMS[1]]["knobs"] = {"num_sms": 3}
    results.plan.write_text(pretty_json(value))
    assert validate(plan, results).codes == ["plan_altered"]
