"""HTTP/1.1 by hand: what an inference server needs of it, and nothing else."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MAX_HEAD_BYTES = 64 << 10
MAX_BODY_BYTES = 16 << 20
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True)
class Call:
    """One request as it was read.

    Attributes:
        method: GET or POST.
        path: Without the query.
        headers: Names in lower case.
        body: Bytes.
        arrived_ns: When all of it was there, on the monotonic clock.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    arrived_ns: int


class BadRequestError(Exception):
    """What was read is no request that can be answered; carries the status to say."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Reply:
    """The answer to one call.

    Attributes:
        status: Status that was sent; None before.
        before_end: Called once, before the client can know that the answer is whole.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.status: int | None = None
        self.before_end: Callable[[], None] | None = None
        self._reader, self._writer = reader, writer

    @property
    def abandoned(self) -> bool:
        """Whether the client has gone."""
        return self._writer.transport.is_closing() or self._reader.at_eof()

    async def send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        """Sends a whole answer."""
        self.status = status
        self.end()
        self._writer.write(_head(status, kind, f"content-length: {len(body)}") + body)
        await self._writer.drain()

    async def send_json(self, status: int, value: Any) -> None:
        """Sends a JSON value."""
        await self.send(status, json.dumps(value, separators=(",", ":")).encode())

    def begin_events(self) -> None:
        """Begins a stream of server-sent events."""
        self.status = 200
        self._writer.write(_head(200, "text/event-stream; charset=utf-8", "transfer-encoding: chunked"))

    async def event(self, data: bytes) -> None:
        """Sends one event, at once."""
        self._writer.write(b"%x\r\ndata: %s\n\n\r\n" % (len(data) + 8, data))
        await self._writer.drain()

    def end(self) -> None:
        """Calls what wants to be called before the end; where the client has gone, this is the end."""
        if self.before_end is not None:
            call, self.before_end = self.before_end, None
            call()

    async def end_events(self) -> None:
        """Ends the stream."""
        self.end()
        self._writer.write(b"0\r\n\r\n")
        await self._writer.drain()


async def serve_connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handle: Callable[[Call, Reply], Awaitable[None]]
) -> None:
    """Answers the calls of one connection, one after the other, until the client goes."""
    try:
        while (call := await read_call(reader)) is not None:
            await handle(call, Reply(reader, writer))
            if call.headers.get("connection", "").lower() == "close":
                break
    except BadRequestError as error:
        await Reply(reader, writer).send_json(error.status, {"error": str(error)})
    except (ConnectionError, asyncio.IncompleteReadError):
        pass  # the client has gone: there is nobody to tell
    finally:
        writer.close()


async def read_call(reader: asyncio.StreamReader) -> Call | None:
    """The next call of a connection; None where the client has closed it.

    Raises:
        BadRequestError: It cannot be read.
        asyncio.IncompleteReadError: The connection ended in the middle of it.
    """
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    except asyncio.LimitOverrunError:
        raise BadRequestError(413, f"the head is above {MAX_HEAD_BYTES} bytes") from None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    words = first.split(" ")
    if len(words) != 3:
        raise BadRequestError(400, f"found {first[:80]!r}, expected a method, a path and a version")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "transfer-encoding" in headers:
        raise BadRequestError(400, "a body must come with its length, not in chunks")
    length = headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > MAX_BODY_BYTES:
        raise BadRequestError(413, f"content-length is {length[:40]!r}, expected a number up to {MAX_BODY_BYTES}")
    body = await reader.readexactly(int(length))
    return Call(words[0], words[1].partition("?")[0], headers, body, time.monotonic_ns())


def _head(status: int, kind: str, length: str) -> bytes:
    return f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: {kind}\r\n{length}\r\n\r\n".encode()
