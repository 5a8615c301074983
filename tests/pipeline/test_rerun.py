"""Rerun and resume, each by real Snakemake: what is repeated, what never is, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trees import copy_tree, kill, tiny, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SUMMARY = ("-R", "validate", "--config", "campaign=tiny", "summary=only")
RAW = "starts/*/*/*/*/*"


def jobs(output):
    """Rules of a dry run's job table, with their counts."""
    rows = [line.split() for line in output.splitlines()]
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}


def start_statuses(tree):
    """For each start the statuses of its attempts, in order."""
    found = {}
    for path in tree.results.glob("starts/*/*/*/*/attempt-*/start.json"):
        record = json.loads(path.read_text())
        found.setdefault(record["start"], {})[record["attempt"]] = record["status"]
    return {start: [attempts[key] for key in sorted(attempts)] for start, attempts in found.items()}


def running_rank(tree):
    """A rank of a start that is measuring now, from its own first event; None where there is none yet."""
    for path in tree.results.glob("starts/*/*/*/*/attempt-*/rank-1.jsonl"):
        if (path.parent / "start.json").exists():
            continue
        lines = path.read_text().splitlines()
        if len(lines) >= 2:
            return json.loads(lines[0])["pid"]
    return None


def lengthen(tree):
    """Starts that last long enough to be struck while they measure."""
    how = {"boundaries": ["dispatch_ready"], "modes": ["host_start"], "iterations": 1200, "warmups": 2}
    tree.write(tiny(measurement=how))


def test_only_the_summary_is_rerun_and_its_bytes_are_the_same(copied):
    """The documented command: no measuring job in its dry run, and after it every file is as it was."""
    before = copied.digest_of(
        "*.json", "*.md", "*.html", "tables/*", "figures/*", "SHA256SUMS", "CAMPAIGN_COMPLETE", RAW
    )

    preview = jobs(copied.run("-n", *SUMMARY).stdout)
    assert {"validate", "aggregate", "analyse", "plots", "report", "complete"} <= set(preview)
    assert not {"measure", "admit", "plan"} & set(preview)

    done = copied.run(*SUMMARY)
    assert 0 == done.returncode, done.stdout
    after = copied.digest_of(
        "*.json", "*.md", "*.html", "tables/*", "figures/*", "SHA256SUMS", "CAMPAIGN_COMPLETE", RAW
    )
    assert before == after


def test_a_fresh_clone_beside_finished_results_measures_nothing(finished, tmp_path):
    """Without Snakemake's metadata, and with every file newer than it was, no start is repeated."""
    clone = copy_tree(finished, tmp_path / "clone", metadata=False)
    now = time.time()
    for path in [*sorted(clone.root.rglob("*.py")), clone.root / "Snakefile"]:
        os.utime(path, (now + 60, now + 60))

    done = clone.run("-n")

    assert 0 == done.returncode
    assert not {"measure", "admit", "plan"} & set(jobs(done.stdout))


