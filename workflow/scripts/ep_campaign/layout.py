"""Where everything of a campaign lies: the one place that knows the names of files.

results/<campaign>/
    plan.json  worker.json  journal.jsonl  traces/<sha256>.csv
    admission/ep<N>.json
    kernel-times/ep<N>.json                                       where the plan asks for them; profiled in launches of their own
    starts/ep<N>/<profile>/round-<RR>/<arm>/outcome-<K>.json      what a job says; K is its first attempt
    starts/ep<N>/<profile>/round-<RR>/<arm>/attempt-<K>/          start.json samples.bin.gz rank-*.jsonl rank-*.log ...
    validation.json  tables/*.parquet  statistics.json  figures/*  RESULTS.md  report.html  pr.md
    products/<stage>.json                                         digests of what each stage of the summary wrote
    SHA256SUMS  CAMPAIGN_COMPLETE (or PARTIAL; validation-refused.json where nothing may be summarised)
    logs/  benchmarks/                                            not part of the checksums
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

OUTCOME_SCHEMA = "ep-campaign/outcome/1"
FINAL_STATUSES = ("ok", "unsupported", "not_run")
"""Statuses after which a start is not a target again: measured, impossible, or closed by a declared rule."""

TABLES = ("attempts", "samples", "records", "cells", "contrasts")
UNSUMMED = ("logs", "benchmarks")
"""Folders outside SHA256SUMS: they change when nothing that they describe does."""


@dataclass(frozen=True)
class Results:
    """The results folder of one campaign."""

    root: Path

    @property
    def plan(self) -> Path:
        """The plan, written once."""
        return self.root / "plan.json"

    @property
    def worker(self) -> Path:
        """Digests of the worker sources that this folder accepts, with reasons after the first."""
        return self.root / "worker.json"

    @property
    def validation(self) -> Path:
        """What validation found."""
        return self.root / "validation.json"

    @property
    def statistics(self) -> Path:
        """Verdicts and everything that the report says of them."""
        return self.root / "statistics.json"

    @property
    def figures(self) -> Path:
        """Folder of the figures."""
        return self.root / "figures"

    @property
    def checksums(self) -> Path:
        """`sha256sum -c` works on it in this folder."""
        return self.root / "SHA256SUMS"

    @property
    def complete(self) -> Path:
        """Written last, when nothing is missing."""
        return self.root / "CAMPAIGN_COMPLETE"

    @property
    def partial(self) -> Path:
        """Stands where `CAMPAIGN_COMPLETE` does not: what is missing."""
        return self.root / "PARTIAL"

    @property
    def journal(self) -> Path:
        """Every attempt's beginning and end, in order."""
        return self.root / "journal.jsonl"

    def admission(self, ep_size: int) -> Path:
        """The admission record of one EP size."""
        return self.root / "admission" / f"ep{ep_size}.json"

    def kernel_times(self, ep_size: int) -> Path:
        """Kernel times of one EP size by the profiler."""
        return self.root / "kernel-times" / f"ep{ep_size}.json"

    def table(self, name: str) -> Path:
        """One Parquet table."""
        return self.root / "tables" / f"{name}.parquet"

    def products(self, stage: str) -> Path:
        """Digests of what a stage of the summary wrote."""
        return self.root / "products" / f"{stage}.json"

    def start(self, start_id: str) -> Path:
        """Folder of a start."""
        return self.root / "starts" / start_id

    def outcome(self, start_id: str, first_attempt: int) -> Path:
        """What the job says that began with this attempt."""
        return self.start(start_id) / f"outcome-{first_attempt}.json"

    def attempt(self, start_id: str, attempt: int) -> Path:
        """Folder of one attempt at a start."""
        return self.start(start_id) / f"attempt-{attempt}"

    def attempts(self, start_id: str) -> list[int]:
        """Attempts that left a folder, rising."""
        return _numbers(self.start(start_id), r"attempt-(\d+)")

    def target(self, start_id: str) -> int:
        """First attempt of the job whose outcome is this start's target.

        That of the last job where it ended for good, so that an unchanged folder has unchanged targets; otherwise the first
        attempt that no finished job has accounted for.
        """
        jobs = _numbers(self.start(start_id), r"outcome-(\d+)\.json")
        if not jobs:
            return 1
        outcome = read_outcome(self.outcome(start_id, jobs[-1]))
        if outcome["status"] in FINAL_STATUSES:
            return jobs[-1]
        return int(outcome["attempts"][-1]["attempt"]) + 1


def of_outcome(path: Path) -> tuple[Results, str, int]:
    """The results folder, start id and first attempt that an outcome's path names."""
    arm = path.parent
    root = arm.parents[4]
    return Results(root), arm.relative_to(root / "starts").as_posix(), _number(path)


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def read_outcome(path: Path) -> dict[str, Any]:
    """An outcome file; one that is not whole counts as a failed job, so that the start is tried again."""
    try:
        value = json.loads(path.read_text(encoding="ascii"))
        numbered = all(isinstance(item["attempt"], int) for item in value["attempts"])
        if value["schema"] == OUTCOME_SCHEMA and value["attempts"] and value["status"] and numbered:
            return dict(value)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    return {"status": "crashed", "attempts": [{"attempt": _number(path)}]}


def _numbers(folder: Path, pattern: str) -> list[int]:
    if not folder.is_dir():
        return []
    matches = (re.fullmatch(pattern, entry.name) for entry in folder.iterdir())
    return sorted(int(match[1]) for match in matches if match)
