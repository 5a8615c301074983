"""What a raw answer says, and when each event of it was there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ep_load.answer import Chunk, read_answer
from ep_load.connection import Exchange
from ep_load.record import Record, Sent, read_record

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PLAIN_HEAD = b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: 25\r\n\r\n"


def event(value: Any) -> bytes:
    """One event as one HTTP chunk."""
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    data = b"data: " + text + b"\n\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def token(text: str = "a", finish: str | None = None, num_tokens: int | None = None) -> dict[str, Any]:
    """The value of a token's event."""
    value: dict[str, Any] = {"choices": [{"index": 0, "text": text, "finish_reason": finish}]}
    return value if num_tokens is None else {**value, "usage": {"completion_tokens": num_tokens}}


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
WHOLE = [event(token(num_tokens=1)), event(token("b", "length", 2)), event(USAGE), event(b"[DONE]"), b"0\r\n\r\n"]


def record(parts: list[tuple[int, bytes]], *, path: str = "/v1/completions", **fields: Any) -> Record:
    """The record of an answer."""
    exchange = Exchange(5)
    exchange.parts = parts
    exchange.ended_ns = parts[-1][0] if parts else None
    exchange.lost = fields.pop("lost", "")
    return read_record(Sent("cell", 3, "measured", 0, 1, path, 2, exchange, **fields))


class TestStamps:
    """An event has the stamp of the read that completed it."""

    def test_events_of_their_own_reads(self) -> None:
        """Head at 10, tokens at 20 and 30; the counts' event has no choice and is no chunk."""
        answer = read_answer([(10, HEAD), (20, WHOLE[0]), (30, WHOLE[1]), (40, b"".join(WHOLE[2:]))])
        assert (200, 10) == (answer.status, answer.headers_ns)
        assert (Chunk(20, True, 1), Chunk(30, True, 2)) == answer.chunks
        assert ("length", True, {"prompt_tokens": 7, "completion_tokens": 2}) == (
            answer.finish_reason,
            answer.saw_done,
            answer.usage,
        )

    def test_two_events_in_one_read_share_its_stamp(self) -> None:
        """A gap of nothing is what was seen: the network, or a late client, joined them."""
        answer = read_answer([(10, HEAD), (20, b"".join(WHOLE))])
        assert [20, 20] == [chunk.at_ns for chunk in answer.chunks]

    @given(st.lists(st.integers(1, 400), max_size=12))
    def test_cuts_change_no_event(self, cuts: list[int]) -> None:
        """However reads cut the bytes, the events are the same, each stamped with the read that held its last byte."""
        data = HEAD + b"".join(WHOLE)
        edges = sorted({cut for cut in cuts if cut < len(data)} | {len(data)})
        parts = [(end, data[begin:end]) for begin, end in zip([0, *edges], edges, strict=False)]
        answer = read_answer(parts)
        ends = [data.index(one) + len(one) - 2 for one in WHOLE[:2]]  # before the chunk's own line end
        expected = [min(edge for edge in edges if edge >= end) for end in ends]
        assert expected == [chunk.at_ns for chunk in answer.chunks]
        assert answer.saw_done


class TestContent:
    """What counts as a token that a client sees."""

    @pytest.mark.parametrize(
        ("choice", "counts"),
        [
            ({"delta": {"role": "assistant", "content": ""}}, False),
            ({"delta": {"content": "x"}}, True),
            ({"delta": {"reasoning_content": "x"}}, True),
            ({"delta": {}, "finish_reason": "stop"}, False),
            ({"text": ""}, True),
        ],
        ids=["role", "content", "reasoning", "end of a chat", "token without text"],
    )
    def test_content(self, choice: dict[str, Any], counts: bool) -> None:
        """A role alone is no first token; reasoning is one."""
        answer = read_answer([(1, HEAD + event({"choices": [choice]}))])
        assert [counts] == [chunk.has_content for chunk in answer.chunks]


class TestSuccess:
    """A request succeeded where everything that makes an answer whole was there."""

    def test_a_whole_answer(self) -> None:
        """Times, counts and the reason are the answer's; what was not said is None."""
        found = record([(10, HEAD), (20, WHOLE[0]), (30, WHOLE[1]), (40, b"".join(WHOLE[2:]))])
        assert (True, "") == (found.success, found.error_class)
        assert (2, 5, 10, 20, 20, 30, 40) == (
            found.scheduled_ns,
            found.sent_ns,
            found.headers_ns,
            found.first_chunk_ns,
            found.first_content_ns,
            found.last_content_ns,
            found.done_ns,
        )
        assert (7, 2, None, "length") == (
            found.prompt_tokens,
            found.completion_tokens,
            found.cached_tokens,
            found.finish_reason,
        )
        assert ((20, True, 1), (30, True, 2)) == found.chunks

    @pytest.mark.parametrize(
        ("left_out", "says"),
        [
            (slice(0, 2), "without content, finish_reason"),
            (slice(2, 3), "without usage"),
            (slice(3, 4), "without [DONE]"),
        ],
        ids=["tokens", "usage", "end mark"],
    )
    def test_what_is_missing(self, left_out: slice, says: str) -> None:
        """An answer that lacks a part is no success, whatever its status."""
        events = [event(token()), event(token(finish="length")), *WHOLE[2:]]
        del events[left_out]
        found = record([(10, HEAD + b"".join(events))])
        assert (False, "incomplete_stream", 200) == (found.success, found.error_class, found.status)
        assert says in found.error

    def test_an_error_within_a_stream(self) -> None:
        """An error object after a status of 200 is an error."""
        found = record([(10, HEAD + WHOLE[0] + event({"error": {"message": "EngineDeadError"}}) + b"".join(WHOLE[1:]))])
        assert (False, "in_band_error") == (found.success, found.error_class)
        assert "EngineDeadError" in found.error

    def test_a_refusal(self) -> None:
        """The status and the body are kept, and the time of the end."""
        found = record([(10, PLAIN_HEAD + b'{"error":"is scaling..."}')])
        assert (False, "http_status", 503, 10) == (found.success, found.error_class, found.status, found.done_ns)
        assert '503: {"error":"is scaling..."}' == found.error
        assert found.first_content_ns is None

    @pytest.mark.parametrize(
        ("fields", "error_class"),
        [({"lost": "closed by the server"}, "disconnected"), ({"error_class": "cut"}, "cut")],
    )
    def test_what_was_given_up(self, fields: dict[str, Any], error_class: str) -> None:
        """A connection that ended and a run that stopped are no successes; what had come is kept."""
        found = record([(10, HEAD + WHOLE[0])], **fields)
        assert (False, error_class, 10) == (found.success, found.error_class, found.first_content_ns)

    def test_nothing_came(self) -> None:
        """Absent is None, never 0."""
        found = record([], lost="closed by the server")
        assert (None, None, None, None, 0) == (
            found.status,
            found.headers_ns,
            found.first_chunk_ns,
            found.completion_tokens,
            found.num_bytes,
        )

    def test_a_probe_of_health(self) -> None:
        """A status of 200 is all that a probe needs."""
        found = record([(10, b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")], path="/health")
        assert (True, 200) == (found.success, found.status)
