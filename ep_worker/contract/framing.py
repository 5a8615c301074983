"""Messages (a name and bytes: the files of a start) through a log that other programs write to as well.

A message is compressed and cut into frames (`frame.py`). The last message of a stream is its closing list: the name,
digest and length of every message. A reader therefore has, for each message, its exact bytes or a stated loss; also for
a message of which no frame arrived, and for a log that ends early.

A stream is one writer's one attempt. Its id must hold a token of the attempt (`<start>/attempt-2/pod-0`), so that what
an older attempt left in the same log is told apart. Where several processes write one pipe, set `max_frame_chars` to
4,096 or less including the line end (`PIPE_BUF`): longer writes are not atomic, and frames would cut one another.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
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

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

CLOSING_NAME = ""
"""Name under which a stream's closing list travels, and its loss is reported; no message may have it."""
DEFAULT_FRAME_CHARS = 12 * 1024
MAX_MESSAGE_BYTES = 64 * 2**20
MAX_TOTAL_BYTES = 256 * 2**20
MAX_MESSAGES = 4096
"""Most messages, over all streams, of one log."""

_MIN_PAYLOAD_BYTES = 192  # less a frame, and the frames would be mostly heads
_FRAME_COST_BYTES = 256  # what remembering a frame costs beside its payload, rounded up
_CLOSING_LINE = re.compile(r"([0-9a-f]{64}) (\d{1,15}) (\d{1,7}) ([\w.~%-]{1,255})", re.ASCII)


class LossReason(Enum):
    """Why a message is not among those recovered."""

    MISSING_FRAMES = "missing_frames"
    """Frames are missing or damaged, and no intact copy of them was found."""
    ABSENT = "absent"
    """The closing list names it, and no frame of it was found."""
    TRUNCATED = "truncated"
    """Of the closing list only: not found, so that messages nobody can name may be lost too."""
    CONFLICT = "conflict"
    """Its frames, or its frames and the closing list, speak of different contents."""
    CORRUPT = "corrupt"
    """All frames are intact and do not make the bytes they promise: not what `encode` wrote."""
    TOO_LARGE = "too_large"
    """Larger than `max_message_bytes`, or than what was left of `max_total_bytes`."""
    TOO_MANY = "too_many"
    """The first message beyond `MAX_MESSAGES`; none beyond it is kept."""


@dataclass(frozen=True)
class Lost:
    """One message that a log held, or should have held, and that could not be recovered.

    Attributes:
        stream: Stream id.
        name: Message name, or `CLOSING_NAME` for the closing list.
        reason: Why.
        missing_frames: Frame numbers (from 1) of which no intact copy was found, as ranges; empty where their number is
            not known or not the reason.
        damaged_frames: Those of them of which a damaged copy was found.
    """

    stream: str
    name: str
    reason: LossReason
    missing_frames: tuple[range, ...] = ()
    damaged_frames: tuple[int, ...] = ()

    def __str__(self) -> str:
        """One line: which message, why, which frames."""
        what = f"message {self.name!r}" if self.name else "the closing list"
        spans = ", ".join(f"{r.start}-{r[-1]}" if len(r) > 1 else f"{r.start}" for r in self.missing_frames)
        frames = f"; frames not found intact: {spans}" if spans else ""
        damaged = f"; found damaged: {', '.join(map(str, self.damaged_frames))}" if self.damaged_frames else ""
        return f"stream {self.stream!r}: {what} is lost{frames}{damaged} [{self.reason.value}]"


@dataclass(frozen=True)
class Decoded:
    """What a log held.

    Attributes:
        messages: Exact bytes by (stream, name).
        lost: Everything else, sorted by stream and name; empty means that every stream is complete.
        damage: How many frames, or pieces that look like frames, were unusable; harmless where nothing is lost.
    """

    messages: dict[tuple[str, str], bytes]
    lost: tuple[Lost, ...]
    damage: dict[DamageKind, int]


