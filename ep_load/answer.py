"""What a raw answer says, read after the run: status, events with the stamp of the read that completed each."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_EVENT_END = b"\n\n"


@dataclass(frozen=True)
class Chunk:
    """One event of a stream.

    Attributes:
        at_ns: When the read that completed it came.
        has_content: Whether it carries text (content, or reasoning); a role alone is none.
        num_tokens: Output tokens so far, as the server counts them; None where it does not say.
    """

    at_ns: int
    has_content: bool
    num_tokens: int | None


@dataclass(frozen=True)
class Answer:
    """An answer, read.

    Attributes:
        status: HTTP status; None where no head came.
        headers_ns: When the head was there.
        chunks: Events with choices.
        finish_reason: Why generation ended; None where no event says.
        usage: Last counts; None where none came.
        saw_done: Whether the stream ended with its mark.
        error: An error within the stream, or the body of a refusal.
        num_bytes: Bytes of all that came.
    """

    status: int | None
    headers_ns: int | None
    chunks: tuple[Chunk, ...]
    finish_reason: str | None
    usage: dict[str, Any] | None
    saw_done: bool
    error: str | None
    num_bytes: int


def read_answer(parts: Sequence[tuple[int, bytes]]) -> Answer:
    """Reads the parts of an answer, as far as they go."""
    data = b"".join(part for _, part in parts)
    head_end = data.find(b"\r\n\r\n")
    if head_end < 0:
        return Answer(None, None, (), None, None, saw_done=False, error=None, num_bytes=len(data))
    head, stamps = data[:head_end], _Stamps(parts)
    status = int(head.split(b" ", 2)[1])
    headers_ns = stamps.at(head_end + 4)
    chunked = b"transfer-encoding: chunked" in head.lower()
    body = _dechunk(data, head_end + 4) if chunked else [(data[head_end + 4 :], len(data))]
    if status != 200 or b"text/event-stream" not in head.lower():
        text = b"".join(piece for piece, _ in body).decode("utf-8", "replace")
        error = text[:500] if status != 200 else None
        return Answer(status, headers_ns, (), None, None, saw_done=False, error=error, num_bytes=len(data))
    return _read_events(_events(body, stamps), status, headers_ns, len(data))


def _read_events(events: list[tuple[int, bytes]], status: int, headers_ns: int, num_bytes: int) -> Answer:
    chunks: list[Chunk] = []
    finish, usage, error, done = None, None, None, False
    for at_ns, event in events:
        if event == b"[DONE]":
            done = True
            continue
        try:
            value = json.loads(event)
        except ValueError:
            error = error or f"an event is not JSON: {event[:200]!r}"
            continue
        if not isinstance(value, dict) or "error" in value:
            error = error or event[:500].decode("utf-8", "replace")
            continue
        usage = value.get("usage") or usage
        for choice in value.get("choices") or ():
            finish = choice.get("finish_reason") or finish
            counted = value.get("usage") or {}
            chunks.append(Chunk(at_ns, _has_content(choice), counted.get("completion_tokens")))
    return Answer(status, headers_ns, tuple(chunks), finish, usage, done, error, num_bytes)


def _has_content(choice: dict[str, Any]) -> bool:
    """Whether a choice carries a token.

    An event without text counts where it ends the answer or where it is of plain completions: a token may have no text.
    """
    delta = choice.get("delta")
    if delta is None:
        return "text" in choice
    return bool(delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning"))


class _Stamps:
    """The stamp of any byte's arrival; asked with rising positions."""

    def __init__(self, parts: Sequence[tuple[int, bytes]]) -> None:
        self._ends: list[tuple[int, int]] = []
        total = 0
        for at_ns, part in parts:
            total += len(part)
            self._ends.append((total, at_ns))
        self._index = 0

    def at(self, end: int) -> int:
        """When all bytes before `end` were there."""
        while self._ends[self._index][0] < end:
            self._index += 1
        return self._ends[self._index][1]


def _dechunk(data: bytes, start: int) -> list[tuple[bytes, int]]:
    """Chunks and the position at which each ended; one that is cut short is left out."""
    pieces = []
    while (line_end := data.find(b"\r\n", start)) >= 0:
        size = int(data[start:line_end].split(b";")[0], 16)
        end = line_end + 2 + size
        if size == 0 or end > len(data):
            break
        pieces.append((data[line_end + 2 : end], end))
        start = end + 2
    return pieces


def _events(body: list[tuple[bytes, int]], stamps: _Stamps) -> list[tuple[int, bytes]]:
    """Payloads of the server-sent events, each with the stamp of its last byte."""
    found = []
    held = b""
    for piece, end in body:
        held += piece.replace(b"\r\n", b"\n")
        while (at := held.find(_EVENT_END)) >= 0:
            event, held = held[:at], held[at + 2 :]
            # The bytes still held came after the event; their number says where in the stream it ended.
            at_ns = stamps.at(max(end - len(held), 1))
            lines = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
            if lines:
                found.append((at_ns, b"\n".join(lines)))
    return found
