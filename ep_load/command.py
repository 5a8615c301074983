"""The command line.

`run` ends when its streams have, or soon after its standard input is closed. It leaves `requests.jsonl`, one line a request,
and `load.json`: the clocks at both ends, how late the loop was, and what the process was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import resource
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_load import known_delay
from ep_load.record import read_record
from ep_load.run import LATENESS_PERIOD_S, Ran, Run
from ep_load.spec import LoadSpec, loads
from ep_worker.contract.canonical import pretty_json, write_atomically
from ep_worker.processes import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Sequence

LOAD_SCHEMA = "ep-load/run/1"
EXIT_REFUSED = 2
_NICE = -10


def main(arguments: Sequence[str]) -> int:
    """Runs the command; the exit status: 2 where the specification is refused or no endpoint is there."""
    die_with_parent(os.getppid())
    parser = argparse.ArgumentParser(prog="python -m ep_load", description="Load on a serving endpoint.")
    commands = parser.add_subparsers(required=True, dest="command")
    run = commands.add_parser("run", help="run a specification; a closed standard input stops it")
    run.add_argument("spec", type=Path)
    run.add_argument("out", type=Path, help="folder for requests.jsonl and load.json")
    delay = commands.add_parser("known-delay", help="serve with known delays until standard input is closed")
    delay.add_argument("out", type=Path, help="file for what it did; <out>.port says where it serves")
    delay.add_argument("--first-ms", type=float, default=20.0, help="from a request's arrival to its first token")
    delay.add_argument("--gap-ms", type=float, default=5.0, help="between two steps")
    options = parser.parse_args(arguments)
    if options.command == "known-delay":
        asyncio.run(known_delay.serve(options.out, options.first_ms, options.gap_ms))
        return 0
    try:
        spec = loads(options.spec.read_text(encoding="ascii"))
        write_run(spec, options.out)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"ep_load: {error}\n")
        return EXIT_REFUSED
    return 0


def write_run(spec: LoadSpec, out: Path) -> None:
    """Runs a specification and writes what came of it.

    Raises:
        OSError: No endpoint is there at the beginning, or nothing can be written.
    """
    nice = _nice()
    began = _clocks()
    ran = asyncio.run(_run(spec))
    ended = _clocks()
    out.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps(read_record(sent).as_json(), separators=(",", ":")) for sent in ran.sent]
    write_atomically(out / "requests.jsonl", "".join(f"{line}\n" for line in lines))
    write_atomically(out / "load.json", pretty_json(_account(ran, began, ended, nice)))


async def _run(spec: LoadSpec) -> Ran:
    run = Run(spec)
    if any(one.num_requests is None and one.arrivals == "closed" for one in spec.streams):
        loop = asyncio.get_running_loop()
        loop.add_reader(0, lambda: _stop(run, loop))
    return await run.run()


def _stop(run: Run, loop: asyncio.AbstractEventLoop) -> None:
    if not os.read(0, 1024):
        loop.remove_reader(0)
        run.stop()


def _account(ran: Ran, began: dict[str, int], ended: dict[str, int], nice: int) -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "schema": LOAD_SCHEMA,
        "clocks": [began, ended],
        "began_ns": ran.began_ns,
        "stopped_ns": ran.stopped_ns,
        "num_requests": len(ran.sent),
        "lateness": _lateness(ran.lateness_ns),
        "cpu_s": used.ru_utime + used.ru_stime,
        "nice": nice,
        "cpus": sorted(os.sched_getaffinity(0)),
    }


def _lateness(late_ns: list[int]) -> dict[str, Any]:
    """How late the loop woke: the median, and what one waking in a hundred exceeded (nearest rank)."""
    ordered = sorted(late_ns)
    if not ordered:
        return {"num": 0, "period_s": LATENESS_PERIOD_S, "p50_ns": None, "p99_ns": None, "max_ns": None}
    p50, p99 = (ordered[max(0, math.ceil(share * len(ordered)) - 1)] for share in (0.5, 0.99))
    return {
        "num": len(ordered),
        "period_s": LATENESS_PERIOD_S,
        "p50_ns": p50,
        "p99_ns": p99,
        "max_ns": ordered[-1],
    }


def _clocks() -> dict[str, int]:
    """Both clocks at one moment: the only link between them; times of the wall clock are never subtracted."""
    return {"monotonic_ns": time.monotonic_ns(), "realtime_ns": time.time_ns()}


def _nice() -> int:
    """Goes ahead of what it measures where this user may; the niceness that it got."""
    try:
        return os.nice(_NICE)
    except OSError:
        return os.nice(0)
