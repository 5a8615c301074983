"""Publishing: only what is finished and unaltered, the mark last."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ep_campaign.completion import checksum_line, evidence
from ep_campaign.errors import CampaignError
from ep_campaign.layout import Results
from ep_campaign.publish import publish

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


@pytest.fixture
def finished(tmp_path: Path) -> Results:
    """A folder with its checksums and its mark."""
    results = Results(tmp_path / "smoke")
    (results.root / "starts").mkdir(parents=True)
    (results.root / "starts" / "start.json").write_text("{}")
    (results.root / "logs").mkdir()
    (results.root / "logs" / "journal.jsonl").write_text("{}")
    results.checksums.write_bytes(b"".join(checksum_line(results.root, path) for path in evidence(results)))
    results.complete.write_text("{}")
    return results


def test_copies_the_folder_and_then_its_mark(finished: Results) -> None:
    """A copy that breaks off carries no mark."""
    ran: list[Sequence[str]] = []

    publish(finished, "s3://bucket/ep/", lambda command: ran.append(command) or 0)

    root = str(finished.root)
    hidden = ["--exclude", ".*", "--exclude", "*/.*", "--exclude", "CAMPAIGN_COMPLETE", "--exclude", "PARTIAL"]
    assert ran == [
        ["aws", "s3", "sync", "--only-show-errors", root, "s3://bucket/ep/smoke", *hidden],
        [
            "aws",
            "s3",
            "cp",
            "--only-show-errors",
            f"{root}/CAMPAIGN_COMPLETE",
            "s3://bucket/ep/smoke/CAMPAIGN_COMPLETE",
        ],
    ]


def test_a_partial_folder_keeps_saying_so(finished: Results) -> None:
    """What is missing is published with what is there."""
    finished.complete.rename(finished.root / "PARTIAL")
    ran: list[Sequence[str]] = []

    publish(finished, "s3://bucket", lambda command: ran.append(command) or 0)

    assert ran[-1][-1] == "s3://bucket/smoke/PARTIAL"


def test_a_failed_copy_leaves_the_mark_behind(finished: Results) -> None:
    """After a failure nothing else is copied, and the message is the command to run again."""
    ran: list[Sequence[str]] = []

    with pytest.raises(CampaignError) as caught:
        publish(finished, "s3://bucket", lambda command: ran.append(command) or 1)

    assert caught.value.codes == ("copy_failed",)
    assert len(ran) == 1
    assert "aws s3 sync" in str(caught.value)


@pytest.mark.parametrize(
    ("alter", "code", "where"),
    [
        (lambda r: r.complete.unlink(), "not_finished", "smoke"),
        (lambda r: r.checksums.unlink(), "not_finished", "smoke"),
        (lambda r: (r.root / "starts/start.json").write_text("{ }"), "altered", "starts/start.json"),
        (lambda r: (r.root / "starts/start.json").unlink(), "altered", "starts/start.json"),
        (lambda r: (r.root / "starts/more.json").write_text("{}"), "altered", "starts/more.json"),
    ],
    ids=["no mark", "no checksums", "altered", "missing", "unknown"],
)
def test_refuses_what_is_not_what_it_says(finished: Results, alter: object, code: str, where: str) -> None:
    """Nothing is copied of a folder that is unfinished or was altered."""
    alter(finished)  # type: ignore[operator]

    with pytest.raises(CampaignError) as caught:
        publish(finished, "s3://bucket", lambda _command: pytest.fail("something was copied"))

    assert caught.value.codes == (code,)
    assert caught.value.refusals[0].where.endswith(where)


@pytest.mark.parametrize("destination", ["bucket/prefix", "s3://", "https://bucket"])
def test_refuses_another_destination(finished: Results, destination: str) -> None:
    """S3 is named as S3 names it."""
    with pytest.raises(CampaignError, match="bad_destination"):
        publish(finished, destination)


def test_the_command_runs_aws(finished: Results, tmp_path: Path) -> None:
    """The script calls the AWS command line that is on the path, and says what it did."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "aws").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/ran\n')
    (tools / "aws").chmod(0o755)
    command = [sys.executable, "workflow/scripts/publish.py", "--results", str(finished.root), "--to", "s3://bucket"]

    done = subprocess.run(
        command,
        env={**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines()[0].startswith("aws s3 sync")
    assert (tmp_path / "ran").read_text().splitlines()[1].endswith("s3://bucket/smoke/CAMPAIGN_COMPLETE")


def test_without_aws_it_says_what_to_run(finished: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line is not part of this project."""
    monkeypatch.setenv("PATH", "")

    with pytest.raises(CampaignError) as caught:
        publish(finished, "s3://bucket")

    assert caught.value.codes == ("no_aws",)
    assert "aws s3 sync" in str(caught.value)
