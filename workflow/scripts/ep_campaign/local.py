"""This machine as a place: all ranks in processes of their own, with the files where they are wanted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_campaign.attempt import interrupted
from ep_campaign.errors import Refusal
from ep_campaign.place import Fitness
from ep_worker.contract.terms import Device, Status

if TYPE_CHECKING:
    from ep_campaign.plan import Plan
    from ep_worker.contract.spec import StartSpec

GRACE_S = 60.0
"""What the launcher is given beyond its own watchdog before it counts as hung."""

MIB = 1 << 20
_ELSEWHERE = "choose a campaign with device: cpu, or run this one where the GPUs are"


class ThisMachine:
    """The machine that Snakemake runs on."""

    def fitness(self, plan: Plan, folder: Path, ep_size: int) -> Fitness:
        """As `Place.fitness`."""
        host = observe_host(folder)
        return Fitness(host, host_refusals(plan, ep_size, host), host_notes(plan, ep_size, host))

    def launch(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any]:
        """As `Place.launch`: to the launcher's end, or to the controller's own bound."""
        command = [sys.executable, "-m", "ep_worker", "launch", str(folder / "spec.json"), str(folder)]
        bound_s = spec.watchdog_s + spec.rendezvous_timeout_s + GRACE_S
        with (folder / "launcher.log").open("wb") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            try:
                status = process.wait(timeout=bound_s)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                account = interrupted(f"the launcher did not end within {bound_s:.0f} s and was killed")
                return {**account, "status": Status.TIMED_OUT.value, "reason_code": "launcher_hung"}
            except BaseException:
                process.terminate()
                process.wait()
                raise
        path = folder / "launcher.json"
        if path.exists():
            return dict(json.loads(path.read_text(encoding="ascii")))
        last = (folder / "launcher.log").read_text(errors="replace").strip().splitlines()[-1:]
        account = interrupted(f"the launcher ended with status {status} and no account: {' '.join(last)[:300]}")
        return {**account, "reason_code": "launcher_died"}

    def resume(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any] | None:
        """As `Place.resume`: here all processes die with their controller."""
        return None


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
