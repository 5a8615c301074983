"""One message (a name and bytes): cut into frames, and put together again exactly or lost for a stated reason."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING

from ep_worker.contract.frame import Content, Frame, Header, payload_room

if TYPE_CHECKING:
    from collections.abc import Iterable

CLOSING_NAME = ""
"""Name under which a stream's closing list travels, and its loss is reported; no other message may have it."""
MAX_MESSAGE_BYTES = 64 * 2**20

_FRAME_COST_BYTES = 256  # what remembering a frame costs beside its payload, rounded up


class LossReason(Enum):
    """Why a message is not among those recovered."""

    MISSING_FRAMES = "missing_frames"
    """Frames are missing or damaged, and no intact copy of them was found."""
    ABSENT = "absent"
    """The closing list names it, and no frame of it was found."""
    TRUNCATED = "truncated"
    """Of the closing list only: it was not found whole, so that messages nobody can name may be lost too."""
    CONFLICT = "conflict"
    """Its frames, or its frames and the closing list, speak of different contents."""
    CORRUPT = "corrupt"
    """All frames are intact and do not make what they promise: no writer of ours made them."""
    TOO_LARGE = "too_large"
    """Larger than `max_message_bytes`, or than what was left of `max_total_bytes`."""
    TOO_MANY = "too_many"
    """The first message beyond the number that a log may hold; none beyond it is kept."""


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
        """One line: which message, which frames, why."""
        what = f"message {self.name!r}" if self.name else "the closing list"
        spans = ", ".join(f"{r.start}-{r[-1]}" if len(r) > 1 else f"{r.start}" for r in self.missing_frames)
        frames = f"; frames not found intact: {spans}" if spans else ""
        damaged = f"; found damaged: {', '.join(map(str, self.damaged_frames))}" if self.damaged_frames else ""
        return f"stream {self.stream!r}: {what} is lost{frames}{damaged} [{self.reason.value}]"


@dataclass
class Reassembly:
    """A message being put together: `message` once it is proved, `failure` once it cannot be, neither before.

    Attributes:
        content: What its first frame promised.
        message: The exact bytes.
        failure: Why there will be no bytes.
        held_bytes: Memory it holds, estimated from above.
    """

    content: Content
    message: bytes | None = None
    failure: LossReason | None = None
    held_bytes: int = 0
    _payloads: dict[int, bytes] = field(default_factory=dict)
    _damaged: set[int] = field(default_factory=set)

    def take(self, header: Header, payload: bytes | None, budget_bytes: int) -> None:
        """Use one frame; `payload` is None where its text was damaged, `budget_bytes` what the message may hold."""
        if header.content != self.content:
            self.fail(LossReason.CONFLICT)
        if self.failure is not None or self.message is not None:
            return
        if header.seq in (self._damaged if payload is None else self._payloads):
            return
        self.held_bytes += _FRAME_COST_BYTES + len(payload or b"")
        if self.held_bytes > budget_bytes:
            self.fail(LossReason.TOO_LARGE)
        elif payload is None:
            self._damaged.add(header.seq)
        else:
            self._payloads[header.seq] = payload
            if len(self._payloads) == self.content.num_frames:
                self._finish(budget_bytes)

    def fail(self, reason: LossReason) -> None:
        """Give the message up and what it holds; the first reason stands."""
        self.failure = self.failure or reason
        self._payloads, self._damaged, self.message, self.held_bytes = {}, set(), None, 0

    def loss(self, stream: str, name: str) -> Lost:
        """Why there are no bytes."""
        if self.failure is not None:
            return Lost(stream, name, self.failure)
        reason = LossReason.TRUNCATED if name == CLOSING_NAME else LossReason.MISSING_FRAMES
        missing = missing_from(self._payloads, self.content.num_frames)
        return Lost(stream, name, reason, missing, tuple(sorted(self._damaged - self._payloads.keys())))

    def _finish(self, budget_bytes: int) -> None:
        packed = b"".join(payload for _, payload in sorted(self._payloads.items()))
        self._payloads, self._damaged, self.held_bytes = {}, set(), self.content.num_bytes
        if self.held_bytes > budget_bytes:
            self.fail(LossReason.TOO_LARGE)
            return
        self.message = _unpacked(packed, self.content)
        if self.message is None:
            self.fail(LossReason.CORRUPT)


def cut(stream: str, name: str, message: bytes, max_frame_chars: int) -> list[Frame]:
    """The frames of one message, at least one."""
    packed = zlib.compress(message, 9)
    step = payload_room(stream, name, len(message), max_frame_chars)
    payloads = [packed[at : at + step] for at in range(0, len(packed), step)]
    content = Content(hashlib.sha256(message).hexdigest(), len(message), len(payloads))
    return [Frame(Header(stream, name, seq, content), payload) for seq, payload in enumerate(payloads, 1)]


def missing_from(present: Iterable[int], num_frames: int) -> tuple[range, ...]:
    """The frame numbers from 1 to `num_frames` that are not present."""
    edges = [0, *sorted(present), num_frames + 1]
    return tuple(range(low + 1, high) for low, high in pairwise(edges) if high - low > 1)


def _unpacked(packed: bytes, content: Content) -> bytes | None:
    """The message, or None where it is not the one promised; stops one byte beyond the promised length."""
    unpacker = zlib.decompressobj()
    try:
        message = unpacker.decompress(packed, content.num_bytes + 1)
    except zlib.error:
        return None
    exact = len(message) == content.num_bytes and hashlib.sha256(message).hexdigest() == content.sha256
    return message if exact else None