def encode(
    messages: Mapping[str, bytes], stream: str, *, copies: int = 1, max_frame_chars: int = DEFAULT_FRAME_CHARS
) -> Iterator[str]:
    """Write messages, by name, and their closing list as lines without line ends.

    Args:
        messages: Bytes by name.
        stream: Id of this writer and attempt.
        copies: How often the whole is written. A second copy starts after the end of the first, so that one
            disturbance of the log cannot hit both copies of a frame.
        max_frame_chars: Longest line (ASCII, so also bytes).

    Raises:
        ValueError: At once, with every argument that is out of its bounds.
    """
    problems = [] if copies >= 1 else [f"copies is {copies}, must be at least 1"]
    if max_frame_chars > MAX_FRAME_CHARS:
        problems.append(f"max_frame_chars is {max_frame_chars}, must be at most {MAX_FRAME_CHARS}")
    if len(messages) >= MAX_MESSAGES:
        problems.append(f"{len(messages)} messages, must be fewer than {MAX_MESSAGES}: put files together")
    problems += [
        f"{what} {label!r} must have 1 to {MAX_LABEL_CHARS} characters once percent-encoded"
        for what, label in [("stream", stream), *(("message name", name) for name in messages)]
        if not 1 <= len(quoted(label)) <= MAX_LABEL_CHARS
    ]
    for name, content in messages.items():
        if len(content) > MAX_MESSAGE_BYTES:
            problems.append(f"message {name!r} has {len(content)} bytes, must have at most {MAX_MESSAGE_BYTES}")
    for name in (*messages, CLOSING_NAME):
        if payload_room(stream, name, MAX_MESSAGE_BYTES, max_frame_chars) < _MIN_PAYLOAD_BYTES:
            problems.append(f"max_frame_chars {max_frame_chars} leaves too little room beside the name {name!r}")
    if problems:
        raise ValueError("; ".join(problems))
    return _write(messages, stream, copies, max_frame_chars)


def _write(messages: Mapping[str, bytes], stream: str, copies: int, max_frame_chars: int) -> Iterator[str]:
    for _ in range(copies):
        closing: list[str] = []
        for name in sorted(messages):
            frames = _cut(stream, name, messages[name], max_frame_chars)
            content = frames[0].header.content
            closing.append(f"{content.sha256} {content.num_bytes} {content.num_frames} {quoted(name)}")
            yield from map(render, frames)
        yield from map(render, _cut(stream, CLOSING_NAME, "\n".join(closing).encode(), max_frame_chars))


def _cut(stream: str, name: str, message: bytes, max_frame_chars: int) -> list[Frame]:
    """The frames of one message, at least one."""
    packed = zlib.compress(message, 9)
    step = payload_room(stream, name, MAX_MESSAGE_BYTES, max_frame_chars)
    payloads = [packed[at : at + step] for at in range(0, len(packed), step)]
    content = Content(hashlib.sha256(message).hexdigest(), len(message), len(payloads))
    return [Frame(Header(stream, name, seq, content), payload) for seq, payload in enumerate(payloads, 1)]


def decode(
    log: str | Iterable[str],
    *,
    expected_streams: Collection[str] = (),
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
) -> Decoded:
    """Read every stream of a log; no log, however broken or hostile, makes it raise.

    Args:
        log: The text, or its lines or blocks, read once. Open files with `errors="replace"`.
        expected_streams: Streams that must be there: one without a single frame is then reported as truncated.
        max_message_bytes: A message that says it is larger is not read.
        max_total_bytes: Bytes kept for all messages together, complete or not; memory is a small multiple of it.
    """
    reader = _Reader(max_message_bytes, max_total_bytes)
    for found in scan(log):
        reader.take(found)
    return reader.result(expected_streams)


@dataclass
class _Assembly:
    """A message being put together; its state is `message`, `failure`, or neither yet."""

    content: Content
    payloads: dict[int, bytes] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)
    message: bytes | None = None
    failure: LossReason | None = None
    held_bytes: int = 0

    def loss(self, stream: str, name: str) -> Lost:
        """Why this message cannot be given."""
        if self.failure is not None:
            return Lost(stream, name, self.failure)
        reason = LossReason.MISSING_FRAMES if name != CLOSING_NAME else LossReason.TRUNCATED
        missing = _gaps(self.payloads, self.content.num_frames)
        return Lost(stream, name, reason, missing, tuple(sorted(self.damaged - self.payloads.keys())))


