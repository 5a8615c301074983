"""Rows of `records` and `attempts` straight from a latency model: for tests of the analysis that need no files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from latency_model import BOUNDARY_FACTOR, Model

from ep_campaign.analysis.rows import Attempt, Record
from ep_worker.contract.terms import Dtype, Loop, Mode

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ep_campaign.plan import Plan, Start

COMPLETE: dict[str, Any] = {"state": "complete", "violations": []}
"""A validation that found nothing."""


def make_rows(
    plan: Plan, model: Model | None = None, failed: Mapping[str, str] | None = None, late: Collection[str] = ()
) -> tuple[list[Record], list[Attempt]]:
    """The rows of a campaign whose start values are the model's start levels, without noise of iterations.

    Args:
        plan: Plan.
        model: Where latencies come from.
        failed: Status by start id of starts that are not `ok`; `absent` for one that no job has finished.
        late: Ids of starts that came late.
    """
    model, failed = model or Model(), failed or {}
    records: list[Record] = []
    attempts: list[Attempt] = []
    for start in plan.starts:
        status = failed.get(start.id, "ok")
        if status != "absent":
            records += _records(plan, model, start, status, start.id in late)
            attempts.append(_attempt(start, status, start.id in late))
    return records, attempts


def _records(plan: Plan, model: Model, start: Start, status: str, late: bool) -> list[Record]:
    level = model.start_level(start, 1)
    rows = []
    for series in plan.spec(start).series if status != "not_run" else ():
        factor = BOUNDARY_FACTOR[series.boundary] * model.cell_factor.get((series.cell, start.arm), 1.0)
        factor *= model.loop_factor.get((start.profile, series.loop.value, start.arm), 1.0)
        factor *= 0.8 if plan.cell(series.cell).dtype is Dtype.FP8 else 1.0
        factor *= 0.9 if series.mode is Mode.CHAINED else 1.0
        names: dict[str, Any] = {"cell": series.cell, "boundary": series.boundary.value, "mode": series.mode.value}
        median_ns = 1e3 * model.base_us * factor * math.exp(level)
        figures: dict[str, Any] = {
            "median_ns": median_ns,
            "mean_ns": median_ns,
            "input_tokens_per_second": 16 / (median_ns * 1e-9),
        }
        figures |= {"num_samples": series.iterations // series.chain_length, "iteration_sd_log": model.iteration_sd}
        if series.loop is not Loop.ROUNDTRIP:
            del figures["input_tokens_per_second"]
        rows.append(
            Record(
                **_names(start, status, late),
                **names,
                loop=series.loop.value,
                **(figures if status == "ok" else {}),
            )
        )
    return rows


def _names(start: Start, status: str, late: bool) -> dict[str, Any]:
    why = ("", "") if status == "ok" else ("planted", f"planted {status}")
    return {
        "start": start.id,
        "attempt": 1,
        "late": late,
        "scored": True,
        "round": start.round,
        "arm": start.arm,
        "status": status,
        "reason_code": why[0],
        "reason": why[1],
    }


def _attempt(start: Start, status: str, late: bool) -> Attempt:
    return Attempt(
        **_names(start, status, late),
        sequence=None if status == "not_run" else start.position + 1,
        ep_size=start.ep_size,
        profile=start.profile,
        infrastructure=False,
        teardown=None if status == "not_run" else "ok",
        seconds=None if status == "not_run" else 30.0,
    )
