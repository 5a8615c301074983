"""Kernel times: launches of their own after the starts, their record, what validation finds, and the report's section."""

from __future__ import annotations

import json
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from plans import ARMS, make_plan
from synthetic import make_results

from ep_campaign.kernel_times import lines, profile_arms, rows_of
from ep_campaign.layout import Results
from ep_campaign.local import ThisMachine
from ep_campaign.report.kernel_times import kernel_times_section
from ep_campaign.validate import validate

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ep_campaign.plan import Plan

HOW = {"modes": ["host_start"], "isolated_loops": True, "iterations": 20, "warmups": 2, "kernel_times": True}
LAUNCH = "kernel-times/ep2/decode/torch-agrs/attempt-1"


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """A folder of two arms whose starts are synthetic and whose profiled launches are real."""
    folder = tmp_path_factory.mktemp("profiled")
    arms = [{"name": arm, "backend": arm} for arm in (ARMS[1], ARMS[2])]
    plan = make_plan(folder, arms=arms, reference=ARMS[1], measurement=HOW)
    results = make_results(folder / "results", plan)
    profile_arms(plan, results, 2, ThisMachine())
    return plan, results.root


@pytest.fixture
def copied(profiled: tuple[Plan, Path], tmp_path: Path) -> tuple[Plan, Results]:
    """A copy that a test may alter."""
    plan, root = profiled
    shutil.copytree(root, tmp_path / "copy")
    return plan, Results(tmp_path / "copy")


def edit(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes a JSON file in place."""
    value = json.loads(path.read_text())
    change(value)
    path.chmod(0o644)
    path.write_text(json.dumps(value))


def found(plan: Plan, results: Results) -> set[tuple[str, str]]:
    """(severity, code) of what validation says of kernel times."""
    violations = validate(plan, results).violations
    return {(item.severity.value, item.code) for item in violations if item.file.startswith("kernel-times/")}


def test_every_arm_is_profiled_once_and_validates(copied: tuple[Plan, Results]) -> None:
    """One row for each cell and arm, with a collective in each, and nothing to complain of."""
    plan, results = copied
    record = json.loads(results.kernel_times(2).read_text())

    assert [("ep2/decode/uniform/bf16", arm) for arm in (ARMS[1], ARMS[2])] == [
        (r["cell"], r["arm"]) for r in record["rows"]
    ]
    assert all(0 < row["median_ns"]["collective"] < row["median_ns"]["kernels"] for row in record["rows"])
    assert set() == found(plan, results)
    assert lines(record)[0].startswith("profile ep2/decode/uniform/bf16 torch-a2a-cached: ok collective, ")


def test_missing_kernel_times_leave_the_folder_partial(copied: tuple[Plan, Results]) -> None:
    """The plan asks for them, so their absence is said."""
    plan, results = copied
    results.kernel_times(2).unlink()

    assert {("partial", "no_kernel_times")} == found(plan, results)


def test_altered_kernel_times_are_refused(copied: tuple[Plan, Results]) -> None:
    """Figures that do not follow from the launches beside them, another plan, another kind of launch, an edited file."""
    plan, results = copied
    edit(results.kernel_times(2), lambda record: record["rows"][0]["median_ns"].update(collective=1.0))
    assert {("refuse", "kernel_times_differ")} == found(plan, results)
    edit(results.kernel_times(2), lambda record: record.update(plan_digest="0" * 64))
    assert ("refuse", "plan_digest_differs") in found(plan, results)
    edit(results.root / LAUNCH / "start.json", lambda start: start.update(kind="scored"))
    assert ("refuse", "identity_differs") in found(plan, results)


def test_an_edited_log_of_a_launch_is_refused(copied: tuple[Plan, Results]) -> None:
    """Its record names the digest of every file."""
    plan, results = copied
    log = results.root / LAUNCH / "rank-0.jsonl"
    log.chmod(0o644)
    log.write_text(log.read_text() + "\n")

    assert {("refuse", "altered_file")} == found(plan, results)


def test_an_arm_that_could_not_be_profiled_is_noted(copied: tuple[Plan, Results]) -> None:
    """A launch whose kernels were not declared has no figures, a reason in the record, and a note of its code."""
    plan, results = copied
    failure = {"status": "inadmissible", "reason_code": "unmatched_kernel", "reason": "found kernels x", "probe": None}
    edit(results.root / LAUNCH / "start.json", lambda start: start["records"][0].update(failure))
    launch = json.loads((results.root / LAUNCH / "start.json").read_text())
    edit(results.kernel_times(2), lambda record: record["rows"].__setitem__(1, rows_of(launch)[0]))

    assert {("note", "unmatched_kernel")} == found(plan, results)
    source = SimpleNamespace(
        plan=plan, evidence=SimpleNamespace(kernel_times={2: json.loads(results.kernel_times(2).read_text())})
    )
    section = kernel_times_section(source)  # type: ignore[arg-type] # all that it reads
    assert section is not None
    assert "Kernel time (profiler, own process)" == section.title
    assert "inadmissible unmatched_kernel: found kernels x" in str(section.blocks[1])


def test_a_plan_that_does_not_ask_stays_as_it_is(tmp_path: Path) -> None:
    """The key is left out of the plan at its default, and the report has no such section."""
    plan = make_plan(tmp_path)

    assert "kernel_times" not in json.dumps(plan.document)
    assert kernel_times_section(SimpleNamespace(plan=plan)) is None  # type: ignore[arg-type] # all that it reads
