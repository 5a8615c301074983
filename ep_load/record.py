"""The record of one request: what was seen of it, and whether it succeeded."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ep_load.answer import read_answer

if TYPE_CHECKING:
    from ep_load.connection import Exchange

_OK = 200


@dataclass(frozen=True)
class Sent:
    """A request as the run knew it.

    Attributes:
        stream: Its stream.
        number: Its number there, from 0.
        phase: `warmup`, or the stream's.
        endpoint: Place of its endpoint.
        worker: Worker that sent it; None where the stream has none.
        path: What was asked.
        scheduled_ns: When it was to begin: for a closed stream, when its worker was free.
        exchange: What went over the wire; None where it could not be connected.
        error_class: Why the run gave it up: `connect`, `timed_out`, `cut`; empty where it did not.
        error: Words to it.
    """

    stream: str
    number: int
    phase: str
    endpoint: int
    worker: int | None
    path: str
    scheduled_ns: int
    exchange: Exchange | None
    error_class: str = ""
    error: str = ""


@dataclass(frozen=True)
class Record:
    """One request. Times are monotonic [ns]; what was not seen is None, never 0.

    Attributes:
        success: Status 200, content, a finish reason, usage, the end mark, and no error within. For a probe of `/health`,
            status 200.
        error_class: `connect`, `disconnected`, `timed_out`, `cut`, `http_status`, `in_band_error`, `incomplete_stream`;
            empty on success.
        cached_tokens: Prompt tokens that the server says came from its prefix cache; None where it does not say.
        chunks: [stamp, has content, tokens so far] of every event.
    """

    stream: str
    number: int
    phase: str
    endpoint: int
    worker: int | None
    path: str
    scheduled_ns: int
    sent_ns: int | None
    headers_ns: int | None
    first_chunk_ns: int | None
    first_content_ns: int | None
    last_content_ns: int | None
    done_ns: int | None
    status: int | None
    success: bool
    error_class: str
    error: str
    finish_reason: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    num_bytes: int
    saw_done: bool
    chunks: tuple[tuple[int, bool, int | None], ...]

    def as_json(self) -> dict[str, Any]:
        """As a line of `requests.jsonl`."""
        return asdict(self)


def read_record(sent: Sent) -> Record:
    """Reads what came of a request."""
    exchange = sent.exchange
    answer = read_answer(exchange.parts if exchange else ())
    usage = answer.usage or {}
    content = [chunk.at_ns for chunk in answer.chunks if chunk.has_content]
    missing = [
        name
        for name, there in (
            ("content", bool(content)),
            ("finish_reason", answer.finish_reason is not None),
            ("usage", bool(usage)),
            ("[DONE]", answer.saw_done),
        )
        if not there
    ]
    error_class, error = sent.error_class, sent.error
    if not error_class:
        if exchange is not None and exchange.lost:
            error_class, error = "disconnected", exchange.lost
        elif answer.status != _OK:
            error_class, error = "http_status", f"{answer.status}: {answer.error}"
        elif answer.error is not None:
            error_class, error = "in_band_error", answer.error
        elif missing and sent.path != "/health":
            error_class, error = "incomplete_stream", f"without {', '.join(missing)}"
    details = usage.get("prompt_tokens_details") or {}
    return Record(
        stream=sent.stream,
        number=sent.number,
        phase=sent.phase,
        endpoint=sent.endpoint,
        worker=sent.worker,
        path=sent.path,
        scheduled_ns=sent.scheduled_ns,
        sent_ns=exchange.sent_ns if exchange else None,
        headers_ns=answer.headers_ns,
        first_chunk_ns=answer.chunks[0].at_ns if answer.chunks else None,
        first_content_ns=content[0] if content else None,
        last_content_ns=content[-1] if content else None,
        done_ns=exchange.ended_ns if exchange else None,
        status=answer.status,
        success=not error_class,
        error_class=error_class,
        error=error[:500],
        finish_reason=answer.finish_reason,
        prompt_tokens=usage.get("prompt_tokens"),
        completion_tokens=usage.get("completion_tokens"),
        cached_tokens=details.get("cached_tokens"),
        num_bytes=answer.num_bytes,
        saw_done=answer.saw_done,
        chunks=tuple((chunk.at_ns, chunk.has_content, chunk.num_tokens) for chunk in answer.chunks),
    )
