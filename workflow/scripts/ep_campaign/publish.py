"""Publishing a finished campaign: its folder is what its checksums say, and only then it is copied to S3, the mark last."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from ep_campaign.completion import checksum_line, evidence
from ep_campaign.errors import CampaignError, Refusal, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from ep_campaign.layout import Results

S3 = "s3://"
_HIDDEN = ("--exclude", ".*", "--exclude", "*/.*")


def publish(results: Results, destination: str, run: Callable[[Sequence[str]], int] | None = None) -> list[list[str]]:
    """Copies a results folder to S3; returns the commands that did it.

    The mark goes last, so that a copy that broke off says of itself neither complete nor partial. What is already there is
    left in place: the folder's name is part of the destination, and a name belongs to one plan.

    Args:
        results: The folder.
        destination: `s3://bucket/prefix`; the campaign's name is added.
        run: Runs a command and returns its exit status.

    Raises:
        CampaignError: The folder is not finished, was altered since, or could not be copied.
    """
    if not destination.startswith(S3) or destination == S3:
        raise refuse("bad_destination", f"is {destination!r}, expected s3://bucket/prefix", "destination")
    mark = results.complete if results.complete.exists() else results.partial
    refusals = _refusals(results, mark)
    if refusals:
        raise CampaignError(refusals)
    there = f"{destination.rstrip('/')}/{results.root.resolve().name}"
    marks = [item for path in (results.complete, results.partial) for item in ("--exclude", path.name)]
    copy = ["aws", "s3", "sync", "--only-show-errors", str(results.root), there, *_HIDDEN, *marks]
    commands = [copy, ["aws", "s3", "cp", "--only-show-errors", str(mark), f"{there}/{mark.name}"]]
    for command in commands:
        status = (run or _run)(command)
        if status != 0:
            message = f"ended with status {status}; run it again, it copies what is missing: {' '.join(command)}"
            raise refuse("copy_failed", message, there)
    return commands


def _refusals(results: Results, mark: Path) -> list[Refusal]:
    """Why a folder is not to be published: unfinished, or not what its checksums say."""
    if not mark.exists() or not results.checksums.exists():
        message = "has neither CAMPAIGN_COMPLETE nor PARTIAL beside SHA256SUMS: run the campaign to its end first"
        return [Refusal("not_finished", message, str(results.root))]
    told = {line.split(b"  ", 1)[1]: line for line in results.checksums.read_bytes().splitlines()}
    lines = [checksum_line(results.root, path).rstrip(b"\n") for path in evidence(results)]
    found = {line.split(b"  ", 1)[1]: line for line in lines}
    return [
        Refusal("altered", f"{what}: restore it, or summarise the folder again", name.decode(errors="replace"))
        for what, names in (
            ("is missing", sorted(told.keys() - found.keys())),
            ("is in no checksum", sorted(found.keys() - told.keys())),
            ("differs from its checksum", sorted(n for n in told.keys() & found.keys() if told[n] != found[n])),
        )
        for name in names
    ]


def _run(command: Sequence[str]) -> int:
    if shutil.which(command[0]) is None:
        message = "the AWS command line is not on the path: install it, or run this where it is"
        raise refuse("no_aws", f"{message}: {' '.join(command)}", command[0])
    return subprocess.run(command, check=False).returncode
