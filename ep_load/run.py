"""Runs the streams of a specification in one event loop, and measures how late that loop is."""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ep_load.connection import Connection, Exchange
from ep_load.prompts import request_bytes
from ep_load.record import Sent
from ep_load.spec import Arrivals

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_load.spec import LoadSpec, Stream

LATENESS_PERIOD_S = 0.005
_NS = 1_000_000_000


@dataclass
class Ran:
    """What a run leaves.

    Attributes:
        sent: Every request, in the order in which they ended.
        lateness_ns: How late the loop woke, every few milliseconds.
        began_ns: Beginning of the streams.
        stopped_ns: When it was told to stop; None where it was not.
    """

    sent: list[Sent] = field(default_factory=list)
    lateness_ns: list[int] = field(default_factory=list)
    began_ns: int = 0
    stopped_ns: int | None = None


class Run:
    """One run."""

    def __init__(self, spec: LoadSpec) -> None:
        self._spec = spec
        self._hosts = [tuple(one.rsplit(":", 1)) for one in spec.endpoints]
        self._idle: list[list[Connection]] = [[] for _ in self._hosts]
        self._stopping = asyncio.Event()
        self.ran = Ran()

    def stop(self) -> None:
        """Lets no further request begin; those in flight are waited for."""
        if not self._stopping.is_set():
            self.ran.stopped_ns = time.monotonic_ns()
            self._stopping.set()

    async def run(self) -> Ran:
        """Runs until every stream but probes has ended."""
        await self._open_ahead()
        self.ran.began_ns = time.monotonic_ns()
        lateness = asyncio.create_task(self._watch_lateness())
        tasks = {one: asyncio.create_task(self._stream(one)) for one in self._spec.streams}
        probes = [task for one, task in tasks.items() if one.arrivals is Arrivals.PROBE]
        await asyncio.gather(*(task for one, task in tasks.items() if one.arrivals is not Arrivals.PROBE))
        self._stopping.set()
        await asyncio.gather(*probes)
        lateness.cancel()
        for idle in self._idle:
            for connection in idle:
                connection.close()
        return self.ran

    async def _open_ahead(self) -> None:
        """Opens the connections of closed streams before anything is measured."""
        for stream in self._spec.streams:
            places = [index % len(self._hosts) for index in range(stream.concurrency)]
            for place, made in zip(places, await asyncio.gather(*map(self._connect, places)), strict=True):
                self._idle[place].append(made)

    async def _connect(self, place: int) -> Connection:
        host, port = self._hosts[place]
        _, made = await asyncio.get_running_loop().create_connection(Connection, host, int(port))
        return made

    async def _watch_lateness(self) -> None:
        due = time.monotonic()
        while True:
            due += LATENESS_PERIOD_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            self.ran.lateness_ns.append(int((now - due) * _NS))
            due = max(due, now - LATENESS_PERIOD_S)

    async def _stream(self, stream: Stream) -> None:
        if stream.arrivals is Arrivals.CLOSED:
            total = None if stream.num_requests is None else stream.num_warmups + stream.num_requests
            numbers = iter(range(total)) if total is not None else itertools.count()
            await asyncio.gather(*(self._worker(stream, index, numbers) for index in range(stream.concurrency)))
        else:
            await self._scheduled(stream)

    async def _worker(self, stream: Stream, worker: int, numbers: Iterator[int]) -> None:
        for number in numbers:
            if self._stopping.is_set():
                return
            await self._request(stream, number, worker, time.monotonic_ns())

    async def _scheduled(self, stream: Stream) -> None:
        """Begins each request at its time; waits for the answers only at the end."""
        offsets = iter(stream.offsets_s)
        if stream.arrivals is Arrivals.PROBE:
            offsets = (index / stream.rate_per_s for index in itertools.count())
        began = time.monotonic()
        tasks = set()
        for number, offset in enumerate(offsets):
            if not await self._wait_until(began + offset):
                break
            task = asyncio.create_task(self._request(stream, number, None, int((began + offset) * _NS)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)

    async def _wait_until(self, due: float) -> bool:
        """Whether the time came before a stop."""
        delay = due - time.monotonic()
        if delay > 0:
            try:
                await asyncio.wait_for(self._stopping.wait(), delay)
            except TimeoutError:
                return not self._stopping.is_set()
        return not self._stopping.is_set()

    async def _request(self, stream: Stream, number: int, worker: int | None, scheduled_ns: int) -> None:
        place = (worker if worker is not None else number) % len(self._hosts)
        phase = "warmup" if number < stream.num_warmups else stream.phase
        request = request_bytes(self._spec, stream.path, self._spec.endpoints[place], stream.name, number)
        exchange, error_class, error = None, "", ""
        try:
            connection = await self._take(place)
        except OSError as failure:
            error_class, error = "connect", f"{type(failure).__name__}: {failure}"
        else:
            exchange, done = connection.send(request)
            error_class = await self._answer(done, exchange)
            if error_class or exchange.lost:
                connection.close()
            else:
                self._idle[place].append(connection)
        sent = Sent(stream.name, number, phase, place, worker, stream.path, scheduled_ns, exchange, error_class, error)
        self.ran.sent.append(sent)

    async def _take(self, place: int) -> Connection:
        idle = self._idle[place]
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return await self._connect(place)

    async def _answer(self, done: asyncio.Future[None], exchange: Exchange) -> str:
        """Waits for the answer; why it was given up, or nothing."""
        deadline = exchange.sent_ns / _NS + self._spec.request_timeout_s
        stopped = asyncio.create_task(self._stopping.wait())
        either: set[asyncio.Future[Any]] = {done, stopped}
        try:
            await asyncio.wait(either, timeout=deadline - time.monotonic(), return_when="FIRST_COMPLETED")
            if done.done():
                return ""
            if not stopped.done():
                return "timed_out"
            drained = min(deadline, time.monotonic() + self._spec.drain_s)
            await asyncio.wait({done}, timeout=max(0.0, drained - time.monotonic()))
            return "" if done.done() else "cut"
        finally:
            stopped.cancel()
