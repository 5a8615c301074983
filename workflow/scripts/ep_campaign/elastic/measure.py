"""One job: an elastic start in its slot, with its attempts, ending in an outcome."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ep_campaign.elastic.start import run_elastic_attempt, unrun_record, write_record
from ep_campaign.layout import OUTCOME_SCHEMA
from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically

if TYPE_CHECKING:
    from ep_campaign.elastic.plan import ElasticPlan, ElasticStart
    from ep_campaign.layout import Results

_READ_ONLY = 0o444


def measure_elastic(plan: ElasticPlan, results: Results, start: ElasticStart, first_attempt: int) -> dict[str, Any]:
    """Runs, or harvests, the attempts of one job and writes its outcome; only infrastructure failures are tried again.

    Raises:
        CampaignError: Nothing can be written.
    """
    accounts: list[dict[str, Any]] = []
    tries, attempt = 0, first_attempt
    while True:
        record = _existing(plan, results, start, attempt)
        if record is None:
            tries += 1
            record = run_elastic_attempt(plan, results, start, attempt)
        accounts.append(_account(results, start, record))
        again = record["infrastructure"] and tries <= plan.document["limits"]["retries"]
        if not again and not results.attempt(start.id, attempt + 1).exists():
            break
        attempt += 1
    outcome = {"schema": OUTCOME_SCHEMA, "start": start.id, "status": accounts[-1]["status"], "attempts": accounts}
    write_atomically(results.outcome(start.id, first_attempt), pretty_json(outcome), mode=_READ_ONLY)
    return outcome


def describe_elastic(plan: ElasticPlan, start: ElasticStart, outcome: dict[str, Any]) -> str:
    """One line about a finished job."""
    account = outcome["attempts"][-1]
    head = f"[{start.position + 1}/{len(plan.starts)}] {start.id}: {outcome['status']}"
    return f"{head} ({account['reason_code']}: {account['reason'][:200]})" if account["reason_code"] else head


def _existing(plan: ElasticPlan, results: Results, start: ElasticStart, attempt: int) -> dict[str, Any] | None:
    """The record of an attempt that is already there, made now if its controller died before it could."""
    folder = results.attempt(start.id, attempt)
    if not folder.exists():
        return None
    path = folder / "start.json"
    if path.exists():
        return dict(json.loads(path.read_text(encoding="ascii")))
    record = unrun_record(plan, start, attempt, "the controller died while it ran; its processes died with it")
    write_record(folder, record)
    return record


def _account(results: Results, start: ElasticStart, record: dict[str, Any]) -> dict[str, Any]:
    path = results.attempt(start.id, record["attempt"]) / "start.json"
    kept = ("attempt", "status", "reason_code", "reason", "infrastructure")
    return {**{name: record[name] for name in kept}, "sha256": sha256_file(path)}
