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
from synthetic import Attempt, make_results, record_all_products

from ep_campaign import completion
from ep_campaign.completion import complete
from ep_campaign.errors import CampaignError
from ep_campaign.identity import accept_worker
from ep_campaign.layout import TABLES
from ep_campaign.products import Stage, record_products
from ep_campaign.validate import Severity, State, validate
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
    record_all_products(results)
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
    assert not results.partial.exists()


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
    partial = read(results.partial)
    assert (partial["state"], partial["num_ok_starts"], partial["num_starts"]) == ("partial", 8, 9)
    (missing,) = partial["missing"]
    assert missing.startswith(f"partial starts/{START}: found 1 crashed")
    assert _check(results).returncode == 0
    assert "PARTIAL" not in results.checksums.read_text()


def test_a_folder_that_became_whole_loses_partial(tmp_path: Path) -> None:
    """PARTIAL and CAMPAIGN_COMPLETE never stand side by side."""
    plan, results = _made(tmp_path)
    results.partial.write_text("stale")
    complete(plan, results)
    assert results.complete.exists()
    assert not results.partial.exists()


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


@pytest.mark.parametrize("name", ["RESULTS.md", "statistics.json", "tables/cells.parquet", "figures/starts.svg"])
def test_an_edited_product_is_refused(tmp_path: Path, name: str) -> None:
    """A product whose digest is not what its stage wrote is named, with the remedy, and nothing is marked."""
    plan, results = _made(tmp_path)
    with (results.root / name).open("a") as stream:
        stream.write("faster")
    with pytest.raises(CampaignError) as refused:
        complete(plan, results)
    assert [(item.code, item.where) for item in refused.value.refusals] == [("edited_product", name)]
    assert "make summary CAMPAIGN=results" in str(refused.value)
    assert not results.checksums.exists()


def test_a_record_of_products_that_names_too_few_is_refused(tmp_path: Path) -> None:
    """What a stage always writes cannot be left out of its record."""
    plan, results = _made(tmp_path)
    record_products(results, Stage.REPORT, [results.root / "pr.md", results.root / "report.html"])
    with pytest.raises(CampaignError) as refused:
        complete(plan, results)
    assert [(item.code, item.where) for item in refused.value.refusals] == [("edited_product", "products/report.json")]


def test_a_linked_folder_of_starts_is_refused(tmp_path: Path) -> None:
    """Checksums follow no link, so a folder that holds one is not sealed."""
    plan, results = _made(tmp_path)
    (results.root / "starts").rename(tmp_path / "elsewhere")
    (results.root / "starts").symlink_to(tmp_path / "elsewhere")
    found = validate(plan, results)
    assert [(item.code, item.file) for item in found.of(Severity.REFUSE)] == [("not_a_file", "starts")]
    with pytest.raises(CampaignError):
        complete(plan, results)
    assert not results.complete.exists()


def test_a_pipe_is_refused_and_never_read(tmp_path: Path) -> None:
    """A FIFO in the place of a record or of samples: validation ends and names it."""
    plan, results = _made(tmp_path)
    for name, start in (("start.json", plan.starts[0]), ("samples.bin.gz", plan.starts[1])):
        path = results.attempt(start.id, 1) / name
        path.unlink()
        os.mkfifo(path)
    found = validate(plan, results)
    pipes = {item.file.rpartition("/")[2] for item in found.violations if item.code == "not_a_file"}
    assert pipes == {"start.json", "samples.bin.gz"}


def test_a_raw_file_that_an_earlier_seal_exposes_is_refused(tmp_path: Path) -> None:
    """A forged admission, consistent in itself: the checksums that were there before it name it."""
    plan, results = _made(tmp_path)
    complete(plan, results)
    path = results.admission(2)
    path.chmod(0o644)
    path.write_text(path.read_text() + "\n")
    (violation,) = [item for item in validate(plan, results).violations if item.file == "admission/ep2.json"]
    assert (violation.code, violation.expected.split(", ")[1]) == ("altered_file", "as SHA256SUMS says")


def test_a_second_worker_alters_no_seal(tmp_path: Path) -> None:
    """`worker.json` grows when another worker is accepted; any other change of it is refused."""
    plan, results = _made(tmp_path)
    complete(plan, results)
    accept_worker(results, "6" * 64, "another build")
    assert validate(plan, results).state is State.COMPLETE
    results.worker.write_text(results.worker.read_text().replace("5" * 64, "7" * 64))
    assert "worker.json" in {item.file for item in validate(plan, results).of(Severity.REFUSE)}


def test_a_folder_without_validation_is_refused(tmp_path: Path) -> None:
    """Nothing is marked that nothing vouches for."""
    plan, results = _made(tmp_path)
    results.validation.unlink()
    with pytest.raises(CampaignError) as refused:
        complete(plan, results)
    assert "missing_file" in refused.value.codes


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
