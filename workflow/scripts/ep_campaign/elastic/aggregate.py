"""Aggregation of an elastic campaign: from the records of all attempts to its tables; nothing is judged or dropped here."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ep_campaign.aggregate import read_validation
from ep_campaign.elastic.attempts import ElasticAttempt, read_attempts
from ep_campaign.elastic.ledger import client_ledger, server_ledger
from ep_campaign.elastic.metrics import run_figures
from ep_campaign.elastic.resize import LOAD
from ep_campaign.elastic.resize_rows import resize_rows
from ep_campaign.elastic.tables import CHUNKS, ELASTIC_ATTEMPTS, ELASTIC_TABLES, PASSES, REQUESTS, RESIZES
from ep_campaign.errors import CampaignError, Refusal
from ep_campaign.parquet import ParquetFile

if TYPE_CHECKING:
    from ep_campaign.elastic.loader import Loaded
    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.layout import Results
    from ep_campaign.validate.finding import Violation


def aggregate_elastic(plan: ElasticPlan, results: Results) -> None:
    """Writes the tables.

    Raises:
        CampaignError: The folder was not validated, or changed since.
    """
    read_validation(plan, results)
    found: list[Violation] = []
    with ExitStack() as stack:
        files = {
            table.name: stack.enter_context(ParquetFile(results.table(table.name), table)) for table in ELASTIC_TABLES
        }
        for attempt in read_attempts(plan, results, found):
            for table, rows in _rows(plan, attempt).items():
                if rows:
                    files[table].add(next(one for one in ELASTIC_TABLES if one.name == table).rows(rows))
            for name, run in attempt.runs.items():
                _add_requests(files, attempt, name, run)
    altered = [str(one) for one in found if one.severity.value == "refuse"]
    if altered:
        raise CampaignError([Refusal("changed_since_validation", text) for text in altered])


def _rows(plan: ElasticPlan, attempt: ElasticAttempt) -> dict[str, list[dict[str, Any]]]:
    own = _start_columns(attempt)
    state = attempt.start.state
    load = attempt.runs.get(LOAD)
    return {
        ELASTIC_ATTEMPTS.name: [{**own, **_attempt_columns(attempt)}],
        PASSES.name: [{**own, "cell": name, **run_figures(plan, state, run)} for name, run in attempt.runs.items()],
        RESIZES.name: [{**own, **row} for row in resize_rows(attempt.record, load)],
    }


def _start_columns(attempt: ElasticAttempt) -> dict[str, Any]:
    record = attempt.record
    names = ("start", "attempt", "round", "state", "arm", "width")
    return {**{name: getattr(record, name) for name in names}, "counted": attempt.counted}


def _attempt_columns(attempt: ElasticAttempt) -> dict[str, Any]:
    record = attempt.record
    client, unseen = client_ledger(record, attempt.runs.values())
    server = server_ledger(record)
    clock = record.clock or {"began_utc": None, "seconds": None}
    calibration = record.calibration or {}
    first, gap = calibration.get("ttft_bias_ms") or {}, calibration.get("gap_error_ms") or {}
    return {
        "order_position": record.order_position,
        "status": record.status.value,
        "reason_code": record.reason_code,
        "reason": record.reason,
        "infrastructure": record.infrastructure,
        "teardown": record.teardown,
        "began_utc": clock["began_utc"],
        "seconds": clock["seconds"],
        "client_calls": json.dumps(client, sort_keys=True),
        "num_unseen": unseen,
        "server_calls": None if server is None else json.dumps(server, sort_keys=True),
        "ttft_bias_p50_ms": first.get("p50"),
        "ttft_bias_p95_ms": first.get("p95"),
        "gap_error_p95_ms": gap.get("p95"),
        "calibration_concurrency": calibration.get("concurrency"),
        "provenance": json.dumps(record.provenance, sort_keys=True),
    }


def _add_requests(files: dict[str, ParquetFile], attempt: ElasticAttempt, cell: str, run: Loaded) -> None:
    where = {"start": attempt.start.id, "attempt": attempt.record.attempt, "cell": cell}
    requests, chunks = [], []
    for one in run.requests:
        kept = {name: value for name, value in one.items() if name != "chunks"}
        requests.append({**where, **kept})
        named = {**where, "stream": one["stream"], "number": one["number"]}
        chunks += [
            {**named, "at_ns": at, "has_content": content, "num_tokens": tokens}
            for at, content, tokens in one["chunks"]
        ]
    files[REQUESTS.name].add(REQUESTS.rows(requests))
    files[CHUNKS.name].add(CHUNKS.rows(chunks))
