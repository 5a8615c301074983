"""What a report is made from: the plan, the summary, the validation, and the few facts that only the tables hold."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from ep_campaign.errors import refuse
from ep_campaign.identity import accepted_workers
from ep_campaign.jsonfile import read_object
from ep_campaign.summary import read_summary
from ep_campaign.validate.folder import open_plan
from ep_worker.contract.canonical import canonical_json
from ep_worker.contract.terms import Loop, Status

if TYPE_CHECKING:
    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan
    from ep_campaign.summary import Summary


BY_RANK = "by rank: "
"""Begins the text of a value that is a list over ranks, because they differ."""


@dataclass(frozen=True)
class Evidence:
    """Facts of attempts and records that the summary does not carry.

    Attributes:
        began_utc: When the first attempt began, on the controller's clock; empty where none did.
        ended_utc: When the last one ended.
        hosts: Machines of the ranks, by EP size.
        varying: For (EP size, arm, provenance field) every distinct value, as canonical JSON, in the order of starts.
        num_checks_passed: Oracle checks that passed behind the numbers: before and after timing, each cell and boundary.
        num_checks_failed: Cells and boundaries whose oracle failed, of attempts that count.
        workers: Accepted worker digests and why each after the first was accepted.
        admission: Admission records by EP size; an EP size without one is missing.
        kernel_times: Likewise the records of kernel times.
    """

    began_utc: str
    ended_utc: str
    hosts: dict[int, tuple[str, ...]]
    varying: dict[tuple[int, str, str], tuple[str, ...]]
    num_checks_passed: int
    num_checks_failed: int
    workers: tuple[dict[str, str], ...]
    admission: dict[int, dict[str, Any]]
    kernel_times: dict[int, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Source:
    """Everything that a report says.

    Attributes:
        plan: The plan.
        summary: What `statistics.json` holds.
        validation: What `validation.json` holds.
        evidence: What only the tables hold.
    """

    plan: Plan
    summary: Summary
    validation: dict[str, Any]
    evidence: Evidence


def read_source(results: Results) -> Source:
    """What a results folder says.

    Raises:
        CampaignError: A file is missing or is not what its stage wrote; the summary is of another plan (`mixed_plans`).
    """
    plan = open_plan(results)
    summary = read_summary(results.statistics)
    if summary.head.plan_digest != plan.digest:
        message = f"is of plan {summary.head.plan_digest[:16]}, the folder's is {plan.digest[:16]}: analyse again"
        raise refuse("mixed_plans", message, results.statistics.name)
    validation = read_object(results.validation, results.validation.name)
    return Source(plan, summary, validation, read_evidence(plan, results))


def read_evidence(plan: Plan, results: Results) -> Evidence:
    """The facts of the tables; reads a few columns, never samples."""
    attempts = _rows(
        results, "attempts", ["ep_size", "arm", "scored", "status", "began_utc", "ended_utc", "hostnames", "provenance"]
    )
    passed, failed = _checks(results)
    return Evidence(
        began_utc=min((row["began_utc"] for row in attempts if row["began_utc"]), default=""),
        ended_utc=max((row["ended_utc"] for row in attempts if row["ended_utc"]), default=""),
        hosts=_hosts(attempts),
        varying=_varying(attempts),
        num_checks_passed=passed,
        num_checks_failed=failed,
        workers=tuple(accepted_workers(results)),
        admission={
            size: read_object(results.admission(size), f"admission/ep{size}.json")
            for size in plan.num_rounds
            if results.admission(size).exists()
        },
        kernel_times={
            size: read_object(results.kernel_times(size), f"kernel-times/ep{size}.json")
            for size in plan.num_rounds
            if results.kernel_times(size).exists()
        },
    )


def _rows(results: Results, table: str, columns: list[str]) -> list[dict[str, Any]]:
    path = results.table(table)
    try:
        found: list[dict[str, Any]] = pq.read_table(path, columns=columns).to_pylist()
    except (OSError, ValueError) as error:
        where = f"tables/{path.name}"
        raise refuse("bad_table", f"cannot be read ({error}); aggregate again", where) from None
    return found


def _hosts(attempts: list[dict[str, Any]]) -> dict[int, tuple[str, ...]]:
    names: dict[int, set[str]] = {}
    for row in attempts:
        names.setdefault(row["ep_size"], set()).update(name for name in (row["hostnames"] or "").split(",") if name)
    return {size: tuple(sorted(found)) for size, found in sorted(names.items())}


def _varying(attempts: list[dict[str, Any]]) -> dict[tuple[int, str, str], tuple[str, ...]]:
    """Distinct values of every provenance field over the ranks and starts that count; rank by rank where ranks differ."""
    values: dict[tuple[int, str, str], dict[str, None]] = {}
    for row in attempts:
        if not (row["scored"] and row["status"] == Status.OK.value and row["provenance"]):
            continue
        for name, entry in json.loads(row["provenance"]).items():
            text = (
                canonical_json(entry["value"]) if "value" in entry else f"{BY_RANK}{canonical_json(entry['by_rank'])}"
            )
            values.setdefault((row["ep_size"], row["arm"], name), {})[text] = None
    return {key: tuple(found) for key, found in values.items()}


def _checks(results: Results) -> tuple[int, int]:
    """Oracle checks that passed (two for each cell and boundary that was measured), and cells and boundaries that failed."""
    rows = _rows(results, "records", ["start", "cell", "boundary", "loop", "same_as", "status", "scored"])
    measured = [row for row in rows if row["scored"] and row["loop"] == Loop.ROUNDTRIP.value and row["same_as"] is None]

    def number(status: Status) -> int:
        return len({(row["start"], row["cell"], row["boundary"]) for row in measured if row["status"] == status.value})

    return 2 * number(Status.OK), number(Status.INCORRECT)
