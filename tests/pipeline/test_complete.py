"""A whole campaign by real Snakemake: what it leaves, and that an unchanged folder has nothing to do."""

from __future__ import annotations

import json
import subprocess

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_a_finished_folder_holds_everything(finished):
    """Plan, four outcomes, tables, statistics, figures, three reports, checksums, mark."""
    there = {path.name for path in finished.results.iterdir()}

    expected = {"plan.json", "worker.json", "validation.json", "statistics.json", "RESULTS.md", "report.html", "pr.md"}
    assert (
        expected | {"SHA256SUMS", "CAMPAIGN_COMPLETE", "starts", "tables", "figures", "admission", "products"} <= there
    )
    assert 4 == len(finished.outcomes())
    assert all(json.loads(path.read_text())["status"] == "ok" for path in finished.outcomes())


def test_checksums_pass_the_real_tool(finished):
    """`sha256sum -c` in the folder; every file of a start is covered."""
    done = subprocess.run(
        ["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=finished.results, capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stdout)
    named = {line.split("  ", 1)[1] for line in (finished.results / "SHA256SUMS").read_text().splitlines()}
    for path in finished.results.glob("starts/**/*"):
        if path.is_file():
            assert str(path.relative_to(finished.results)) in named


def test_raw_files_are_read_only(finished):
    """Nothing of an attempt can be written by accident."""
    files = [path for path in finished.results.glob("starts/*/*/*/*/attempt-*/*") if path.is_file()]

    assert files
    assert not [path for path in files if path.stat().st_mode & 0o222]


def test_the_verdict_of_two_rounds(finished):
    """Two rounds decide nothing, and the report says exactly that."""
    assert "too few starts" in (finished.results / "RESULTS.md").read_text()
    assert "too few starts" in (finished.results / "report.html").read_text()


def test_an_unchanged_folder_has_nothing_to_do(copied):
    """The same command again runs no job and changes no byte."""
    before = copied.digest_of("**/*")

    done = copied.run()

    assert 0 == done.returncode
    assert "Nothing to be done" in done.stdout
    assert before == copied.digest_of("**/*")


def test_starts_ran_in_the_plans_order_one_at_a_time(finished):
    """The journal's scored attempts follow the positions, and each ends before the next begins."""
    lines = [json.loads(line) for line in (finished.results / "journal.jsonl").read_text().splitlines()]
    plan = json.loads((finished.results / "plan.json").read_text())

    begun = [line["start"] for line in lines if line["event"] == "begin" and line["kind"] == "scored"]
    assert [start["id"] for start in plan["starts"]] == begun
    events = [line["event"] for line in lines]
    assert ["begin", "end"] * (len(events) // 2) == events


def test_the_dry_run_previews_one_job_a_start(fresh):
    """`snakemake -n` lists four measuring jobs and makes no results folder."""
    done = fresh.run("-n")

    assert 0 == done.returncode
    assert any(line.split()[:2] == ["measure", "4"] for line in done.stdout.splitlines())
    assert not fresh.results.exists()


def test_snakemakes_own_report_works(copied):
    """`snakemake --report` makes a self-contained page of the figures and our report."""
    done = copied.run("--report", "snakemake-report.html", "--config", "campaign=tiny")

    assert 0 == done.returncode, done.stdout
    assert (copied.root / "snakemake-report.html").stat().st_size > 100_000
