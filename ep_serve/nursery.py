"""Where ranks come from: a process that has imported torch once and forks a rank for each line that it reads.

It computes nothing and starts no thread, so that a fork of it is a fresh process that only need not import torch again.
Lines in: `{"rank": rank, "delay_s": seconds}`; the rank joins after so many seconds.
Lines out: `{"started": rank, "pid": pid}`, and `{"ended": rank, "status": status}` when the process is gone.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import sys
import time
import traceback
from typing import TYPE_CHECKING

from ep_serve.rank import EXIT_FAILED, run_rank
from ep_serve.wire import Line
from ep_worker.processes import die_with_parent, print_to

if TYPE_CHECKING:
    from pathlib import Path

    from ep_serve.settings import Settings

_STDIN, _STDOUT = 0, 1


class Nursery:
    """Forks ranks and says when they end."""

    def __init__(self, settings: Settings, control: str, work: Path) -> None:
        """Forks nothing yet.

        Args:
            settings: The engine's.
            control: Address at which ranks join the front.
            work: Folder for the ranks' logs.
        """
        self._settings, self._control, self._work = settings, control, work
        self._watched = selectors.DefaultSelector()
        self._watched.register(_STDIN, selectors.EVENT_READ)
        self._ranks: dict[int, tuple[int, int]] = {}  # handle of a process: its rank and pid

    def run(self) -> int:
        """Serves until the front closes its end; the exit status."""
        gc.freeze()  # what is imported stays shared: the collector will not write to its pages
        rest = b""
        while True:
            for key, _ in self._watched.select():
                if key.fd != _STDIN:
                    self._bury(key.fd)
                    continue
                data = os.read(_STDIN, 1 << 16)
                if not data:
                    return 0
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    asked = json.loads(line)
                    self._fork(asked["rank"], asked["delay_s"])

    def _fork(self, rank: int, delay_s: float) -> None:
        own_pid = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._become(rank, delay_s, own_pid)
        handle = os.pidfd_open(pid)
        self._ranks[handle] = (rank, pid)
        self._watched.register(handle, selectors.EVENT_READ)
        _say({"started": rank, "pid": pid})

    def _become(self, rank: int, delay_s: float, parent_pid: int) -> None:
        """Runs a rank in this process, and ends with it."""
        status = EXIT_FAILED
        try:
            die_with_parent(parent_pid)
            print_to(self._work / f"rank-{rank}.log")
            time.sleep(delay_s)
            status = run_rank(self._settings, rank, Line(self._control))
        except BaseException:  # noqa: BLE001 - a forked process must not go on as its parent would
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)

    def _bury(self, handle: int) -> None:
        rank, pid = self._ranks.pop(handle)
        _, status = os.waitpid(pid, 0)
        self._watched.unregister(handle)
        os.close(handle)
        _say({"ended": rank, "status": os.waitstatus_to_exitcode(status)})


def _say(message: dict[str, int]) -> None:
    os.write(_STDOUT, json.dumps(message).encode() + b"\n")
