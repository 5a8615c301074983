"""`python -m ep_worker run BUNDLE`: every launch of a bundle, one after another in its order, until done or out of time.

Standard library only. What has returned is never run again, so that the same command goes on where the last one stopped.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from ep_worker.contract.bundle import RETURNED, RETURNED_SCHEMA, read_manifest
from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically
from ep_worker.machine_identity import machine_identity
from ep_worker.outcome import LAUNCHER_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from ep_worker.contract.bundle import Entry

_HEADROOM = 1.3
_GRACE_S = 60.0
_KILL_AFTER_S = 20.0


def run_bundle(bundle: Path, seconds: float) -> int:
    """Runs what has not returned yet; returns how many entries are left.

    Args:
        bundle: Folder of the bundle.
        seconds: Time that this call may take [s]. No launch begins that would, at the pace of the slowest so far, not end
            in it; one that does not end in it all the same is stopped, and returns as interrupted.

    Raises:
        ValueError: The folder is no bundle.
    """
    deadline, slowest_s = time.monotonic() + seconds, 0.0
    left = [entry for entry in read_manifest(bundle).entries if not (bundle / entry.folder / RETURNED).exists()]
    while left and time.monotonic() + _HEADROOM * slowest_s < deadline:
        entry = left.pop(0)
        returned = _run(bundle, entry, deadline)
        slowest_s = max(slowest_s, returned["clock"]["seconds"])
        print(f"{entry.folder} {entry.kind} {entry.start}: {returned['ended']}, {len(left)} left", flush=True)
    return len(left)


def _run(bundle: Path, entry: Entry, deadline: float) -> dict[str, Any]:
    folder = bundle / entry.folder
    out = folder / "attempt"
    shutil.rmtree(out, ignore_errors=True)  # of a run that died with its machine, before it could say anything
    shutil.copytree(folder, out, ignore=shutil.ignore_patterns("attempt", RETURNED))
    began_utc, began = _utc_now(), time.monotonic()
    ended = _launch(bundle, out, min(deadline - began, entry.bound_s + _GRACE_S))
    seconds = round(time.monotonic() - began, 3)
    returned = {
        "schema": RETURNED_SCHEMA,
        "ended": ended,
        "machine": machine_identity(),
        "clock": {"began_utc": began_utc, "ended_utc": _utc_now(), "seconds": seconds},
        "files": {
            path.relative_to(out).as_posix(): sha256_file(path) for path in sorted(out.rglob("*")) if path.is_file()
        },
    }
    write_atomically(folder / RETURNED, pretty_json(returned))
    return returned


def _launch(bundle: Path, out: Path, bound_s: float) -> str:
    """Launches one start; `finished`, or in words why there is no account of it."""
    command = [sys.executable, "-m", "ep_worker", "launch", str(out / "spec.json"), str(out)]
    # The bundle's own worker first; backends that the caller's path names stay within reach.
    path = [str(bundle.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    with (out / "launcher.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=bundle
        )
        try:
            status = process.wait(timeout=max(bound_s, 0.0))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=_KILL_AFTER_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            return f"stopped after {bound_s:.0f} s: the time of this machine, or of this start, was over"
    if not (out / LAUNCHER_FILE).exists():
        return f"the launcher ended with status {status} and no account"
    json.loads((out / LAUNCHER_FILE).read_text(encoding="ascii"))
    return "finished"


def _utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
