"""The record of a start (`start.json`): its fields, and what must hold between them.

A record whose status is not `ok` cannot carry a latency: `problems` finds it, whoever wrote the file.
"""

from __future__ import annotations

import math
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from ep_worker.contract.terms import Loop, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

START_SCHEMA = "ep-campaign/start/1"
SAMPLES_FILE = "samples.bin.gz"
SAMPLE_AXES = ("sample", "rank", "phase")

ONLY_OK = ("latency", "samples")
"""Fields that only an `ok` record may hold."""


def slowest_rank(times_ns: Sequence[int], num_ranks: int, num_phases: int, phase: int) -> list[int]:
    """For each sample the maximum over ranks of one phase [ns]; `times_ns` is [sample, rank, phase], flat."""
    stride = num_ranks * num_phases
    columns = [times_ns[rank * num_phases + phase :: stride] for rank in range(num_ranks)]
    return [max(row) for row in zip(*columns, strict=True)]


def latency_summary(
    times_ns: Sequence[int], num_ranks: int, phases: Sequence[str], chain_length: int, global_tokens: int
) -> dict[str, Any]:
    """The derived figures of one series, from its raw samples.

    Returns:
        `median_ns`, `mean_ns`, `min_ns`, `max_ns` of the slowest rank over samples, for one round-trip (or one phase, in an
        isolated loop); `phase_median_ns`, the same median for each phase apart; `input_tokens_per_second` over all ranks.
    """
    by_phase = {
        phase: [value / chain_length for value in slowest_rank(times_ns, num_ranks, len(phases), index)]
        for index, phase in enumerate(phases)
    }
    whole = by_phase[phases[-1]]
    return {
        "input_tokens_per_second": global_tokens / (median(whole) * 1e-9),
        "max_ns": max(whole),
        "mean_ns": fmean(whole),
        "median_ns": median(whole),
        "min_ns": min(whole),
        "phase_median_ns": {phase: median(values) for phase, values in by_phase.items()},
    }


def problems(record: dict[str, Any]) -> list[str]:
    """What is wrong inside one record of a start: fields that its status forbids or demands, and impossible numbers."""
    found: list[str] = []
    status = record.get("status")
    if status not in {item.value for item in Status}:
        return [f"status is {status!r}, expected one of {', '.join(item.value for item in Status)}"]
    if status != Status.OK.value:
        found.extend(f"status {status} with field {field!r}" for field in ONLY_OK if record.get(field) is not None)
        if not record.get("reason_code"):
            found.append(f"status {status} without a reason code")
        return found
    latency = record.get("latency")
    if not isinstance(latency, dict):
        return ["status ok without latency"]
    flat = [value for key, value in latency.items() if key != "phase_median_ns"]
    flat += list(latency.get("phase_median_ns", {}).values())
    if not all(isinstance(v, int | float) and math.isfinite(v) and v > 0 for v in flat):
        found.append("a latency figure is not a positive finite number")
    if record.get("same_as") is None and record.get("samples") is None:
        found.append("status ok without samples")
    if record.get("loop") == Loop.ROUNDTRIP.value and not _verified(record.get("oracle")):
        found.append("status ok without an oracle that passed before and after timing")
    return found


def _verified(oracle: Any) -> bool:
    return isinstance(oracle, dict) and all(
        isinstance(oracle.get(stage), dict) and oracle[stage].get("passed") is True for stage in ("before", "after")
    )
