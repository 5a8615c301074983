"""A server whose delays are known: what a client says of it, less what it did, is the client's own error.

Every step sends one token to each request whose first delay has passed, as an engine that batches does, and each write is
stamped. A client's requests are joined by the id in their header.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import TYPE_CHECKING

from ep_worker.contract.canonical import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

_NS = 1_000_000_000


class _Active:
    """A request that gets tokens."""

    def __init__(self, transport: asyncio.Transport, request_id: str, num_tokens: int) -> None:
        self.transport, self.id, self.num_tokens = transport, request_id, num_tokens
        self.arrived_ns = time.monotonic_ns()
        self.written_ns: list[int] = []


class _Connection(asyncio.Protocol):
    def __init__(self, active: list[_Active]) -> None:
        self._active = active
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            lines = self._held[:end].decode("latin-1").split("\r\n")[1:]
            headers = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
            whole = end + 4 + int(headers["content-length"])
            if len(self._held) < whole:
                return
            body = json.loads(self._held[end + 4 : whole])
            self._held = self._held[whole:]
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            self._active.append(_Active(self._transport, headers["x-request-id"], int(body["max_tokens"])))


async def serve(out: Path, first_ms: float, gap_ms: float) -> None:
    """Serves until standard input is closed, then writes what it did: one line a request."""
    loop = asyncio.get_running_loop()
    active: list[_Active] = []
    done: list[_Active] = []
    server = await loop.create_server(lambda: _Connection(active), "127.0.0.1", 0, backlog=512)
    write_atomically(out.with_name(f"{out.name}.port"), str(server.sockets[0].getsockname()[1]))
    stop = asyncio.Event()
    loop.add_reader(0, lambda: stop.set() if not os.read(0, 1024) else None)
    due = time.monotonic()
    while not stop.is_set():
        due = max(due + gap_ms / 1e3, time.monotonic())
        await asyncio.sleep(due - time.monotonic())
        _step(active, done, int(first_ms * 1e6))
    server.close()
    lines = [
        json.dumps({"id": one.id, "arrived_ns": one.arrived_ns, "written_ns": one.written_ns}, separators=(",", ":"))
        for one in done
    ]
    write_atomically(out, "".join(f"{line}\n" for line in lines))


def _step(active: list[_Active], done: list[_Active], first_ns: int) -> None:
    now_ns = time.monotonic_ns()
    for one in [one for one in active if now_ns >= one.arrived_ns + first_ns]:
        one.written_ns.append(time.monotonic_ns())
        last = len(one.written_ns) == one.num_tokens
        one.transport.write(_chunk(_event(one, last=last)))
        if last:
            one.transport.write(_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            active.remove(one)
            done.append(one)


def _event(one: _Active, *, last: bool) -> bytes:
    choice = {"index": 0, "text": " t", "finish_reason": "length" if last else None}
    num_made = len(one.written_ns)
    value = {"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": num_made}}
    return b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)
