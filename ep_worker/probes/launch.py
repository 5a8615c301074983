"""Launches one arm for a probe and brings back what each rank wrote of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ep_worker.contract.rankfile import Event, read_events
from ep_worker.contract.terms import Device, Mode, Status
from ep_worker.handmade import handmade, launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ep_worker.contract.spec import ArmSpec, Shape, StartSpec
    from ep_worker.contract.terms import Dtype

_WATCHDOG_S = 300.0


@dataclass(frozen=True)
class Found:
    """What a probe of one arm left.

    Attributes:
        by_rank: For each rank what it measured; empty where one did not.
        reason: Why there is nothing; else empty.
    """

    by_rank: list[dict[str, Any]]
    reason: str


def probe(
    folder: Path,
    kind: str,
    arm: ArmSpec,
    device: Device,
    shape: Shape,
    dtype: Dtype,
    *,
    ranks: int,
    ranks_per_device: int,
    tell: Callable[[StartSpec], None],
) -> Found:
    """Runs one arm, launches hidden where the device can."""
    environment = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if ranks_per_device > 1 else {}
    mode = Mode.HOST_START if device is Device.CPU else Mode.LAUNCH_HIDDEN
    spec = handmade(
        arm, device, shape, dtype, mode=mode, ranks=ranks, ranks_per_device=ranks_per_device, watchdog_s=_WATCHDOG_S
    )
    spec = replace(spec, kind=kind)
    tell(spec)
    return found_in(folder, spec, launch(folder, spec, environment))


def found_in(folder: Path, spec: StartSpec, start: dict[str, Any]) -> Found:
    """What the ranks of a probe wrote, or why there is none: no oracle that failed, no rank that gave up."""
    by_rank = [
        [event for event in read_events(folder, rank) if event["event"] == Event.PROBE.value]
        for rank in range(spec.ep_size)
    ]
    refused = next(
        (
            f"{record['status']} {record['reason_code']}: {record['reason']}"
            for record in start["records"]
            if record["reason_code"] != "incomplete_files" and record["status"] != Status.OK.value
        ),
        "",
    )
    if refused or not all(by_rank):
        return Found([], refused or "a rank left no result")
    return Found([events[-1] for events in by_rank], "")
