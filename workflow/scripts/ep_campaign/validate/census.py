"""What is missing, failed, late or left over: the counts that every report prints, and what they leave partial."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_campaign.validate.finding import Violation, missing, note
from ep_worker.contract.terms import Loop, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ep_campaign.plan import Plan, Start
    from ep_campaign.validate.attempt import Attempt

_LARGER_BUDGET = "for more, declare a larger budget_hours under a new campaign name"
_RESUME = "run the campaign again: the same command measures what is missing"


@dataclass(frozen=True)
class Fact:
    """What the census remembers of one attempt.

    Attributes:
        start: Its start.
        attempt: Its number.
        sequence: Order of its beginning within the campaign, from 1; None where it began nothing.
        scored: Whether it counts.
        first_job: Whether its start's first job made it.
        status: Status.
        reason_code: Reason code of a failure; empty if ok.
        reason: Reason of a failure.
        infrastructure: Whether the controller takes it for a failure of the machine.
        teardown: `ok`, `failed`, `not_reached`; None where it began nothing.
        statuses: How many records have each status.
        primary_ok: (cell, loop) of ok series at the primary boundary and mode.
    """

    start: Start
    attempt: int
    sequence: int | None
    scored: bool
    first_job: bool
    status: Status
    reason_code: str
    reason: str
    infrastructure: bool
    teardown: str | None
    statuses: dict[str, int]
    primary_ok: frozenset[tuple[str, str]]


def fact(attempt: Attempt) -> Fact:
    """What the census remembers of an attempt."""
    record, (boundary, mode) = attempt.record, attempt.plan.primary
    failed = next((r for r in record.records if r.status is record.status and r.status is not Status.OK), None)
    return Fact(
        start=attempt.start,
        attempt=record.attempt,
        sequence=record.sequence,
        scored=attempt.scored,
        first_job=attempt.first_job,
        status=record.status,
        reason_code=record.reason_code if failed is None else failed.reason_code,
        reason=record.reason if failed is None else failed.reason,
        infrastructure=record.infrastructure,
        teardown=record.teardown,
        statuses=dict(Counter(r.status.value for r in record.records)),
        primary_ok=frozenset(
            (r.cell, r.loop.value)
            for r in record.records
            if r.status is Status.OK and (r.boundary, r.mode) == (boundary, mode)
        ),
    )


def late_starts(facts: Sequence[Fact]) -> set[str]:
    """Starts whose scored attempt began after their round had closed.

    A round of an EP size closes when an attempt of a later round of that EP size begins, or when the first job of each of
    its starts has ended, whichever comes first. Sequence numbers decide, not clocks.
    """
    begins: dict[tuple[int, int], int] = {}
    first_jobs_end: dict[tuple[int, int], int] = {}
    for item in facts:
        if item.sequence is None:
            continue
        block = (item.start.ep_size, item.start.round)
        begins[block] = min(begins.get(block, item.sequence), item.sequence)
        if item.first_job:
            first_jobs_end[block] = max(first_jobs_end.get(block, 0), item.sequence)
    closes = {
        (ep_size, number): min(
            [first_jobs_end.get((ep_size, number), math.inf)]
            + [at for (size, other), at in begins.items() if size == ep_size and other > number]
        )
        for ep_size, number in begins
    }
    return {
        item.start.id
        for item in facts
        if item.scored and item.sequence is not None and item.sequence > closes[item.start.ep_size, item.start.round]
    }


def check_complete(plan: Plan, facts: Sequence[Fact]) -> Iterator[Violation]:
    """Every planned series of every start has an ok record in the attempt that counts."""
    scored = {item.start.id: item for item in facts if item.scored}
    for start in plan.starts:
        item = scored.get(start.id)
        file = f"starts/{start.id}"
        if item is None:
            continue  # read_outcomes, or the attempt's own faults, say so
        failed = {status: n for status, n in item.statuses.items() if status not in ("ok", "unsupported")}
        if item.status is Status.NOT_RUN:
            yield missing("not_run", file, "", item.reason, "an ok record of each series", _LARGER_BUDGET)
        elif failed or not item.statuses:
            shown = ", ".join(f"{n} {status}" for status, n in sorted(failed.items())) or item.status.value
            found = f"{shown} ({item.reason_code}: {item.reason})"
            yield missing("not_ok", file, "", found, "an ok record of each planned series", _RESUME)


def check_sequence(facts: Sequence[Fact]) -> Iterator[Violation]:
    """No two attempts have one place in the campaign's order."""
    first: dict[int, Fact] = {}
    for item in facts:
        if item.sequence is None:
            continue
        other = first.setdefault(item.sequence, item)
        if other is not item:
            file = f"starts/{item.start.id}/attempt-{item.attempt}/start.json"
            expected = f"a number of its own; starts/{other.start.id}/attempt-{other.attempt} has it"
            action = "late starts cannot be told: the journal was lost, or folders were mixed"
            yield note("duplicate_sequence", file, "sequence", str(item.sequence), expected, action)


