"""The rank processes as the front starts them, through the nursery."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ep_serve.settings import Settings

_ROOT = Path(__file__).resolve().parents[1]
_LOST = -1


class NurseryGoneError(RuntimeError):
    """No rank can be started any more."""


@dataclass
class Child:
    """One rank process.

    Attributes:
        rank: Its rank.
        pid: Its process.
        ended: Its exit status, once it is gone.
    """

    rank: int
    pid: int
    ended: asyncio.Future[int]

    @property
    def runs(self) -> bool:
        """Whether it is there."""
        return not self.ended.done()

    def kill(self) -> None:
        """Ends it at once."""
        if self.runs:
            os.kill(self.pid, signal.SIGKILL)

    async def gone(self, timeout_s: float) -> None:
        """Waits until it is gone, and ends it where it takes too long."""
        try:
            await asyncio.wait_for(asyncio.shield(self.ended), timeout_s)
        except asyncio.TimeoutError:  # noqa: UP041 - another class on Python 3.10
            self.kill()
            await self.ended


class Children:
    """Starts ranks."""

    def __init__(self, settings: Settings, work: Path, address: str) -> None:
        """Starts nothing yet.

        Args:
            settings: The engine's.
            work: Folder for logs.
            address: Where ranks join.
        """
        self._settings, self._work, self._address = settings, work, address
        self._process: asyncio.subprocess.Process | None = None
        self._starting: dict[int, asyncio.Future[Child]] = {}
        self._children: dict[int, Child] = {}
        self._listening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Starts the nursery; it is ready when it has imported torch, and lines wait until then."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # no thread before a fork
        environment["PYTHONPATH"] = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        options = ["--control", self._address, "--settings", self._settings.dumps(), "--work", str(self._work)]
        with (self._work / "nursery.log").open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ep_serve", "nursery", *options),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        self._listening = asyncio.create_task(self._listen())

    async def start(self, rank: int, delay_s: float) -> Child:
        """Starts a rank, which joins after a delay.

        Raises:
            NurseryGoneError: The nursery has ended.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        if self._listening is None or self._listening.done():
            raise NurseryGoneError(self._words)
        started: asyncio.Future[Child] = asyncio.get_running_loop().create_future()
        self._starting[rank] = started
        process.stdin.write(json.dumps({"rank": rank, "delay_s": delay_s}).encode() + b"\n")
        return await started

    async def close(self) -> None:
        """Ends the nursery; its ranks should be gone, and those that are not end with it."""
        process = self._process
        if process is not None and process.stdin is not None:
            process.stdin.close()
            await process.wait()

    @property
    def _words(self) -> str:
        return f"the process that starts ranks has ended: see {self._work / 'nursery.log'}"

    async def _listen(self) -> None:
        """Notes what starts and what ends; with the nursery, everything ends."""
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            said = json.loads(line)
            if "started" in said:
                rank = said["started"]
                child = Child(rank, said["pid"], asyncio.get_running_loop().create_future())
                self._children[rank] = child
                self._starting.pop(rank).set_result(child)
            else:
                self._children.pop(said["ended"]).ended.set_result(said["status"])
        for child in self._children.values():
            child.ended.set_result(_LOST)
        for started in self._starting.values():
            started.set_exception(NurseryGoneError(self._words))
