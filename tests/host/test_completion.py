"""Completion: checksums that the real tool accepts, and marks that cannot be wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from forge import read
from plans import REPOSITORY, make_plan
from synthetic import Attempt, make_results

from ep_campaign import completion
from ep_campaign.completion import complete, partial_path
from ep_campaign.errors import CampaignError
from ep_campaign.layout import TABLES
from ep_campaign.validate import State, validate
from ep_campaign.validate.report import write
from ep_worker.contract.canonical import sha256_file
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan

START = "ep2/decode/round-02/torch-a2a"
SCRIPT = REPOSITORY / "workflow" / "scripts" / "complete.py"


def _made(tmp_path: Path, attempts: Mapping[str, Sequence[Attempt]] | None = None) -> tuple[Plan, Results]:
    """A validated folder with every product, the contents of which completion does not read."""
    plan = make_plan(tmp_path)
    results = make_results(tmp_path / "results", plan, attempts=attempts)
    write(validate(plan, results), results)
    products = [*(f"tables/{name}.parquet" for name in TABLES), "statistics.json", "RESULTS.md", "report.html", "pr.md"]
    for name in (*products, "figures/starts.svg", "logs/validate.log", "benchmarks/validate.jsonl", ".lock"):
        path = results.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    return plan, results


def _check(results: Results) -> subprocess.CompletedProcess[str]:
    """The real `sha256sum --check` in the folder."""
    tool = shutil.which("sha256sum")
    assert tool is not None
    command = [tool, "--check", "--strict", "--quiet", results.checksums.name]
    return subprocess.run(command, cwd=results.root, capture_output=True, text=True, check=False)


def test_a_complete_folder_is_marked(tmp_path: Path) -> None:
    """The checksums cover everything but logs, benchmarks, hidden files and themselves; the mark names their digest."""
    plan, results = _made(tmp_path)
    assert complete(plan, results) is State.COMPLETE
    done = _check(results)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    names = [line.split("  ", 1)[1] for line in results.checksums.read_text().splitlines()]
    assert names == sorted(names)
    everything = {path.relative_to(results.root).as_posix() for path in results.root.rglob("*") if path.is_file()}
    outside = {"SHA256SUMS", "CAMPAIGN_COMPLETE", "logs/validate.log", "benchmarks/validate.jsonl", ".lock"}
    assert set(names) == everything - outside
    assert read(results.complete) == {
        "schema": "ep-campaign/mark/1",
        "campaign": "tiny",
        "plan_digest": plan.digest,
        "state": "complete",
        "sha256sums_sha256": sha256_file(results.checksums),
        "num_files": len(names),
        "num_starts": 9,
        "num_ok_starts": 9,
        "num_attempts": 9,
    }
    assert not partial_path(results).exists()


def test_the_checksums_find_a_changed_byte(tmp_path: Path) -> None:
    """A figure that was edited afterwards."""
    plan, results = _made(tmp_path)
    complete(plan, results)
    (results.root / "figures" / "starts.svg").write_text("prettier")
    done = _check(results)
    assert done.returncode == 1
    assert "figures/starts.svg: FAILED" in done.stdout


def test_a_second_run_changes_no_byte(tmp_path: Path) -> None:
    """Marks and checksums hold no time and do not cover themselves."""
    plan, results = _made(tmp_path)
    complete(plan, results)
    before = [path.read_bytes() for path in (results.checksums, results.complete)]
    complete(plan, results)
    assert [path.read_bytes() for path in (results.checksums, results.complete)] == before


def test_a_partial_folder_is_not_marked_complete(tmp_path: Path) -> None:
    """It gets its checksums and PARTIAL, which says what is missing; a mark of before is gone."""
    plan, results = _made(tmp_path, {START: (Attempt(Status.CRASHED),)})
    results.complete.write_text("stale")
    assert complete(plan, results) is State.PARTIAL
    assert not results.complete.exists()
    partial = read(partial_path(results))
    assert (partial["state"], partial["num_ok_starts"], partial["num_starts"]) == ("partial", 8, 9)
    (missing,) = partial["missing"]
    assert missing.startswith(f"partial starts/{START}: found 1 crashed")
    assert _check(results).returncode == 0
    assert "PARTIAL" not in results.checksums.read_text()


def test_a_folder_that_became_whole_loses_partial(tmp_path: Path) -> None:
    """PARTIAL and CAMPAIGN_COMPLETE never stand side by side."""
    plan, results = _made(tmp_path)
    partial_path(results).write_text("stale")
    complete(plan, results)
    assert results.complete.exists()
    assert not partial_path(results).exists()


def test_a_folder_that_changed_since_is_refused(tmp_path: Path) -> None:
    """A raw file altered after validation: no mark, also not the one of before."""
    plan, results = _made(tmp_path)
    complete(plan, results)
    path = results.attempt(START, 1) / "rank-0.jsonl"
    path.chmod(0o644)
    path.write_text("")
    with pytest.raises(CampaignError) as refused:
        complete(plan, results)
    assert refused.value.codes == ("changed_since_validation",)
    assert not results.complete.exists()


@pytest.mark.parametrize("name", ["tables/samples.parquet", "tables/contrasts.parquet", "statistics.json", "pr.md"])
def test_a_missing_product_is_refused(tmp_path: Path, name: str) -> None:
    """Everything that the stages before it write must be there."""
    plan, results = _made(tmp_path)
    (results.root / name).unlink()
    with pytest.raises(CampaignError) as refused:
        complete(plan, results)
    assert [(item.code, item.where) for item in refused.value.refusals] == [("missing_product", name)]
    assert not results.complete.exists()


def test_a_folder_without_validation_is_refused(tmp_path: Path) -> None:
    """Nothing is marked that nothing vouches for."""
    plan, results = _made(tmp_path)
    results.validation.unlink()
    with pytest.raises(CampaignError) as refused:
        complete(plan, results)
    assert refused.value.codes == ("missing_file",)


def test_odd_names_are_summed_too(tmp_path: Path) -> None:
    """Spaces, backslashes, line ends and letters outside ASCII, as `sha256sum` escapes them."""
    plan, results = _made(tmp_path)
    for name in ("a b.svg", "back\\slash.svg", "line\nend.svg", "µs.svg", os.fsdecode(b"\xff.svg")):
        (results.root / "figures" / name).write_text(name, errors="surrogateescape")
    complete(plan, results)
    done = _check(results)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert read(results.complete)["num_files"] == len(results.checksums.read_bytes().splitlines())


def test_a_full_disk_leaves_no_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checksums cannot be written: the mark of before is gone and no new one is there."""
    plan, results = _made(tmp_path)
    complete(plan, results)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(completion, "write_atomically", full)
    with pytest.raises(OSError, match="No space left"):
        complete(plan, results)
    assert not results.complete.exists()


def test_the_script_says_which_it_is(tmp_path: Path) -> None:
    """Exit status 0 and one line, complete or partial."""
    _, results = _made(tmp_path)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--results", str(results.root)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "tiny: complete\n")
    assert results.complete.exists()
