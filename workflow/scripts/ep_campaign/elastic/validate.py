"""Validation of an elastic results folder: every violation at once, and the census that every report prints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ep_campaign.elastic.attempts import ElasticAttempt, read_attempts
from ep_campaign.elastic.ledger import client_ledger, reconcile, server_ledger
from ep_campaign.elastic.metrics import lateness_fault
from ep_campaign.validate.finding import Validation, Violation, missing, note, refusal, sort_violations
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.layout import Results

_AGAIN = "run the same command again"


def validate_elastic(plan: ElasticPlan, results: Results) -> Validation:
    """Everything that is wrong with a results folder."""
    found: list[Violation] = []
    attempts = list(read_attempts(plan, results, found))
    for attempt in attempts:
        found.extend(_attempt_violations(plan, results, attempt))
    return Validation(plan.name, plan.digest, sort_violations(found), _census(plan, attempts))


def _attempt_violations(plan: ElasticPlan, results: Results, attempt: ElasticAttempt) -> Iterator[Violation]:
    record = attempt.record
    file = (attempt.folder / "start.json").relative_to(results.root).as_posix()
    if record.teardown == "failed":
        left = "; ".join(text for one in record.released for text in one.left)
        yield note("teardown_failed", file, "released", left, "nothing left", "look for what is left, and end it")
    if not attempt.counted:
        return
    if record.status is not Status.OK:
        text = f"{record.status.value}: {record.reason_code}: {record.reason[:300]}"
        yield missing("start_not_ok", file, "status", text, "ok", _AGAIN)
    if record.status in (Status.OK, Status.INCORRECT):
        yield from _count_violations(plan, attempt, file)
        yield from _ledger_violations(attempt, file)
        yield from _load_violations(plan, attempt, file)


def _count_violations(plan: ElasticPlan, attempt: ElasticAttempt, file: str) -> Iterator[Violation]:
    """A sweep holds every request that was planned, each once."""
    if plan.state(attempt.start.state)["kind"] != "sweep":
        return
    for name, cell in plan.cells.items():
        run = attempt.runs.get(name)
        numbers = sorted(one["number"] for one in run.requests) if run else []
        if numbers != list(range(cell["num_warmups"] + cell["requests"])):
            wanted = f"{cell['num_warmups']} + {cell['requests']}, each once"
            yield refusal("requests_missing", file, f"cells/{name}", f"{len(numbers)} requests", wanted)


def _ledger_violations(attempt: ElasticAttempt, file: str) -> Iterator[Violation]:
    server = server_ledger(attempt.record)
    if server is None:
        action = "give the driver the server's log, so that the ledger can be reconciled"
        yield note("no_server_log", file, "server_log", "none that can be read", "one", action)
        return
    client, unseen = client_ledger(attempt.record, attempt.runs.values())
    fault = reconcile(client, unseen, server)
    if fault is not None:
        yield refusal("ledger_mismatch", file, "server_log", fault, "the same calls on both sides")


def _load_violations(plan: ElasticPlan, attempt: ElasticAttempt, file: str) -> Iterator[Violation]:
    for name, run in attempt.runs.items():
        fault = lateness_fault(plan, run)
        if fault is not None:
            action = "give the client a core of its own; the cell's figures are marked invalid"
            yield note("client_late", file, f"cells/{name}", fault, "a client that is on time", action)
        cached = sum(one["cached_tokens"] or 0 for one in run.requests)
        if cached and not plan.document["prompt"]["shared_prefix_units"]:
            action = "prompts are unique: look at what the cache holds from before"
            yield note("prefix_cache_hits", file, f"cells/{name}", f"{cached} tokens", "none", action)


def _census(plan: ElasticPlan, attempts: list[ElasticAttempt]) -> dict[str, Any]:
    counted = [one for one in attempts if one.counted]
    arms: dict[str, dict[str, Any]] = {}
    for arm in plan.arms:
        own = [one for one in attempts if one.start.arm == arm]
        failed = Counter(one.record.reason_code for one in own if one.record.status is not Status.OK)
        arms[arm] = {"num_attempts": len(own), "failed": dict(sorted(failed.items()))}
    return {
        "num_starts": len(plan.starts),
        "num_ok_starts": sum(one.record.status is Status.OK for one in counted),
        "arms": arms,
        "teardown": dict(sorted(Counter(one.record.teardown for one in attempts).items())),
        "seconds": round(sum((one.record.clock or {"seconds": 0.0})["seconds"] for one in attempts), 1),
    }
