"""A whole elastic results folder without an engine: records as the measuring job writes them, of a small plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from elastic.runs import MS, make_plan, request, resize_file, start_file

from ep_campaign.elastic.start import write_record
from ep_campaign.layout import OUTCOME_SCHEMA, Results
from ep_worker.contract.canonical import pretty_json, sha256_file

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.elastic.plan import ElasticPlan, ElasticStart

NUM_WARMUPS, NUM_REQUESTS = 2, 24
FIELDS: dict[str, Any] = {
    "states": [
        {"name": "narrow", "widths": [2]},
        {"name": "grow", "kind": "resize", "widths": [2, 4]},
        {"name": "wide", "widths": [4]},
    ],
    "cells": [{"concurrency": 2, "requests": NUM_REQUESTS, "num_warmups": NUM_WARMUPS}],
    "rounds": 1,
}
_WHOLE: dict[str, Any] = {
    "endpoint": 0,
    "worker": 0,
    "headers_ns": None,
    "first_chunk_ns": None,
    "error": "",
    "num_bytes": 100,
    "saw_done": True,
}


def make_folder(root: Path) -> tuple[ElasticPlan, Results]:
    """Every start of the plan, measured once and well."""
    plan = make_plan(**FIELDS)
    results = Results(root / plan.name)
    results.root.mkdir(parents=True)
    results.plan.write_text(plan.text())
    for start in plan.starts:
        write_start(plan, results, start)
    return plan, results


def write_start(plan: ElasticPlan, results: Results, start: ElasticStart, **fields: Any) -> None:
    """One start of one attempt, with other fields."""
    folder = results.attempt(start.id, 1)
    state = plan.state(start.state)
    name, requests = (
        ("load", load_requests()) if state["kind"] == "resize" else ("closed-2", sweep_requests(start.width))
    )
    write_run(folder / "cells" / name, requests)
    resizes = [resize_file()] if state["kind"] == "resize" else []
    num_calls = sum(one["path"] != "/health" for one in requests)
    log = {"200": num_calls + 4 * len(resizes), **({"400": 2} if resizes else {})}
    base = start_file(
        plan_digest=plan.digest,
        start=start.id,
        **{key: getattr(start, key) for key in ("position", "round", "width", "state", "arm", "order_position")},
    ).model_dump(by_alias=True, mode="json")
    record = {
        **base,
        "resizes": resizes,
        "server_log": [log],
        "provenance": [
            {"engine": "ep_serve", "transport": {"name": start.arm, "gpu_direct": None, "evidence": "seen"}}
        ],
        "clock": {"began_utc": "2026-12-01T00:00:00Z", "ended_utc": "2026-12-01T00:00:09Z", "seconds": 9.0},
        **fields,
    }
    write_record(folder, record)
    write_outcome(results, start, record)


def write_outcome(results: Results, start: ElasticStart, record: dict[str, Any]) -> None:
    """The outcome of a job of one attempt."""
    kept = ("attempt", "status", "reason_code", "reason", "infrastructure")
    digest = sha256_file(results.attempt(start.id, 1) / "start.json")
    account = {**{name: record[name] for name in kept}, "sha256": digest}
    outcome = {"schema": OUTCOME_SCHEMA, "start": start.id, "status": record["status"], "attempts": [account]}
    results.outcome(start.id, 1).write_text(pretty_json(outcome))


def write_run(folder: Path, requests: list[dict[str, Any]]) -> None:
    """The files of one run of load."""
    folder.mkdir(parents=True, exist_ok=True)
    account = {
        "lateness": {"p99_ns": MS // 10},
        "began_ns": 0,
        "stopped_ns": 5000 * MS,
        "clocks": [{"monotonic_ns": 0}, {"monotonic_ns": 5000 * MS}],
    }
    (folder / "load.json").write_text(pretty_json(account))
    (folder / "requests.jsonl").write_text("".join(f"{json.dumps({**_WHOLE, **one})}\n" for one in requests))


def sweep_requests(width: int) -> list[dict[str, Any]]:
    """Requests one after the other: first token after 10 ms x width, then five tokens 5 ms x width apart."""
    made = []
    for number in range(NUM_WARMUPS + NUM_REQUESTS):
        begin = 100.0 * number
        stamps = tuple(begin + 10 * width + 5 * width * index for index in range(6))
        phase = "warmup" if number < NUM_WARMUPS else "measured"
        made.append(request(number, sent_ms=begin, stamps_ms=stamps, phase=phase))
    return made


def load_requests() -> list[dict[str, Any]]:
    """A closed loop of one over 5 s, with a stall of 400 ms from 2 s, and a prober that saw a 503 in it."""
    made = []
    for number in range(50):
        begin = 100.0 * number
        stamps = [begin + 10 + 10 * index for index in range(6)]
        if number == 20:
            stamps = [*stamps[:3], *(at + 400 for at in stamps[3:])]
        if number not in range(21, 24):
            made.append(request(number, sent_ms=begin, stamps_ms=tuple(stamps), phase="load", stream="load"))
    for number in range(50):
        failed = number in (21, 22)
        fields: dict[str, Any] = {"status": 503, "success": False, "error_class": "http_status"} if failed else {}
        at = 100.0 * number
        made.append(
            request(number, sent_ms=at, stamps_ms=(), phase="probe", stream="prober", path="/health")
            | {"done_ns": round((at + 1) * MS), "finish_reason": None, **fields}
        )
    return made
