"""The published campaign as a user sees it: what was stated beside what the same starts say here."""

from __future__ import annotations

import subprocess
import sys

from plans import REPOSITORY

FOLDER = REPOSITORY / "config" / "published"
COMMAND = [sys.executable, "workflow/scripts/published.py"]


def shown(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What the script prints."""
    return subprocess.run([*COMMAND, *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=False)


def test_the_newest_campaign_is_shown_and_agrees() -> None:
    """16 starts: a published +10.3 % is a ratio of 1 / .8985 = 1.113 here; p = 8 contrasts x 2^-15 = .00024."""
    done = shown()
    assert (0, "") == (done.returncode, done.stderr)
    row = next(line for line in done.stdout.splitlines() if line.startswith("ep16-decode-affine-fp8    uccl"))
    assert ["+10.3", "[+9.1,", "+11.3]", "supported", "1.113", "[1.098,", "1.125]", ".00024", "slower"] == row.split()[
        2:
    ]
    assert "Every stated number follows" in done.stdout


def test_three_starts_support_nothing() -> None:
    """The same words that were published as `supported` are `too few starts` here, in all 16 rows."""
    rows = [
        line for line in shown(str(FOLDER / "b200-ap-south-1-2026-08-25.json")).stdout.splitlines() if "affine" in line
    ]
    assert 16 == len(rows)
    assert all("supported" in row and row.endswith("too few starts") for row in rows)


def test_a_number_that_does_not_follow_is_named(tmp_path) -> None:
    """One altered median: the field, what was stated, and what the values give."""
    text = (FOLDER / "b200-us-east-1-2026-09-01-ep16-n16.json").read_text()
    path = tmp_path / "altered.json"
    path.write_text(text.replace("1.0263999998569489", "2.0", 1))
    done = shown(str(path))

    assert "median_latency_ms: stated 2.0, recomputed 1.026399999" in done.stdout


def test_a_missing_file_is_one_line() -> None:
    """Where, what, and no traceback."""
    done = shown("nowhere.json")
    assert (2, "") == (done.returncode, done.stdout)
    assert done.stderr.startswith("nowhere.json: cannot read it")
    assert 1 == len(done.stderr.splitlines())
