"""The verdict table of the terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from latency_model import Model
from plans import REPOSITORY, make_plan
from rows import COMPLETE, make_rows
from synthetic import seal_folder

from ep_campaign.analysis.summarise import summarise
from ep_campaign.layout import Results
from ep_campaign.summary import State, write_summary
from ep_campaign.verdict_table import WIDTH, verdict_table

if TYPE_CHECKING:
    from ep_campaign.summary import Summary

SLOW = "torch-agrs"
REPORT = Path("results/tiny/RESULTS.md")


def summary_of(folder: Path, model: Model | None = None, rows: dict[str, Any] | None = None, **fields: Any) -> Summary:
    """A summary of a campaign of eight rounds, in which every start is the same but for its arm."""
    plan = make_plan(folder, **{"ep_sizes": [{"ranks": 2, "rounds": 8}], **fields})
    quiet = model or Model(arm_factor={SLOW: 1.25}, start_sd=0.0, round_sd=0.0)
    return summarise(plan, *make_rows(plan, quiet, **(rows or {})), COMPLETE)


def test_the_table_of_a_complete_campaign(tmp_path: Path) -> None:
    """Median, ratio with interval and true level, adjusted p and verdict stand in one row an arm."""
    assert verdict_table(summary_of(tmp_path), REPORT) == (
        "tiny: dispatch_ready, host_start, slowest rank, round-trip\n"
        "2 contrasts against torch-a2a, signed-rank test, Holm at 0.05, practical threshold 2%\n"
        "Latency: median over starts (of one or two: their values). Ratio: arm / torch-a2a; below 1 the arm is faster.\n"
        "\n"
        "ep2/decode/uniform/bf16\n"
        "                    latency [us]  ratio and interval                adjusted p  verdict\n"
        "  torch-a2a                200.0  reference\n"
        "  torch-a2a-cached         200.0  1.000 [1.000, 1.000] 96.1 %                1  not resolved (equivalent)\n"
        # 2^-7 for eight rounds one way, times the family of two: .0156.
        "  torch-agrs               250.0  1.250 [1.250, 1.250] 96.1 %             .016  slower\n"
        "\n"
        "Failed launches: none of 24 attempts\n"
        "\n"
        "State: complete\n"
        "\n"
        "Report: results/tiny/RESULTS.md\n"
    )


def test_two_rounds_show_values_and_no_ranking(tmp_path: Path) -> None:
    """The verdict is too few starts, the note says what more starts would give."""
    text = verdict_table(summary_of(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 2, "scored": False}]), REPORT)

    row = next(line for line in text.splitlines() if line.startswith(f"  {SLOW}"))
    assert row.split() == [SLOW, "250.0", "250.0", "1.250", "1.250", "too", "few", "starts"]
    assert "EP 2: too few starts (n = 2: values only; a median and a range need 3)" in text
    assert "slower" not in text


def test_four_rounds_show_the_range_of_their_ratios(tmp_path: Path) -> None:
    """Below six rounds there is no interval, and the table shows none."""
    text = verdict_table(summary_of(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 4, "scored": False}]), REPORT)

    assert "1.250 (rounds 1.250 to 1.250)" in text
    assert "[" not in text.replace("[us]", "")


def test_failures_missing_rounds_and_late_starts_are_said(tmp_path: Path) -> None:
    """What is not there stands where it is missed: in the row of its arm, and in the list of failed launches."""
    failed = {f"ep2/decode/round-02/{SLOW}": "crashed", "ep2/decode/round-03/torch-a2a-cached": "absent"}
    summary = summary_of(tmp_path, rows={"failed": failed, "late": [f"ep2/decode/round-01/{SLOW}"]})
    text = verdict_table(summary, REPORT)

    # Seven rounds decide a family of two, six do not: the late start carries the verdict.
    assert "slower (late starts);" in text
    assert "without late starts too few starts; 7 of 8" in " ".join(text.split())
    assert "  torch-agrs: 1 of 8 attempts: 1 crashed (planted)\n" in text
    assert "1 start came late" in text


def test_an_arm_that_always_failed_says_how_and_is_not_advised_more_rounds(tmp_path: Path) -> None:
    """Status first, in capitals; the sentence about rounds is for arms that have some."""
    plan = make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 6, "scored": False}])
    failed = {start.id: "incorrect" for start in plan.starts if start.arm == SLOW}
    text = verdict_table(summarise(plan, *make_rows(plan, failed=failed), COMPLETE), REPORT)

    row = " ".join(next(line for line in text.splitlines() if line.startswith(f"  {SLOW}")).split())
    assert row.startswith(f"{SLOW} - - INCORRECT in 6 of 6 rounds")
    assert "n = 0" not in text


def test_the_reference_stands_first_wherever_it_was_declared(tmp_path: Path) -> None:
    """Every other arm is read against it."""
    plan = make_plan(tmp_path, reference=SLOW)
    text = verdict_table(summarise(plan, *make_rows(plan), COMPLETE), REPORT)
    rows = [line.split()[0] for line in text.splitlines() if line.startswith("  torch")]

    assert [SLOW, *(arm for arm in plan.document["arms"] if arm != SLOW)] == rows


def test_an_unfinished_campaign_says_so_in_capitals(tmp_path: Path) -> None:
    """PARTIAL stands with its reasons."""
    plan = make_plan(tmp_path)
    lacking = {"severity": "partial", "code": "not_ok", "file": "starts/x", "field": ""}
    validation = {"violations": [{**lacking, "found": "1 crashed", "expected": "an ok record", "action": "run again"}]}
    text = verdict_table(summarise(plan, *make_rows(plan), validation), REPORT)

    assert "State: PARTIAL\n  not_ok: starts/x: found 1 crashed, expected an ok record; run again\n" in text


def test_unsupported_arms_stand_in_their_cell(tmp_path: Path) -> None:
    """An arm that the plan rejects is a line with its reason and source, not a gap."""
    arms = [{"name": name, "backend": name} for name in ("torch-a2a", SLOW)] + [{"name": "v2", "backend": "deepep-v2"}]
    text = verdict_table(summary_of(tmp_path, arms=arms), REPORT)

    assert "  v2: unsupported (needs cuda, the campaign runs on cpu; ours)" in text


@pytest.mark.parametrize("length", [1, 28, 60], ids=["short", "as long as a column", "longer"])
def test_no_line_is_wider_than_the_terminal(tmp_path: Path, length: int) -> None:
    """Long names are cut, long verdicts go on below themselves: 120 columns at most."""
    name = "x" * length
    arms = [{"name": "torch-a2a", "backend": "torch-a2a"}, {"name": name, "backend": SLOW}]
    plan_fields = {"arms": arms, "description": "long " * 60}
    model = Model(
        arm_factor={name: 1.3},
        drift=0.05,
        outlier_starts={f"ep2/decode/round-0{n}/{name}": 2.0 for n in (7, 8)},
        start_sd=0.001,
        round_sd=0.0,
    )
    late = [f"ep2/decode/round-08/{name}"]
    text = verdict_table(summary_of(tmp_path, model, {"late": late}, **plan_fields), REPORT)

    assert max(map(len, text.splitlines())) <= WIDTH
    assert "not resolved (drift, unstable starts)" in " ".join(text.split())


def test_the_script_prints_the_table(tmp_path: Path) -> None:
    """`show.py` prints what the function returns; a folder that is not sealed is refused in one line."""
    command = [sys.executable, "workflow/scripts/show.py", "--results", str(tmp_path)]
    refused = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.endswith(f"make summary CAMPAIGN={tmp_path.name} [not_sealed]\n")

    summary = summary_of(tmp_path)
    write_summary(summary, tmp_path / "statistics.json")
    seal_folder(Results(tmp_path), tmp_path / "CAMPAIGN_COMPLETE")
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert shown.stdout == verdict_table(summary, tmp_path / "RESULTS.md")


def test_the_script_says_partial_with_its_exit_status(tmp_path: Path) -> None:
    """A campaign that is not whole ends `make run` with 3, after its table: scripts must not take it for finished."""
    summary = summary_of(tmp_path)
    head = summary.head.model_copy(update={"state": State.PARTIAL})
    write_summary(summary.model_copy(update={"head": head}), tmp_path / "statistics.json")
    seal_folder(Results(tmp_path), tmp_path / "PARTIAL")
    command = [sys.executable, "workflow/scripts/show.py", "--results", str(tmp_path)]
    shown = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert (shown.returncode, shown.stderr) == (3, "")
    assert "State: PARTIAL" in shown.stdout
