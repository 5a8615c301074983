"""Small plans, requests and records of elastic campaigns for tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_campaign.elastic.expand import load_elastic_plan
from ep_campaign.elastic.loader import Loaded
from ep_campaign.elastic.startfile import ElasticStartFile

if TYPE_CHECKING:
    from ep_campaign.elastic.plan import ElasticPlan

MS = 1_000_000
CAMPAIGN: dict[str, Any] = {
    "schema": "ep-campaign/campaign/1",
    "name": "tiny",
    "kind": "elastic",
    "description": "d",
    "seed": 7,
    "target": {"driver": "engine", "max_num_seqs": 4, "gpus_per_width": 2},
    "arms": [{"name": "tcp", "transport": "tcp"}, {"name": "shm", "transport": "shm", "varied": {"max-len": "why"}}],
    "reference": "tcp",
    "states": [
        {"name": "narrow", "widths": [2]},
        {"name": "grow", "kind": "resize", "widths": [2, 4]},
        {"name": "wide", "widths": [2, 4]},
        {"name": "two-narrow", "widths": [2], "deployments": 2},
    ],
    "reference_state": "narrow",
    "cells": [{"concurrency": 1, "requests": 4}, {"concurrency": 16, "requests": 8, "num_warmups": 16}],
    "prompt": {"unit": "bytes", "num_units": 96, "max_tokens": 24},
    "resize": {"concurrency": 16},
    "rounds": 2,
    "targets": {"ttft_p95_ms": 100, "itl_p99_ms": 20, "price_per_gpu_hour": 3.0},
}


def make_plan(**fields: Any) -> ElasticPlan:
    """The plan of the tiny campaign, with other fields."""
    return load_elastic_plan({**CAMPAIGN, **fields}, Path("tiny.yaml"))


def request(
    number: int = 0, *, sent_ms: float = 0.0, stamps_ms: tuple[float, ...] = (10, 15, 20), **fields: Any
) -> dict[str, Any]:
    """A successful request whose tokens came at some times."""
    stamps = [round(at * MS) for at in stamps_ms]
    return {
        "stream": "cell",
        "number": number,
        "phase": "measured",
        "path": "/v1/completions",
        "scheduled_ns": round(sent_ms * MS),
        "sent_ns": round(sent_ms * MS),
        "first_content_ns": stamps[0] if stamps else None,
        "last_content_ns": stamps[-1] if stamps else None,
        "done_ns": stamps[-1] if stamps else None,
        "status": 200,
        "success": True,
        "error_class": "",
        "finish_reason": "length",
        "prompt_tokens": 96,
        "completion_tokens": len(stamps),
        "cached_tokens": None,
        "chunks": [[at, True, None] for at in stamps],
        **fields,
    }


def loaded(*requests: dict[str, Any], lateness_p99_ms: float | None = 0.1, **account: Any) -> Loaded:
    """A run of load."""
    late_ns = None if lateness_p99_ms is None else round(lateness_p99_ms * MS)
    return Loaded({"lateness": {"p99_ns": late_ns}, **account}, list(requests))


def resize_file(**fields: Any) -> dict[str, Any]:
    """A growth from 2 to 4 that was asked at 1 s and had converged at 3 s."""
    return {
        "resize": {
            "old_width": 2,
            "new_width": 4,
            "sent_ns": 1000 * MS,
            "answered_ns": 2500 * MS,
            "state": "accepted",
            "status": 200,
            "message": "",
            "generation": 2,
        },
        "verdict": "converged",
        "reason": "",
        "ended_ns": 3000 * MS,
        "first_held_ns": {"rank_forwards": 2600 * MS},
        "first_seen_ns": {},
        "seen": [{"at_ns": 0, "shown": {"members": []}}],
        "looks_ns": [900 * MS, 1500 * MS, 2600 * MS, 3000 * MS],
        "endpoint_withdrawn": [],
        "phase_withdrawn": [],
        "calls": [400, 200, 200, 400],
        "last_words": None,
        **fields,
    }


def start_file(**fields: Any) -> ElasticStartFile:
    """The record of a start that went well."""
    return ElasticStartFile.model_validate(
        {
            "schema": "ep-campaign/elastic-start/1",
            "kind": "scored",
            "campaign": "tiny",
            "plan_digest": "0" * 64,
            "start": "w4/grow/round-01/tcp",
            "attempt": 1,
            "infrastructure": False,
            "position": 0,
            "round": 1,
            "width": 4,
            "state": "grow",
            "arm": "tcp",
            "order_position": 1,
            "status": "ok",
            "reason_code": "",
            "reason": "",
            "calibration": None,
            "resizes": [],
            "provenance": [],
            "server_log_before": [{}],
            "server_log": [{}],
            "released": [],
            "teardown": "ok",
            "clock": None,
            "sequence": None,
            "controller": None,
            "files": {},
            **fields,
        }
    )
