"""The front: one process without torch that serves HTTP, drives the ranks, and says in files what is there."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import sys
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from ep_serve import fleet as fleets
from ep_serve.access_log import AccessLog
from ep_serve.api import Api
from ep_serve.fleet import Fleet, start_ticks
from ep_serve.metrics import Metrics
from ep_serve.observation import Observation
from ep_serve.resize import Resizer
from ep_serve.settings import Fault, Settings
from ep_serve.stepper import Stepper
from ep_serve.web import MAX_HEAD_BYTES, serve_connection
from ep_worker.contract.canonical import pretty_json, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "ep-serve/engine/1"
HOST = "127.0.0.1"
EXIT_FAILED = 1


class Front:
    """One engine."""

    def __init__(self, settings: Settings, work: Path) -> None:
        """Starts nothing yet.

        Args:
            settings: The engine's.
            work: Folder for everything that it writes.
        """
        self._settings, self._work = settings, work
        self._uid = str(uuid.uuid4())
        self._ticks = start_ticks(os.getpid())
        self.observation = Observation(
            work / "observation.json",
            self._uid,
            f"{os.getpid()}-{self._ticks}",
            renamed=Fault.RENAMED_FIELD in settings.faults,
        )
        metrics = Metrics()
        self.fleet = Fleet(settings, work, self._uid, on_change=self._note_ranks)
        self.stepper = Stepper(settings, self.fleet, metrics)
        meeting = work.resolve() / f"group-{self._uid[:8]}"
        self.resizer = Resizer(settings, self.fleet, self.stepper, self.observation, str(meeting), self._note_resize)
        self._log = AccessLog(work / "access.jsonl")
        self._api = Api(settings, self.fleet, self.stepper, self.resizer, metrics, self._log)

    async def run(self, listener: socket.socket) -> int:
        """Serves until somebody says stop; the exit status.

        Args:
            listener: Bound, and not listened to before the engine can serve.
        """
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        if await self._begin(stop):
            await self._serve(listener, stop)
            return 0
        return 0 if stop.is_set() else EXIT_FAILED

    async def _begin(self, stop: asyncio.Event) -> bool:
        """Brings the engine up; False where it cannot, or where somebody says stop first: then nothing is left."""
        stopping = asyncio.create_task(stop.wait())
        await self.fleet.open()
        beginning = asyncio.create_task(self.resizer.begin())
        await asyncio.wait([beginning, stopping], return_when=asyncio.FIRST_COMPLETED)
        if beginning.done() and beginning.exception() is None:
            return True
        if not beginning.cancel():
            sys.stderr.write(f"ep_serve: the engine did not start: {beginning.exception()}\n")
        await self.fleet.close()
        return False

    async def _serve(self, listener: socket.socket, stop: asyncio.Event) -> None:
        stepping = asyncio.create_task(self.stepper.run())
        server = await asyncio.start_server(
            partial(serve_connection, handle=self._api.handle), sock=listener, limit=MAX_HEAD_BYTES, backlog=1024
        )
        bound = listener.getsockname()[1]
        write_atomically(self._work / "engine.json", pretty_json(self._describe(bound)))
        sys.stderr.write(f"ep_serve: serving {self._settings.model_name} on http://{HOST}:{bound}\n")
        await stop.wait()
        server.close()
        stepping.cancel()
        await self.fleet.close()
        self._log.close()

    def _describe(self, port: int) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "deployment_uid": self._uid,
            "pid": os.getpid(),
            "start_ticks": self._ticks,
            "host": HOST,
            "port": port,
            "model": self._settings.model_name,
        }

    def _note_resize(self, stamps: dict[str, Any]) -> None:
        """Says when each part of a resize came, one line a resize."""
        with (self._work / "resizes.jsonl").open("a", encoding="ascii") as stream:
            stream.write(json.dumps(stamps, sort_keys=True) + "\n")

    def _note_ranks(self) -> None:
        """Says which processes are there."""
        members = self.fleet.members
        self.observation.update(allocated=self.fleet.num_started, joined=len(members))
        document = {"deployment_uid": self._uid, "ranks": fleets.as_json(members.values())}
        write_atomically(self._work / "ranks.json", pretty_json(document))


def serve(settings: Settings, work: Path, port: int) -> int:
    """Serves until a signal; the exit status.

    Raises:
        OSError: The folder cannot be written, holds what another engine wrote, or the port is taken; nothing was started.
    """
    # Named as TCP: asyncio turns off the delay of small writes (TCP_NODELAY) only on sockets that say so.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        work.mkdir(parents=True, exist_ok=True)
        if (work / "settings.json").exists():
            raise FileExistsError(errno.EEXIST, "another engine wrote here; give each its own folder", str(work))
        write_atomically(work / "settings.json", settings.dumps() + "\n")
        status = asyncio.run(Front(settings, work).run(listener))
    for left in work.glob("group-*.store"):
        left.unlink()
    return status
