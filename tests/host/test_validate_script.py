"""The validate script: which file it writes, its exit status, and never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from forge import read
from plans import REPOSITORY, make_plan
from synthetic import Attempt, make_results

from ep_campaign.errors import CampaignError
from ep_campaign.layout import Results
from ep_campaign.plan import Plan
from ep_campaign.validate import validate
from ep_campaign.validate.folder import open_plan
from ep_campaign.validate.report import REFUSED_NAME, write
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = REPOSITORY / "workflow" / "scripts" / "validate.py"


def _run(results: Results) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--results", str(results.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done


def test_complete_partial_and_refused_folders(tmp_path: Path) -> None:
    """Exit status 0 with validation.json for complete and partial, 2 with the refused file alone for contradictions."""
    plan = make_plan(tmp_path)
    start_id = plan.starts[0].id
    results = make_results(tmp_path / "results", plan, attempts={start_id: (Attempt(Status.CRASHED),)})
    partial = _run(results)
    assert (partial.returncode, read(results.validation)["state"]) == (0, "partial")
    assert partial.stderr.splitlines()[0] == "tiny: partial (0 refuse, 1 partial, 0 note)"
    assert partial.stderr.splitlines()[-1] == f"Every place, one by one: {results.validation}"
    path = results.attempt(start_id, 1) / "rank-0.jsonl"
    path.chmod(0o644)
    path.write_text("")
    refused = _run(results)
    assert refused.returncode == 2
    assert "[altered_file]" in refused.stderr
    assert not results.validation.exists()
    assert read(results.root / REFUSED_NAME)["state"] == "refused"
    complete = make_results(tmp_path / "whole", plan)
    (complete.root / REFUSED_NAME).write_text("{}")
    assert _run(complete).returncode == 0
    assert read(complete.validation)["state"] == "complete"
    assert not (complete.root / REFUSED_NAME).exists()


PLANS = {
    "missing_file": None,
    "not_json": "{",
    "not_an_object": "[]",
    "bad_plan": '{"digest": 1, "schema": "ep-campaign/plan/1"}',
    "plan_schema": '{"digest": "1", "schema": "ep-campaign/plan/0"}',
    "plan_altered": '{"digest": "1", "schema": "ep-campaign/plan/1"}',
}


@pytest.mark.parametrize("code", PLANS)
def test_a_plan_that_is_none_is_one_line(tmp_path: Path, code: str) -> None:
    """Without a readable plan there is nothing to hold the folder against."""
    text = PLANS[code]
    results = Results(tmp_path)
    if text is not None:
        results.plan.write_text(text)
    done = _run(results)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.endswith(f"[{code}]")


@pytest.mark.parametrize("starts", [3, None, [{"id": 1}], [None]])
def test_a_hollow_plan_is_refused(tmp_path: Path, starts: object) -> None:
    """Its digest holds, but it describes no start."""
    plan = Plan({"schema": "ep-campaign/plan/1", "starts": starts})
    (tmp_path / "plan.json").write_text(plan.text())
    with pytest.raises(CampaignError) as refused:
        open_plan(Results(tmp_path))
    assert refused.value.codes == ("bad_plan",)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110 - a device
def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The write fails as it does on a full disk: the error is passed on and neither file is there."""
    plan = make_plan(tmp_path)
    results = make_results(tmp_path / "results", plan)
    found = validate(plan, results)

    def full(*_: object, **__: object) -> None:
        with open("/dev/full", "wb", buffering=0) as stream:  # noqa: PTH123 - a device
            stream.write(b"x")

    monkeypatch.setattr("ep_campaign.validate.report.write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        write(found, results)
    assert not results.validation.exists()
