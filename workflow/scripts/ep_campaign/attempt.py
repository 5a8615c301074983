"""One attempt at a start: launched at a place, waited for, gathered. The record is truthful also of a failure."""

from __future__ import annotations

import ctypes
import datetime as dt
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from ep_campaign.errors import refuse
from ep_worker.contract.assembly import READ_ONLY, assemble
from ep_worker.contract.canonical import pretty_json, write_atomically
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.place import Place
    from ep_campaign.plan import Start
    from ep_worker.contract.spec import StartSpec

_LOCAL = frozenset({"interrupted", "launcher_died", "launcher_hung", "rendezvous_timeout", "launch_failed"})
_CLUSTER = frozenset(
    {"unschedulable", "not_started", "evicted", "node_lost", "pod_deleted", "restarted", "refused", "incomplete_logs"}
)
INFRASTRUCTURE = _LOCAL | _CLUSTER
"""Reason codes of failures that say nothing about the arm: retried in the slot."""

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Asks the kernel to kill this process when its parent dies, so that a killed Snakemake leaves nothing behind."""
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)


def utc_now() -> str:
    """The time in UTC, to the second."""
    return _utc(dt.datetime.now(dt.UTC))


def files_clock(folder: Path, began_utc: str) -> dict[str, Any]:
    """The clock of an attempt that nobody saw end: from its spec to the last byte that its processes wrote.

    These are dates of files, the only witness left; the controller's own clock died with it.
    """
    began = (folder / "spec.json").stat().st_mtime if (folder / "spec.json").exists() else folder.stat().st_mtime
    ended = max((path.stat().st_mtime for path in folder.iterdir()), default=began)
    ended_utc = max(began_utc, _utc(dt.datetime.fromtimestamp(ended, dt.UTC)))
    return {"began_utc": began_utc, "ended_utc": ended_utc, "seconds": round(max(ended - began, 0.0), 3)}


def _utc(when: dt.datetime) -> str:
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def append_journal(results: Results, entry: dict[str, Any]) -> int:
    """Appends a line to the journal; returns the number of `begin` lines so far: an attempt's sequence number."""
    results.journal.parent.mkdir(parents=True, exist_ok=True)
    with results.journal.open("a+", encoding="ascii") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        lines = stream.readlines()
        sequence = sum('"event": "begin"' in line for line in lines) + int(entry["event"] == "begin")
        torn = bool(lines) and not lines[-1].endswith("\n")  # the disk was full, or power went: keep it to itself
        stream.write("\n" * torn + json.dumps({"sequence": sequence, **entry}, sort_keys=True) + "\n")
    return sequence


def append_end(results: Results, start_id: str, attempt: int, seconds: float) -> None:
    """Counts the time of an attempt that has ended: what budgets are held against."""
    append_journal(results, {"event": "end", "start": start_id, "attempt": attempt, "seconds": seconds})


def read_journal(results: Results) -> list[dict[str, Any]]:
    """Every whole line of the journal."""
    if not results.journal.exists():
        return []
    lines = results.journal.read_text(encoding="ascii").splitlines()
    return [json.loads(line) for line in lines if line.endswith("}")]


def controller() -> dict[str, Any]:
    """Who drives: host and, in a git checkout, commit and whether files differ from it."""
    root = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - this module's start-up is counted in every start

    def git(*arguments: str) -> str | None:
        command = ["git", "-C", root, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False) if shutil.which("git") else None
        return done.stdout.strip() if done is not None and done.returncode == 0 else None

    commit, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "--untracked-files=no")
    none = {"not_applicable": "the sources are not in a git checkout"}
    return {
        "hostname": socket.gethostname(),
        "git_commit": commit or none,
        "git_dirty": none if changes is None or commit is None else bool(changes),
    }


def run_attempt(
    place: Place, results: Results, folder: Path, spec: StartSpec, start: Start, attempt: int, image: str | None
) -> dict[str, Any]:
    """Runs one attempt in a new folder, at a place, and returns its start record.

    Raises:
        CampaignError: The folder cannot be written: no record is possible.
    """
    try:
        folder.mkdir(parents=True)
        for route in spec.routes:
            if route.trace:
                (folder / route.trace).parent.mkdir(exist_ok=True)
                shutil.copyfile(results.root / route.trace, folder / route.trace)
        write_atomically(folder / "spec.json", pretty_json(spec.as_json()))
        entry = {"event": "begin", "start": spec.start, "attempt": attempt, "round": start.round, "kind": spec.kind}
        sequence = append_journal(results, {**entry, "ep_size": start.ep_size, "at_utc": utc_now()})
        began_utc, began = utc_now(), time.monotonic()
        launcher = place.launch(folder, spec, attempt, image)
        seconds = round(time.monotonic() - began, 3)
        clock = {"began_utc": began_utc, "ended_utc": utc_now(), "seconds": seconds}
        record = finish(folder, spec, start, attempt, sequence, launcher, clock, image)
        append_end(results, spec.start, attempt, seconds)
    except OSError as error:
        raise refuse("cannot_write", f"the attempt cannot be recorded: {error.strerror}", str(folder)) from error
    return record


def finish(
    folder: Path,
    spec: StartSpec,
    start: Start,
    attempt: int,
    sequence: int,
    launcher: dict[str, Any],
    clock: dict[str, Any],
    image: str | None,
) -> dict[str, Any]:
    """Makes the record of an attempt whose processes have ended, and everything in its folder read-only."""
    context = {
        "attempt": attempt,
        "sequence": sequence,
        "position": start.position,
        "round": start.round,
        "order_position": start.order_position,
        "infrastructure": launcher["reason_code"] in INFRASTRUCTURE,
        "clock": clock,
        "controller": controller(),
        "image": image,
    }
    record = assemble(folder, spec, launcher, context)
    for path in folder.iterdir():
        if path.is_file():
            path.chmod(READ_ONLY)
    for path in folder.glob("*.samples"):
        path.unlink()
    return record


def interrupted(reason: str) -> dict[str, Any]:
    """The launcher's account where there was none to write it."""
    return {
        "outcome": "interrupted",
        "status": Status.CRASHED.value,
        "reason_code": "interrupted",
        "reason": reason,
        "ranks": [],
    }
