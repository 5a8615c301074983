"""Messages (the files of a start) through a log that other programs write to as well.

A message is compressed and cut into frames (`frame.py`), one a line. The last message of a stream is its closing list:
name, digest and length of every message. A reader therefore has, for each message, its exact bytes or a stated loss;
also for a message of which no frame arrived, and for a log that ends early.

A stream is what one writer writes in one attempt. Its id must hold a token of the attempt (`<start>/attempt-2/pod-0`),
so that what an older attempt left in the same log is told apart.

Write each line, with its line end, by one `os.write`: a buffered stream cuts lines anywhere. Where several processes
write to one pipe, a line and its end must not exceed 4,096 bytes (`PIPE_BUF`, see pipe(7)): longer writes are not
atomic, and frames of several writers cut one another.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ep_worker.contract.frame import (
    MAX_FRAME_CHARS,
    MAX_LABEL_CHARS,
    Content,
    Damage,
    DamageKind,
    Frame,
    Header,
    payload_room,
    quoted,
    render,
    scan,
    unquoted,
)
from ep_worker.contract.message import (
    CLOSING_NAME,
    MAX_MESSAGE_BYTES,
    LossReason,
    Lost,
    Reassembly,
    cut,
    missing_from,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

__all__ = ["CLOSING_NAME", "MAX_MESSAGE_BYTES", "DamageKind", "Decoded", "LossReason", "Lost", "decode", "encode"]

DEFAULT_FRAME_CHARS = 12 * 1024
MAX_TOTAL_BYTES = 256 * 2**20
MAX_MESSAGES = 4096
"""Most messages of one log, closing lists and all streams included."""

_MIN_PAYLOAD_BYTES = 192  # with less a frame, a log would be mostly heads
_CLOSING_LINE = re.compile(r"([0-9a-f]{64}) (\d{1,15}) (\d{1,7}) ([\w.~%-]{1,255})", re.ASCII)


@dataclass(frozen=True)
class Decoded:
    """What a log held.

    Attributes:
        messages: Exact bytes by (stream, name).
        lost: Everything else, sorted by stream and name; empty only where every stream is complete.
        damage: How many frames, or pieces that look like frames, were unusable; harmless where nothing is lost.
    """

    messages: dict[tuple[str, str], bytes]
    lost: tuple[Lost, ...]
    damage: dict[DamageKind, int]


def encode(
    messages: Mapping[str, bytes], stream: str, *, copies: int = 1, max_frame_chars: int = DEFAULT_FRAME_CHARS
) -> Iterator[str]:
    """Write messages and their closing list as lines without line ends.

    Args:
        messages: Bytes by name.
        stream: Id of this writer and attempt.
        copies: How often the whole is written. A second copy starts after the end of the first, so that one
            disturbance of the log does not hit both copies of a frame.
        max_frame_chars: Longest line, in ASCII characters.

    Raises:
        ValueError: At once, with every argument that is out of its bounds.
    """
    problems = _problems(messages, stream, copies, max_frame_chars)
    if problems:
        raise ValueError("; ".join(problems))
    return _lines(messages, stream, copies, max_frame_chars)


def _problems(messages: Mapping[str, bytes], stream: str, copies: int, max_frame_chars: int) -> list[str]:
    problems = [] if copies >= 1 else [f"copies is {copies}, must be at least 1"]
    if max_frame_chars > MAX_FRAME_CHARS:
        problems.append(f"max_frame_chars is {max_frame_chars}, must be at most {MAX_FRAME_CHARS}")
    if len(messages) >= MAX_MESSAGES:
        problems.append(f"{len(messages)} messages, must be fewer than {MAX_MESSAGES}: join files")
    for what, label in [("stream", stream), *(("message name", name) for name in messages)]:
        if not 1 <= len(quoted(label)) <= MAX_LABEL_CHARS:
            problems.append(f"{what} {label!r} must have 1 to {MAX_LABEL_CHARS} characters, percent-encoded")
    for name, message in {**messages, CLOSING_NAME: b""}.items():
        if len(message) > MAX_MESSAGE_BYTES:
            problems.append(f"message {name!r} has {len(message)} bytes, must have at most {MAX_MESSAGE_BYTES}")
        if payload_room(stream, name, MAX_MESSAGE_BYTES, max_frame_chars) < _MIN_PAYLOAD_BYTES:
            problems.append(f"max_frame_chars is {max_frame_chars}, too few for stream {stream!r}, name {name!r}")
    return problems


def _lines(messages: Mapping[str, bytes], stream: str, copies: int, max_frame_chars: int) -> Iterator[str]:
    for _ in range(copies):
        announced: dict[str, Content] = {}
        for name in sorted(messages):
            frames = cut(stream, name, messages[name], max_frame_chars)
            announced[name] = frames[0].header.content
            yield from map(render, frames)
        yield from map(render, cut(stream, CLOSING_NAME, _closing_list(announced), max_frame_chars))


def decode(
    log: str | Iterable[str],
    *,
    expected_streams: Collection[str] = (),
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> Decoded:
    """Read every stream of a log; no text, however broken or hostile, makes it raise.

    Args:
        log: The text, or its lines or blocks, read once. Open files with `errors="replace"`.
        expected_streams: Streams that must be there: one without a single frame is reported as truncated.
        max_message_bytes: A message that says it is larger is not kept.
        max_total_bytes: Kept for all messages together, whole or not; memory is a small multiple of it.
    """
    reader = _Reader(max_message_bytes, max_total_bytes)
    for found in scan(log):
        reader.take(found)
    return reader.result(expected_streams)


class _Reader:
    """Everything found so far in one log, within the bounds of `decode`."""

    def __init__(self, max_message_bytes: int, max_total_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._free_bytes = max_total_bytes
        self._num_messages = 0
        self._streams: dict[str, dict[str, Reassembly]] = {}
        self._lost: list[Lost] = []
        self._damage: Counter[DamageKind] = Counter()

    def take(self, found: Frame | Damage) -> None:
        """Use one frame, or count one damage."""
        if isinstance(found, Damage):
            self._damage[found.kind] += 1
        if found.header is None:
            return
        reassembly = self._reassembly(found.header)
        if reassembly is not None:
            budget_bytes = self._free_bytes + reassembly.held_bytes
            reassembly.take(found.header, found.payload if isinstance(found, Frame) else None, budget_bytes)
            self._free_bytes = budget_bytes - reassembly.held_bytes

    def _reassembly(self, header: Header) -> Reassembly | None:
        known = self._streams.get(header.stream, {}).get(header.name)
        if known is not None:
            return known
        self._num_messages += 1
        if self._num_messages > MAX_MESSAGES:
            if self._num_messages == MAX_MESSAGES + 1:
                self._lost.append(Lost(header.stream, header.name, LossReason.TOO_MANY))
            return None
        reassembly = self._streams.setdefault(header.stream, {})[header.name] = Reassembly(header.content)
        if header.content.num_bytes > self._max_message_bytes:
            reassembly.fail(LossReason.TOO_LARGE)
        return reassembly

    def result(self, expected_streams: Collection[str]) -> Decoded:
        """Hold every stream against its closing list."""
        messages: dict[tuple[str, str], bytes] = {}
        for stream in {*expected_streams, *self._streams}:
            found = self._streams.get(stream, {})
            announced = self._announced(stream, found.pop(CLOSING_NAME, None))
            for name, content in (announced or {}).items():
                if name not in found:
                    missing = missing_from((), content.num_frames)
                    self._lost.append(Lost(stream, name, LossReason.ABSENT, missing))
            for name, reassembly in found.items():
                if announced is not None and announced.get(name) != reassembly.content:
                    reassembly.fail(LossReason.CONFLICT)
                if reassembly.message is None:
                    self._lost.append(reassembly.loss(stream, name))
                else:
                    messages[stream, name] = reassembly.message
        lost = sorted(self._lost, key=lambda one: (one.stream, one.name))
        return Decoded(dict(sorted(messages.items())), tuple(lost), dict(self._damage))

    def _announced(self, stream: str, closing: Reassembly | None) -> dict[str, Content] | None:
        """Contents by name from a stream's closing list; None, and the list reported lost, where it cannot be had."""
        if closing is None:
            self._lost.append(Lost(stream, CLOSING_NAME, LossReason.TRUNCATED))
            return None
        announced = None if closing.message is None else _read_closing_list(closing.message)
        if announced is None:
            if closing.message is not None:
                closing.fail(LossReason.CORRUPT)
            self._lost.append(closing.loss(stream, CLOSING_NAME))
        return announced


def _closing_list(announced: Mapping[str, Content]) -> bytes:
    rows = [f"{c.sha256} {c.num_bytes} {c.num_frames} {quoted(name)}" for name, c in announced.items()]
    return "\n".join(rows).encode("ascii")


def _read_closing_list(message: bytes) -> dict[str, Content] | None:
    """The inverse of `_closing_list`, or None where it is none."""
    rows = message.decode("ascii", "replace").splitlines()
    matches = [_CLOSING_LINE.fullmatch(row) for row in rows[:MAX_MESSAGES]]
    try:
        announced = {unquoted(m[4]): Content(m[1], int(m[2]), int(m[3])) for m in matches if m is not None}
    except ValueError:
        return None
    return announced if len(announced) == len(rows) else None
