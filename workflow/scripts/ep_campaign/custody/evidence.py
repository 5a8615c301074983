"""The transport proof of one attempt, from the files that its pods left: their logs, and their NICs' counters.

An admission run is verbose, and must say what it uses. A scored start is quiet: its NICs must have carried what its route
sends, and no line of its logs may say that something fell back.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ep_campaign.custody.netlog import read_log
from ep_campaign.custody.transport import (
    Fabric,
    Outcome,
    Proof,
    Stack,
    fallback,
    judge_counters,
    judge_log,
    stack_of,
    worst,
)
from ep_worker.contract.accounting import RouteCounts, payload_bytes
from ep_worker.contract.rankfile import Event, log_path, read_events
from ep_worker.contract.terms import Device, Loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ep_worker.contract.spec import StartSpec

ADMISSION = "admission"


def prove(folder: Path, spec: StartSpec, fabric: Fabric, num_nics: int = 0) -> Proof:
    """Judges what carried the bytes of an attempt between its pods.

    Args:
        folder: The attempt's folder, with what its pods left.
        spec: What its ranks were told.
        fabric: What was asked to carry the bytes.
        num_nics: NICs that each pod was given; 0 for any number.
    """
    num_pods = spec.ep_size // spec.ranks_per_pod
    if num_pods == 1:
        return Proof(Outcome.PROVED, "", "one pod: nothing crosses a network")
    if fabric in (Fabric.NONE, Fabric.SOCKET):
        return Proof(Outcome.PROVED, "", f"no fabric is asked for ({fabric.value}): nothing to prove")
    stack = Stack.GLOO if spec.device is Device.CPU else stack_of(spec.arm.backend)
    log = read_log(_lines(folder, spec))
    counted = _counted(folder, spec, num_pods)
    if spec.kind == ADMISSION:
        return worst([judge_log(stack, fabric, log, num_nics), counted])
    return fallback(stack, log) or counted


def least_bytes(folder: Path, spec: StartSpec) -> int:
    """What the timed round-trips of a start send between scale-up domains, at least; 0 where no rank got so far [bytes]."""
    workloads = {e["route"]: e for e in read_events(folder, 0) if e["event"] == Event.WORKLOAD.value and "counts" in e}
    cells = {cell.id: cell for cell in spec.cells}
    total = 0
    for series in spec.series:
        cell = cells[series.cell]
        if series.loop is not Loop.ROUNDTRIP or series.same_as is not None or cell.route not in workloads:
            continue
        counts = RouteCounts.from_json(workloads[cell.route]["counts"])
        once = payload_bytes(counts, cell.dtype, spec.shape.hidden)["domain_deduplicated"]
        total += series.iterations * (once["dispatch_remote"] + once["combine_remote"])
    return total


def _counted(folder: Path, spec: StartSpec, num_pods: int) -> Proof:
    """The NICs of all pods together against what the whole route sends."""
    before: dict[str, dict[str, int]] = {}
    after: dict[str, dict[str, int]] = {}
    for pod in range(num_pods):
        seen = _fabric(folder / f"launcher-{pod}.json")
        if not seen.get("before") or not seen.get("after"):
            message = f"pod {pod} left no NIC counters: are the fabric's devices in the pod?"
            return Proof(Outcome.SILENT, "no_nic_counters", message)
        before |= {f"pod {pod} {nic}": device["counters"] for nic, device in seen["before"].items()}
        after |= {f"pod {pod} {nic}": device["counters"] for nic, device in seen["after"].items()}
    return judge_counters(before, after, least_bytes(folder, spec))


def _fabric(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="ascii")).get("fabric") or {})
    except (OSError, ValueError):
        return {}


def _lines(folder: Path, spec: StartSpec) -> Iterator[str]:
    """Every line that ranks and pods printed."""
    logs = [log_path(folder, rank) for rank in range(spec.ep_size)]
    for path in [*logs, *sorted(folder.glob("pod-*.log"))]:
        if path.exists():
            with path.open(encoding="utf-8", errors="replace") as stream:
                yield from stream
