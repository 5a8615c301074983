"""Admission: before the first scored start of an EP size, is this place fit to measure, and does every arm work here?

What stops the campaign is refused at once (no disk, no memory, nothing to run ranks on). What concerns one arm is recorded:
its scored starts then say `inadmissible` and why, and never run.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_campaign.attempt import run_attempt
from ep_campaign.errors import CampaignError, Refusal
from ep_worker.contract.canonical import pretty_json, write_atomically
from ep_worker.contract.terms import Device, Loop, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan
    from ep_worker.contract.spec import StartSpec

ADMISSION_SCHEMA = "ep-campaign/admission/1"
ITERATIONS, WARMUPS = 5, 2
MIB = 1 << 20
_ELSEWHERE = "choose a campaign with device: cpu, or run this one where the GPUs are"


def admit(plan: Plan, results: Results, ep_size: int) -> dict[str, Any]:
    """Checks the host and runs every arm once, briefly; writes the admission record of an EP size.

    Raises:
        CampaignError: The host is not fit, with everything that is wrong with it; or nothing could be compared here.
    """
    host = observe_host(results.root)
    refusals = host_refusals(plan, ep_size, host)
    if refusals:
        raise CampaignError(refusals)
    arms = {arm: _admit_arm(plan, results, ep_size, arm) for arm in plan.document["arms"]}
    refusals = arm_refusals(plan, ep_size, arms)
    if refusals:
        raise CampaignError(refusals)
    record = {
        "schema": ADMISSION_SCHEMA,
        "ep_size": ep_size,
        "plan_digest": plan.digest,
        "host": host,
        "notes": host_notes(plan, ep_size, host),
        "arms": {arm: account for arm, account in arms.items() if account is not None},
    }
    write_atomically(results.admission(ep_size), pretty_json(record))
    return record


def observe_host(folder: Path) -> dict[str, Any]:
    """What this machine offers: processors, memory, disk, shared memory, load; bytes and counts."""
    memory = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    existing = next(path for path in (folder, *folder.resolve().parents) if path.exists())
    shared = Path("/dev/shm")  # noqa: S108 - observed, not written
    return {
        "num_cpus": len(os.sched_getaffinity(0)),
        "memory_available_bytes": int(memory["MemAvailable"].split()[0]) * 1024,
        "disk_free_bytes": shutil.disk_usage(existing).free,
        "shared_memory_free_bytes": shutil.disk_usage(shared).free if shared.exists() else 0,
        "load_average_1min": round(os.getloadavg()[0], 2),
        "num_gpus": _num_gpus(),
    }


def _num_gpus() -> int:
    """Device files of NVIDIA GPUs that a process here may use: this side has no torch to ask."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    present = len([path for path in Path("/dev").glob("nvidia[0-9]*") if path.name.removeprefix("nvidia").isdigit()])
    return present if visible is None else min(present, len([name for name in visible.split(",") if name.strip()]))


def needs(plan: Plan, ep_size: int) -> dict[str, int]:
    """Rough lower bounds of what the starts of an EP size need on this host, where all their ranks run [bytes]."""
    rows = 0
    for profile in plan.document["profiles"].values():
        shape = profile["shape"]
        rows = max(rows, shape["max_tokens_per_rank"] * min(ep_size, shape["top_k"]) * shape["hidden"])
    per_rank = 300 * MIB + 12 * rows  # the interpreter with torch, and send, receive and expert rows of a BF16 arm
    return {"memory_available_bytes": ep_size * per_rank, "disk_free_bytes": 50 * MIB + 2 * MIB * len(plan.starts)}


def host_refusals(plan: Plan, ep_size: int, host: dict[str, Any]) -> list[Refusal]:
    """What is missing on the host; without GPUs for a campaign that needs them, nothing else is worth saying."""
    if plan.device is Device.CUDA and host["num_gpus"] < ep_size:
        message = f"this host offers {host['num_gpus']} CUDA GPUs, EP {ep_size} needs {ep_size}: {_ELSEWHERE}"
        return [Refusal("no_cuda" if host["num_gpus"] == 0 else "too_few_gpus", message, "admission")]
    found = []
    for name, least in needs(plan, ep_size).items():
        if host[name] < least:
            has, wants = f"{host[name] / MIB:.0f} MiB", f"{least / MIB:.0f} MiB"
            message = f"{name} is {has}, EP {ep_size} needs about {wants}: free some, or measure elsewhere"
            found.append(Refusal(f"too_little_{name.split('_')[0]}", message, "admission"))
    return found


def arm_refusals(plan: Plan, ep_size: int, arms: Mapping[str, Mapping[str, Any] | None]) -> list[Refusal]:
    """Why nothing can be compared at this EP size: the reference, or every other arm, cannot run here."""
    closed = {arm for arm, account in arms.items() if account and account["status"] == Status.INADMISSIBLE.value}
    others = {arm for arm, account in arms.items() if account} - {plan.document["reference"]}
    if plan.document["reference"] not in closed and not (others and others <= closed):
        return []
    return [
        Refusal(
            str((arms[arm] or {})["reason_code"]),
            f"arm {arm!r} cannot run here, so EP {ep_size} has nothing to compare: {(arms[arm] or {})['reason']}",
            "admission",
        )
        for arm in arms
        if arm in closed
    ]


def host_notes(plan: Plan, ep_size: int, host: dict[str, Any]) -> list[dict[str, str]]:
    """What a reader of the numbers should know of the host."""
    notes = []
    num_pods = ep_size // plan.ep_entry(ep_size)["ranks_per_pod"]
    if num_pods > 1:
        text = f"{num_pods} pods are planned, but all {ep_size} ranks ran on this one host: nothing crossed a network"
        notes.append({"code": "one_host", "text": text})
    if plan.device is Device.CPU and ep_size > host["num_cpus"]:
        text = f"{ep_size} ranks share {host['num_cpus']} processors: their latencies include waiting for each other"
        notes.append({"code": "oversubscribed", "text": text})
    if host["load_average_1min"] > 0.5 * host["num_cpus"]:
        text = (
            f"load average is {host['load_average_1min']} on {host['num_cpus']} processors: something else is running"
        )
        notes.append({"code": "busy_host", "text": text})
    return notes


def _admit_arm(plan: Plan, results: Results, ep_size: int, arm: str) -> dict[str, Any] | None:
    start = next((item for item in plan.starts if item.ep_size == ep_size and item.arm == arm), None)
    if start is None:
        return None
    folder = results.admission(ep_size).with_suffix("") / arm
    attempt = 1 + len(list(folder.glob("attempt-*")))
    image = plan.document["arms"][arm]["image"]
    record = run_attempt(
        results, folder / f"attempt-{attempt}", brief(plan.spec(start, kind="admission")), start, attempt, image
    )
    failed: dict[str, Any] = next(
        (r for r in record["records"] if r["status"] == record["status"] != Status.OK.value), {}
    )
    return {
        "attempt": attempt,
        "status": record["status"],
        "reason_code": failed.get("reason_code", ""),
        "reason": failed.get("reason", ""),
        "seconds": record["clock"]["seconds"],
    }


def brief(spec: StartSpec) -> StartSpec:
    """The shortest run that still proves an arm: each cell once, with its oracle, a few iterations, no phase alone."""
    shortened = [
        dataclasses.replace(series, iterations=ITERATIONS * series.chain_length, warmups=WARMUPS)
        for series in spec.series
        if series.loop is Loop.ROUNDTRIP
    ]
    return dataclasses.replace(spec, start=f"admission/{spec.start}", series=tuple(shortened))