class _Reader:
    """Everything found so far in one log, within the bounds of `decode`."""

    def __init__(self, max_message_bytes: int, max_total_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self._free_bytes = max_total_bytes
        self._streams: dict[str, dict[str, _Assembly]] = {}
        self._num_messages = 0
        self._overflow: list[Lost] = []
        self._damage: Counter[DamageKind] = Counter()

    def take(self, found: Frame | Damage) -> None:
        """Use one frame, or note one damage."""
        if isinstance(found, Damage):
            self._damage[found.kind] += 1
        assembly = self._assembly_of(found.header) if found.header else None
        if found.header is None or assembly is None:
            return
        if found.header.content != assembly.content:
            self._fail(assembly, LossReason.CONFLICT)
        if assembly.failure is not None or assembly.message is not None:
            return
        seq = found.header.seq
        if isinstance(found, Damage):
            if seq not in assembly.damaged and self._hold(assembly, _FRAME_COST_BYTES):
                assembly.damaged.add(seq)
        elif seq not in assembly.payloads and self._hold(assembly, len(found.payload) + _FRAME_COST_BYTES):
            assembly.payloads[seq] = found.payload
            if len(assembly.payloads) == assembly.content.num_frames:
                self._finish(assembly)

    def _assembly_of(self, header: Header) -> _Assembly | None:
        known = self._streams.get(header.stream, {}).get(header.name)
        if known is not None:
            return known
        if self._num_messages >= MAX_MESSAGES:
            self._overflow = self._overflow or [Lost(header.stream, header.name, LossReason.TOO_MANY)]
            return None
        self._num_messages += 1
        assembly = _Assembly(header.content)
        self._streams.setdefault(header.stream, {})[header.name] = assembly
        if header.content.num_bytes > self._max_message_bytes:
            self._fail(assembly, LossReason.TOO_LARGE)
        return assembly

    def _hold(self, assembly: _Assembly, num_bytes: int) -> bool:
        """Set bytes aside for a message; where they are not left, the message is given up."""
        if num_bytes > self._free_bytes:
            self._fail(assembly, LossReason.TOO_LARGE)
            return False
        self._free_bytes -= num_bytes
        assembly.held_bytes += num_bytes
        return True

    def _release(self, assembly: _Assembly) -> None:
        self._free_bytes += assembly.held_bytes
        assembly.held_bytes = 0
        assembly.payloads, assembly.damaged, assembly.message = {}, set(), None

    def _fail(self, assembly: _Assembly, reason: LossReason) -> None:
        self._release(assembly)
        assembly.failure = assembly.failure or reason

    def _finish(self, assembly: _Assembly) -> None:
        packed = b"".join(payload for _, payload in sorted(assembly.payloads.items()))
        self._release(assembly)
        if self._hold(assembly, assembly.content.num_bytes):
            assembly.message = _unpacked(packed, assembly.content)
            if assembly.message is None:
                self._fail(assembly, LossReason.CORRUPT)

    def result(self, expected_streams: Collection[str]) -> Decoded:
        """Hold every stream against its closing list."""
        messages: dict[tuple[str, str], bytes] = {}
        lost: list[Lost] = list(self._overflow)
        for stream in {*expected_streams, *self._streams}:
            found = self._streams.get(stream, {})
            closing = found.pop(CLOSING_NAME, None)
            announced = None
            if closing is None:
                lost.append(Lost(stream, CLOSING_NAME, LossReason.TRUNCATED))
            elif closing.message is None:
                lost.append(closing.loss(stream, CLOSING_NAME))
            else:
                announced = _announced(closing.message)
                if announced is None:
                    lost.append(Lost(stream, CLOSING_NAME, LossReason.CORRUPT))
            for name, content in (announced or {}).items():
                if name not in found:
                    lost.append(Lost(stream, name, LossReason.ABSENT, _gaps((), content.num_frames)))
            for name, assembly in found.items():
                if announced is not None and announced.get(name) != assembly.content:
                    lost.append(Lost(stream, name, LossReason.CONFLICT))
                elif assembly.message is None:
                    lost.append(assembly.loss(stream, name))
                else:
                    messages[stream, name] = assembly.message
        ordered = sorted(lost, key=lambda loss: (loss.stream, loss.name))
        return Decoded(dict(sorted(messages.items())), tuple(ordered), dict(self._damage))


def _announced(closing: bytes) -> dict[str, Content] | None:
    """Contents by name from a closing list, or None where it is not one."""
    announced: dict[str, Content] = {}
    lines = closing.decode("ascii", "replace").splitlines()
    for line in lines[: MAX_MESSAGES + 1]:
        match = _CLOSING_LINE.fullmatch(line)
        if match is None:
            return None
        sha256, num_bytes, num_frames, label = match.groups()
        try:
            announced[unquoted(label)] = Content(sha256, int(num_bytes), int(num_frames))
        except ValueError:
            return None
    return announced if len(announced) == len(lines) else None


def _unpacked(packed: bytes, content: Content) -> bytes | None:
    """The message, never more than one byte beyond its stated length, or None where it is not the one promised."""
    unpacker = zlib.decompressobj()
    try:
        message = unpacker.decompress(packed, content.num_bytes + 1)
    except zlib.error:
        return None
    whole = unpacker.eof and not unpacker.unused_data and len(message) == content.num_bytes
    return message if whole and hashlib.sha256(message).hexdigest() == content.sha256 else None


def _gaps(present: Iterable[int], num_frames: int) -> tuple[range, ...]:
    """The frame numbers from 1 to `num_frames` that are not present."""
    edges = [0, *sorted(present), num_frames + 1]
    return tuple(range(low + 1, high) for low, high in pairwise(edges) if high - low > 1)
