"""One job: a start in its slot, with its attempts, ending in an outcome. It fails only where no record can be written."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from ep_campaign.attempt import (
    INFRASTRUCTURE,
    files_clock,
    finish,
    interrupted,
    run_attempt,
)
from ep_campaign.errors import CampaignError, refuse
from ep_campaign.journal import append_end, read_journal
from ep_campaign.jsonfile import read_object
from ep_campaign.layout import OUTCOME_SCHEMA
from ep_campaign.startfile import read_start
from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically
from ep_worker.contract.record import START_SCHEMA
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.place import Place
    from ep_campaign.plan import Plan, Start

READ_ONLY = 0o444


def measure(
    plan: Plan, results: Results, start: Start, first_attempt: int, place: Place, *, retries: int | None = None
) -> dict[str, Any]:
    """Runs, or harvests, the attempts of one job and writes its outcome.

    An attempt that a dead controller left behind is taken over: whole, it is harvested and not repeated; broken off, it is
    recorded as interrupted and the slot tries again. Only infrastructure failures are retried here; never a timing.

    Args:
        plan: The plan.
        results: Its results folder.
        start: The start.
        first_attempt: Number of the job's first attempt.
        place: Where it runs.
        retries: Further attempts after infrastructure failures; the plan's where not given.

    Raises:
        CampaignError: Nothing can be written.
    """
    retries = plan.document["limits"]["retries"] if retries is None else retries
    accounts: list[dict[str, Any]] = []
    tries, attempt = 0, first_attempt
    blocked = _blocked(plan, results, start, first_attempt)
    while True:
        record = _existing(plan, results, start, attempt, place)
        if record is None:
            tries += 1
            record = blocked or _run(plan, results, start, attempt, place)
        accounts.append(_account(results, start, record))
        again = record["infrastructure"] and tries <= retries
        if not again and not results.attempt(start.id, attempt + 1).exists():
            break
        attempt += 1
    outcome = {"schema": OUTCOME_SCHEMA, "start": start.id, "status": accounts[-1]["status"], "attempts": accounts}
    write_atomically(results.outcome(start.id, first_attempt), pretty_json(outcome), mode=READ_ONLY)
    return outcome


def describe(plan: Plan, results: Results, start: Start, outcome: dict[str, Any]) -> str:
    """One line about a finished job: its place, its status, and the primary latencies of its cells."""
    account = outcome["attempts"][-1]
    head = f"[{start.position + 1}/{len(plan.starts)}] {start.id}: {outcome['status']}"
    if account["status"] != Status.OK.value:
        return f"{head} ({account['reason_code']}: {account['reason'][:200]})"
    record = json.loads((results.attempt(start.id, account["attempt"]) / "start.json").read_text(encoding="ascii"))
    boundary, mode = plan.primary
    key = {"boundary": boundary.value, "mode": mode.value, "loop": "roundtrip", "status": Status.OK.value}
    shown = [
        f"{item['route']}/{item['dtype']} {item['latency']['median_ns'] / 1e3:.0f}"
        for item in record["records"]
        if all(item[name] == value for name, value in key.items())
    ]
    return f"{head}, {record['clock']['seconds']:.1f} s; slowest-rank us: {', '.join(sorted(shown))}"


def _run(plan: Plan, results: Results, start: Start, attempt: int, place: Place) -> dict[str, Any]:
    image = plan.document["arms"][start.arm]["image"]
    return run_attempt(place, results, results.attempt(start.id, attempt), plan.spec(start), start, attempt, image)


def _existing(plan: Plan, results: Results, start: Start, attempt: int, place: Place) -> dict[str, Any] | None:
    """The record of an attempt that is already there, made now if its controller died before it could."""
    folder = results.attempt(start.id, attempt)
    if not folder.exists():
        return None
    journal = [e for e in read_journal(results) if e["start"] == start.id and e["attempt"] == attempt]
    began = [entry for entry in journal if entry["event"] == "begin"]
    path = folder / "start.json"
    if path.exists():
        try:
            read_start(path, str(path))
        except CampaignError:
            _set_aside(folder, "unreadable")
            return None
        record = dict(json.loads(path.read_text(encoding="ascii")))
    elif began:
        spec, image = plan.spec(start), plan.document["arms"][start.arm]["image"]
        launcher = place.resume(folder, spec, attempt, image) or interrupted(
            "the controller died while it ran, and nothing of it runs any more"
        )
        clock = files_clock(folder, began[-1]["at_utc"])
        try:
            record = finish(folder, spec, start, attempt, began[-1]["sequence"], launcher, clock, image)
        except (ValueError, KeyError, TypeError, AttributeError):  # a rank's file is no account of what happened
            _set_aside(folder, "unreadable")
            return None
    else:
        _set_aside(folder, "never-begun")
        return None
    if began and len(journal) == len(began):  # its controller died before it could count the time
        append_end(results, start.id, attempt, record["clock"]["seconds"])
    return record


def _set_aside(folder: Path, why: str) -> None:
    """Renames an attempt that no record can be made of, so that its slot is tried again and nothing is deleted."""
    names = itertools.chain(
        [f"{folder.name}.{why}"], (f"{folder.name}.{why}-{number}" for number in itertools.count(2))
    )
    folder.rename(next(path for path in map(folder.with_name, names) if not path.exists()))


def _account(results: Results, start: Start, record: dict[str, Any]) -> dict[str, Any]:
    path = results.attempt(start.id, record["attempt"]) / "start.json"
    failed: dict[str, Any] = next(
        (r for r in record["records"] if r["status"] == record["status"] != Status.OK.value), {}
    )
    return {
        "attempt": record["attempt"],
        "status": record["status"],
        "reason_code": failed.get("reason_code", record.get("reason_code", "")),
        "reason": failed.get("reason", record.get("reason", "")),
        "infrastructure": record["infrastructure"],
        "sha256": sha256_file(path),
    }


def _blocked(plan: Plan, results: Results, start: Start, attempt: int) -> dict[str, Any] | None:
    """A record of why the start is not run at all: its round may not begin any more, or its arm was not admitted."""
    if results.attempt(start.id, attempt).exists():
        return None
    if _budget_spent(plan, results, start):
        reason = f"no further round begins: the budget of {plan.document['budget_hours']} h does not hold another"
        return _write_unrun(plan, results, start, attempt, Status.NOT_RUN, "budget_spent", reason)
    if attempt > 1:
        return None  # a later run of the same command: what admission found may have been mended
    admission = _admitted(results.admission(start.ep_size), start.arm)
    if admission["status"] == Status.INADMISSIBLE.value:
        reason = f"admission: {admission['reason']}"
        return _write_unrun(plan, results, start, attempt, Status.INADMISSIBLE, admission["reason_code"], reason)
    return None


def _admitted(path: Path, arm: str) -> dict[str, str]:
    """What admission says of an arm.

    Raises:
        CampaignError: `bad_admission`: the record is not whole or does not account for the arm.
    """
    arms = read_object(path, str(path)).get("arms")
    account = arms.get(arm) if isinstance(arms, dict) else None
    if not isinstance(account, dict) or not {"status", "reason", "reason_code"} <= set(account):
        message = f"does not account for arm {arm!r}: move the file away, and the same command admits anew"
        raise refuse("bad_admission", message, str(path))
    return account


def _write_unrun(
    plan: Plan, results: Results, start: Start, attempt: int, status: Status, code: str, reason: str
) -> dict[str, Any]:
    record = {
        "schema": START_SCHEMA,
        "campaign": plan.name,
        "plan_digest": plan.digest,
        "kind": "scored",
        "start": start.id,
        "attempt": attempt,
        "sequence": None,
        "position": start.position,
        "round": start.round,
        "order_position": start.order_position,
        "ep_size": start.ep_size,
        "profile": start.profile,
        "arm": start.arm,
        "status": status.value,
        "reason_code": code,
        "reason": reason,
        "infrastructure": code in INFRASTRUCTURE,
        "records": [],
        "files": {},
    }
    folder = results.attempt(start.id, attempt)
    try:
        folder.mkdir(parents=True)
        write_atomically(folder / "start.json", pretty_json(record), mode=READ_ONLY)
    except OSError as error:
        raise refuse("cannot_write", f"the start cannot be recorded: {error.strerror}", str(folder)) from error
    return record


def _budget_spent(plan: Plan, results: Results, start: Start) -> bool:
    """Whether this start's round has not begun and would not end within the budget.

    The spend is the node set's: the seconds of every attempt so far. A round is expected to cost what starts have cost
    on average; the first round of a campaign always begins.
    """
    if plan.document["budget_hours"] is None:
        return False
    journal = read_journal(results)
    begun = {
        (entry["ep_size"], entry["round"])
        for entry in journal
        if entry["event"] == "begin" and entry["kind"] == "scored"
    }
    seconds = [entry["seconds"] for entry in journal if entry["event"] == "end"]
    if (start.ep_size, start.round) in begun or not begun or not seconds:
        return False
    in_round = sum((other.ep_size, other.round) == (start.ep_size, start.round) for other in plan.starts)
    expected_s = in_round * sum(seconds) / len(seconds)
    return bool(sum(seconds) + expected_s > plan.document["budget_hours"] * 3600)