def test_an_altered_raw_byte_is_refused(copied):
    """One flipped byte of one start's samples: the summary is refused by name, and no mark remains."""
    samples = min(copied.results.glob("starts/*/*/*/*/attempt-1/samples.bin.gz"))
    samples.chmod(0o644)
    data = bytearray(samples.read_bytes())
    data[len(data) // 2] ^= 1
    samples.write_bytes(bytes(data))

    done = copied.run(*SUMMARY)

    assert 0 != done.returncode
    assert "samples.bin.gz" in done.stdout
    assert "altered" in done.stdout
    assert not (copied.results / "CAMPAIGN_COMPLETE").exists()


def test_a_plain_run_never_seals_an_edited_product(copied):
    """A line added to the report, a word changed in the statistics: refused by name; the summary command writes both anew."""
    before = copied.digest_of("*.md", "statistics.json", "SHA256SUMS", "CAMPAIGN_COMPLETE")
    for name in ("RESULTS.md", "statistics.json"):
        path = copied.results / name
        path.write_text(path.read_text().replace("too few starts", "faster"))

        done = copied.run()
        assert 0 != done.returncode
        assert "[edited_product]" in done.stdout
        assert not (copied.results / "CAMPAIGN_COMPLETE").exists()

    done = copied.run(*SUMMARY)
    assert 0 == done.returncode, done.stdout
    assert before == copied.digest_of("*.md", "statistics.json", "SHA256SUMS", "CAMPAIGN_COMPLETE")


def test_a_lost_mark_returns(copied):
    """The plain command writes it again, and then has nothing to do."""
    mark = copied.results / "CAMPAIGN_COMPLETE"
    kept = mark.read_bytes()
    mark.unlink()

    done = copied.run()
    assert 0 == done.returncode, done.stdout
    assert kept == mark.read_bytes()
    assert "Nothing to be done" in copied.run().stdout


def test_a_refused_folder_stays_refused_until_it_is_mended(copied):
    """After a refused summary the plain command refuses too; once the byte is back it completes."""
    path = min(copied.results.glob("starts/*/*/*/*/attempt-1/start.json"))
    kept = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(kept + b"\n")
    show = [sys.executable, "workflow/scripts/show.py", "--results", "results/tiny"]
    shown = subprocess.run(show, cwd=copied.root, env=copied.environment(), capture_output=True, text=True, check=False)
    assert (2, "") == (shown.returncode, shown.stdout)
    assert "[altered_file]" in shown.stderr
    assert 0 != copied.run(*SUMMARY).returncode

    assert 0 != copied.run().returncode

    path.write_bytes(kept)
    done = copied.run()
    assert 0 == done.returncode, done.stdout
    assert (copied.results / "CAMPAIGN_COMPLETE").exists()


def test_a_space_in_the_results_path(copied):
    """Every rule quotes its paths, so nothing else is written."""
    folder = copied.root / "my results"
    copied.results.parent.rename(folder)

    done = copied.run(*SUMMARY, "results=my results")
    assert 0 == done.returncode, done.stdout
    assert (folder / "tiny" / "CAMPAIGN_COMPLETE").exists()
    assert not (copied.root / "my").exists()


def test_sigkill_of_snakemake_then_the_same_command_finishes(fresh):
    """Killed in the second start: nothing lives on, the first start is not repeated, the broken one is recorded."""
    lengthen(fresh)
    process = fresh.begin()
    wait_until(lambda: len(fresh.outcomes()) == 1 and running_rank(fresh) is not None, "the second start's ranks")
    kill(process)
    wait_until(lambda: not fresh.processes(), "every process of the campaign to die", timeout_s=10)
    first = fresh.outcomes()[0]
    kept = first.read_bytes(), first.stat().st_mtime_ns

    done = fresh.run()

    assert 0 == done.returncode, done.stdout
    assert kept == (first.read_bytes(), first.stat().st_mtime_ns)
    assert [["crashed", "ok"], ["ok"], ["ok"], ["ok"]] == sorted(start_statuses(fresh).values())
    assert (fresh.results / "CAMPAIGN_COMPLETE").exists()
    broken = next(
        json.loads(p.read_text()) for p in fresh.results.glob(f"{RAW}/start.json") if '"interrupted"' in p.read_text()
    )
    assert broken["infrastructure"] is True


def test_sigkill_between_record_and_outcome_is_harvested(copied):
    """A start whose outcome is gone but whose attempt is whole is not measured again."""
    outcome = copied.outcomes()[0]
    kept = outcome.read_bytes()
    outcome.unlink()

    done = copied.run()

    assert 0 == done.returncode, done.stdout
    assert kept == outcome.read_bytes()
    assert {("ok",)} == {tuple(statuses) for statuses in start_statuses(copied).values()}


def test_a_killed_launcher_is_retried_in_its_slot(fresh):
    """SIGKILL to the launcher of the first start: interrupted, an infrastructure failure, then ok, in one job."""
    lengthen(fresh)
    process = fresh.begin()
    wait_until(lambda: running_rank(fresh) is not None, "the first start's ranks")
    rank = running_rank(fresh)
    launcher = Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[1]
    os.kill(int(launcher), signal.SIGKILL)

    assert 0 == process.wait(timeout=200)
    assert [["crashed", "ok"], ["ok"], ["ok"], ["ok"]] == sorted(start_statuses(fresh).values())
    outcome = json.loads(
        next(p for p in fresh.outcomes() if len(json.loads(p.read_text())["attempts"]) == 2).read_text()
    )
    assert [True, False] == [account["infrastructure"] for account in outcome["attempts"]]
    assert "launcher_died" == outcome["attempts"][0]["reason_code"]


def test_a_failed_start_never_blocks_and_is_a_target_again_and_late(fresh):
    """A rank killed in the first start: the others run, the summary is PARTIAL; the next run redoes it, marked late."""
    lengthen(fresh)
    process = fresh.begin()
    wait_until(lambda: running_rank(fresh) is not None, "the first start's ranks")
    os.kill(running_rank(fresh), signal.SIGKILL)
    assert 0 == process.wait(timeout=200)

    assert [["crashed"], ["ok"], ["ok"], ["ok"]] == sorted(start_statuses(fresh).values())
    assert not (fresh.results / "CAMPAIGN_COMPLETE").exists()
    assert "PARTIAL" in (fresh.results / "RESULTS.md").read_text()
    assert 1 == jobs(fresh.run("-n").stdout)["measure"]

    done = fresh.run()
    assert 0 == done.returncode, done.stdout
    assert [["crashed", "ok"], ["ok"], ["ok"], ["ok"]] == sorted(start_statuses(fresh).values())
    assert (fresh.results / "CAMPAIGN_COMPLETE").exists()
    assert "late" in (fresh.results / "RESULTS.md").read_text()
    assert "Nothing to be done" in fresh.run().stdout


def test_a_start_that_was_deleted_and_measured_anew_is_refused(copied):
    """A second throw of the dice: the journal knows that this attempt was begun before."""
    shutil.rmtree(copied.outcomes()[-1].parent)

    done = copied.run()

    assert 0 != done.returncode
    assert "[attempt_repeated]" in done.stdout
    assert not (copied.results / "CAMPAIGN_COMPLETE").exists()


def test_a_changed_plan_is_refused_with_what_to_do(copied):
    """Another seed for a folder that has results: refused, naming the field."""
    copied.write(tiny(seed=8))

    done = copied.run()

    assert 0 != done.returncode
    assert "[plan_changed]" in done.stdout
    assert "differs in: routes, seed" in done.stdout
    assert "give the campaign a new name" in done.stdout


def test_a_changed_worker_is_refused_unless_a_reason_is_given(copied):
    """With a start to measure, an edited worker is refused; with a reason the campaign is recorded as mixed."""
    with (copied.root / "ep_worker" / "__init__.py").open("a") as stream:
        stream.write("# edited\n")
    outcome = copied.outcomes()[-1]
    start = json.loads(outcome.read_text())["start"]
    shutil.rmtree(outcome.parent)
    journal = copied.results / "journal.jsonl"  # as if it had never been begun
    journal.write_text("".join(line for line in journal.read_text().splitlines(True) if f'"{start}"' not in line))
    for name in ("SHA256SUMS", "CAMPAIGN_COMPLETE"):  # nor sealed
        (copied.results / name).unlink()

    done = copied.run()
    assert 0 != done.returncode
    assert "[worker_changed]" in done.stdout
    assert "--config new_worker=" in done.stdout

    done = copied.run("--config", "campaign=tiny", "new_worker=a comment was added")
    assert 0 == done.returncode, done.stdout
    assert ["first", "a comment was added"] == [
        item["reason"] for item in json.loads((copied.results / "worker.json").read_text())["accepted"]
    ]
    assert "a comment was added" in (copied.results / "RESULTS.md").read_text()


def test_a_second_run_of_the_same_campaign_is_refused(fresh):
    """While one Snakemake measures, another is refused by the campaign's lock, naming the process."""
    lengthen(fresh)
    process = fresh.begin()
    try:
        wait_until(lambda: running_rank(fresh) is not None, "the first start's ranks")
        done = fresh.run()
    finally:
        kill(process)

    assert 0 != done.returncode
    assert "[locked]" in done.stdout
    assert str(process.pid) in done.stdout
    wait_until(lambda: not fresh.processes(), "every process of the campaign to die", timeout_s=10)


def test_a_spent_budget_ends_the_campaign_at_its_last_complete_round(fresh):
    """A budget of 1.8 s, less than two starts: the first round begins and ends, the second never begins, nothing is left to do."""
    fresh.write(tiny(budget_hours=0.0005))

    done = fresh.run()

    assert 0 == done.returncode, done.stdout
    rounds = start_statuses(fresh)
    assert {("ok",)} == {tuple(statuses) for start, statuses in rounds.items() if "round-01" in start}
    assert {("not_run",)} == {tuple(statuses) for start, statuses in rounds.items() if "round-02" in start}
    assert "budget" in (fresh.results / "RESULTS.md").read_text()
    assert "Nothing to be done" in fresh.run().stdout
