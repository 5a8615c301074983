"""One frame: the piece of a message that travels in one line of a container's log.

    @EPF[1;stream;name;seq;num_frames;num_bytes;sha256;text digest;head digest;BASE64 TEXT]EPF!

The head (all up to and including the text digest) is proved by the head digest, the text by the text digest, so a frame
whose text was hit still says exactly which frame of which message it was. What a frame has to withstand, and how:

- Text spliced before, after or between frames: begin and end marks that cannot overlap one another, and that no field
  can contain (names are percent-encoded; the text is base64).
- Lines split or joined anywhere: no field contains a line end, so line ends, and the prefix that a container runtime
  puts before a line, are dropped before anything is looked for.
- Text spliced inside a frame: the digests fail. A whole frame inside another one is cut out and both are recovered.

Base64 and not base85: 6.7 % more text, but its letters need no escape in JSON, shells, HTML or terminals, which every
alphabet of 85 signs does, and it leaves the signs of the marks free.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION = 1
BEGIN = "@EPF["
END = "]EPF!"
MAX_FRAME_CHARS = 16 * 1024
"""Longest frame written or read: container runtimes split lines at 16 KiB."""
MAX_LABEL_CHARS = 255
"""Longest stream or message name, after percent-encoding."""

_MAX_OPEN = 4  # frames begun and not ended that are kept, so that a frame inside another one costs neither
_MAX_SEQ_DIGITS = 7
_MARK = re.compile(f"({re.escape(BEGIN)}|{re.escape(END)})")
# A line end and, where present, `<RFC 3339 time> ` (log API with timestamps) or `<time> stdout P ` (the runtime's own
# file). Neither can be part of a frame, for a frame has no spaces.
_IGNORED = re.compile(
    r"[\r\n]+(?:\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) (?:std(?:out|err) [PF] )?)?", re.ASCII
)
_BODY = re.compile(
    r"(?P<head>\d{1,3};(?P<stream>[\w.~%-]{1,255});(?P<name>[\w.~%-]{0,255});(?P<seq>\d{1,7});(?P<num_frames>\d{1,7});"
    r"(?P<num_bytes>\d{1,15});(?P<sha256>[0-9a-f]{64});(?P<text_digest>[0-9a-f]{32}));(?P<head_digest>[0-9a-f]{32});"
    r"(?P<text>.*)",
    re.ASCII,
)


@dataclass(frozen=True)
class Content:
    """What all frames of one message agree on.

    Attributes:
        sha256: SHA-256 of the message, 64 hexadecimal digits.
        num_bytes: Length of the message.
        num_frames: Into how many frames its compressed form was cut.
    """

    sha256: str
    num_bytes: int
    num_frames: int


@dataclass(frozen=True)
class Header:
    """Which frame of which message: frame `seq` (from 1) of message `name` of `stream`."""

    stream: str
    name: str
    seq: int
    content: Content


@dataclass(frozen=True)
class Frame:
    """A frame whose head and text are proved; `payload` is its piece of the compressed message."""

    header: Header
    payload: bytes


class DamageKind(Enum):
    """What is wrong with a piece of a log that looks like a frame."""

    HEAD = "head"
    """The head is incomplete, altered, or no writer of ours made it: whose frame this was is not known."""
    TEXT = "text"
    """The head is proved, the text is not."""
    VERSION = "version"
    """A version of this format that this reader does not know."""
    STRAY_END = "stray_end"
    """An end mark without a begin mark before it."""


@dataclass(frozen=True)
class Damage:
    """A frame that cannot be used; `header` only where the head is proved."""

    kind: DamageKind
    header: Header | None = None


def quoted(label: str) -> str:
    """A stream or message name as it stands in a frame; undecodable file names (lone surrogates) included."""
    return quote(label, safe="", errors="surrogatepass")


def unquoted(label: str) -> str:
    """The inverse of `quoted`; raises `ValueError` where the bytes are not a name."""
    return unquote(label, errors="surrogatepass")


def render(frame: Frame) -> str:
    """The line of a frame, without a line end."""
    header, content = frame.header, frame.header.content
    text = base64.b64encode(frame.payload).decode("ascii")
    sizes = f"{header.seq};{content.num_frames};{content.num_bytes};{content.sha256}"
    head = f"{VERSION};{quoted(header.stream)};{quoted(header.name)};{sizes};{_digest(text)}"
    return f"{BEGIN}{head};{_digest(head)};{text}{END}"


def payload_room(stream: str, name: str, num_bytes: int, max_frame_chars: int) -> int:
    """Payload bytes that fit a frame of at most `max_frame_chars`, whatever its number; negative where none do."""
    widest = 10**_MAX_SEQ_DIGITS - 1
    bare = render(Frame(Header(stream, name, widest, Content("0" * 64, num_bytes, widest)), b""))
    return (max_frame_chars - len(bare)) // 4 * 3


def parse(body: str) -> Frame | Damage:
    """Judge what stands between a begin mark and an end mark, line ends removed."""
    version, separator, _ = body[:4].partition(";")
    if separator and version.isdecimal() and version != str(VERSION):
        return Damage(DamageKind.VERSION)
    match = _BODY.fullmatch(body)
    if match is None or _digest(match["head"]) != match["head_digest"]:
        return Damage(DamageKind.HEAD)
    content = Content(match["sha256"], int(match["num_bytes"]), int(match["num_frames"]))
    try:
        header = Header(unquoted(match["stream"]), unquoted(match["name"]), int(match["seq"]), content)
    except ValueError:
        return Damage(DamageKind.HEAD)
    if not 1 <= header.seq <= content.num_frames:
        return Damage(DamageKind.HEAD)
    if _digest(match["text"]) != match["text_digest"]:
        return Damage(DamageKind.TEXT, header)
    try:
        return Frame(header, base64.b64decode(match["text"], validate=True))
    except ValueError:
        return Damage(DamageKind.TEXT, header)


def scan(log: str | Iterable[str]) -> Iterator[Frame | Damage]:
    """Find every frame, whole or damaged, in a log read once and in order.

    Args:
        log: The text, or pieces of it: lines (with or without line ends) or blocks cut anywhere.
    """
    bodies: list[str] = []  # frames begun and not ended, the innermost last
    for token in _tokens(log):
        if token == BEGIN:
            bodies.append("")
            if len(bodies) > _MAX_OPEN:
                yield parse(bodies.pop(0))
        elif token == END:
            yield parse(bodies.pop()) if bodies else Damage(DamageKind.STRAY_END)
        elif bodies:
            bodies[-1] += token[:MAX_FRAME_CHARS]
            if len(bodies[-1]) >= MAX_FRAME_CHARS:
                yield parse(bodies.pop())
    yield from map(parse, bodies)


def _tokens(log: str | Iterable[str]) -> Iterator[str]:
    """Cut a log into marks and the text between them, without line ends."""
    tail = ""  # may be the start of a mark that the next piece completes
    for piece in (log,) if isinstance(log, str) else log:
        *tokens, rest = _MARK.split(tail + _IGNORED.sub("", "\n" + piece))
        yield from tokens
        cut = max(len(rest) - len(BEGIN) + 1, 0)
        yield rest[:cut]
        tail = rest[cut:]
    yield tail


def _digest(text: str) -> str:
    """First 128 bits of the SHA-256 of a text, in hexadecimal; a damaged text may hold any character."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
