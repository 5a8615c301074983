"""One HTTP/1.1 connection that stamps what it reads before it looks at it."""

from __future__ import annotations

import asyncio
import time

_LAST_CHUNK = b"0\r\n\r\n"
_HEAD_END = b"\r\n\r\n"


class Exchange:
    """One request and the raw answer to it.

    Attributes:
        sent_ns: When it was handed to the kernel, on the monotonic clock.
        parts: What came, each read with its stamp.
        ended_ns: When the answer was whole; None where it never was.
        lost: Why the connection ended before; empty where it did not.
    """

    def __init__(self, sent_ns: int) -> None:
        self.sent_ns = sent_ns
        self.parts: list[tuple[int, bytes]] = []
        self.ended_ns: int | None = None
        self.lost = ""


class Connection(asyncio.Protocol):
    """One connection; one exchange at a time."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._exchange: Exchange | None = None
        self._done: asyncio.Future[None] | None = None
        self._tail = b""
        self._missing: int | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    @property
    def usable(self) -> bool:
        """Whether a request can be sent on it."""
        return self._transport is not None and not self._transport.is_closing() and self._exchange is None

    def send(self, request: bytes) -> tuple[Exchange, asyncio.Future[None]]:
        """Sends a request; the future is done when its answer is whole or the connection lost."""
        assert self._transport is not None
        self._tail, self._missing = b"", None
        self._done = asyncio.get_running_loop().create_future()
        self._exchange = Exchange(time.monotonic_ns())
        self._transport.write(request)
        return self._exchange, self._done

    def data_received(self, data: bytes) -> None:
        """Stamps first."""
        now_ns = time.monotonic_ns()
        exchange = self._exchange
        if exchange is None:
            return  # after an end: nothing that was asked for
        exchange.parts.append((now_ns, data))
        if self._is_whole(data):
            exchange.ended_ns = now_ns
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the exchange, saying so."""
        if self._exchange is not None:
            self._exchange.lost = f"{type(exc).__name__}: {exc}" if exc else "closed by the server"
            self._finish()

    def close(self) -> None:
        """Drops the connection, and with it the exchange."""
        self._exchange = None
        if self._transport is not None:
            self._transport.abort()

    def _finish(self) -> None:
        self._exchange = None
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    def _is_whole(self, data: bytes) -> bool:
        """Whether the answer ends here: by its length where it has one, else by its last chunk."""
        if self._missing is None:
            self._tail += data
            end = self._tail.find(_HEAD_END)
            if end < 0:
                return False
            length = _content_length(self._tail[:end])
            if length is not None:
                self._missing = length - (len(self._tail) - end - len(_HEAD_END))
                return self._missing <= 0
            self._missing = -1
            self._tail = self._tail[end + 2 :]
        elif self._missing >= 0:
            self._missing -= len(data)
            return self._missing <= 0
        else:
            self._tail += data
        # JSON escapes line ends, so that a chunk of events never holds this; the parser reads the chunks anyway.
        whole = self._tail.endswith(b"\r\n" + _LAST_CHUNK)
        self._tail = self._tail[-8:]
        return whole


def _content_length(head: bytes) -> int | None:
    for line in head.lower().split(b"\r\n")[1:]:
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return None