def census(plan: Plan, facts: Sequence[Fact], leftover: list[str]) -> dict[str, Any]:
    """The counts of a results folder; equal folders give equal values.

    Args:
        plan: The plan.
        facts: Every attempt that an outcome names, in the plan's order.
        leftover: Attempts that no outcome names.
    """
    late = late_starts(facts)
    scored = [item for item in facts if item.scored]
    return {
        "num_starts": len(plan.starts),
        "num_ok_starts": sum(item.status is Status.OK for item in scored),
        "arms": {arm: _arm(arm, facts) for arm in sorted({start.arm for start in plan.starts})},
        "contrasts": [_contrast(plan, row, scored) for row in plan.contrasts],
        "late_starts": [
            {"start": item.start.id, "attempt": item.attempt, "sequence": item.sequence}
            for item in scored
            if item.start.id in late
        ],
        "budget_ended": _budget_ended(scored),
        "leftover_attempts": leftover,
    }


def _arm(arm: str, facts: Sequence[Fact]) -> dict[str, Any]:
    mine = [item for item in facts if item.start.arm == arm]
    begun = [item for item in mine if item.sequence is not None]
    records = sum((Counter(item.statuses) for item in mine if item.scored), Counter[str]())
    return {
        "num_attempts": len(begun),
        "num_failed_attempts": sum(item.status not in (Status.OK, Status.UNSUPPORTED) for item in begun),
        "num_infrastructure_failures": sum(item.infrastructure for item in begun),
        "failures": [
            {
                "start": item.start.id,
                "attempt": item.attempt,
                "status": item.status.value,
                "reason_code": item.reason_code,
                "reason": item.reason,
                "infrastructure": item.infrastructure,
                "scored": item.scored,
            }
            for item in mine
            if item.status not in (Status.OK, Status.UNSUPPORTED)
        ],
        "num_records": dict(sorted(records.items())),
        "teardown": dict(sorted(Counter(item.teardown for item in begun if item.teardown is not None).items())),
    }


def _contrast(plan: Plan, row: dict[str, str], scored: Sequence[Fact]) -> dict[str, Any]:
    """One contrast's complete and excluded rounds: those in which one of its two arms has no ok primary record."""
    ep_text, profile, _, _ = row["cell"].split("/")
    num_rounds = plan.num_rounds[int(ep_text.removeprefix("ep"))]
    series = (row["cell"], row.get("loop", Loop.ROUNDTRIP.value))
    have = {
        (item.start.round, item.start.arm)
        for item in scored
        if item.start.profile == profile and series in item.primary_ok
    }
    whole = [n for n in range(1, num_rounds + 1) if {(n, row["arm"]), (n, row["reference"])} <= have]
    excluded = sorted(set(range(1, num_rounds + 1)) - set(whole))
    return {**row, "num_rounds": num_rounds, "num_complete_rounds": len(whole), "excluded_rounds": excluded}


def _budget_ended(scored: Sequence[Fact]) -> dict[str, Any] | None:
    closed = [item for item in scored if item.status is Status.NOT_RUN]
    if not closed:
        return None
    first: dict[str, int] = {}
    for item in closed:
        key = f"ep{item.start.ep_size}"
        first[key] = min(first.get(key, item.start.round), item.start.round)
    return {"num_starts": len(closed), "first_round": dict(sorted(first.items()))}
