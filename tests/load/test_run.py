"""Streams against a small server in the same process: who asks, how often, when it ends, and what is kept."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from load.test_answer import HEAD, PLAIN_HEAD, WHOLE

from ep_load.record import read_record
from ep_load.run import Ran, Run
from ep_load.spec import Arrivals, LoadSpec, Prompt, Stream

if TYPE_CHECKING:
    from collections.abc import Callable

BODY = b"".join(WHOLE)
CLOSED = Stream("cell", Arrivals.CLOSED, "measured", concurrency=3, num_warmups=2, num_requests=7)
REFUSED = PLAIN_HEAD + b'{"error":"is scaling..."}'


class Server:
    """Answers each request with what a script says; counts those in hand."""

    def __init__(self, answer: Callable[[int], bytes | None] = lambda _: HEAD + BODY, delay_s: float = 0.002) -> None:
        self._answer, self._delay_s = answer, delay_s
        self.heads: list[str] = []
        self.in_hand = self.most_in_hand = self.num_connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection."""
        self.num_connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                if "content-length: " in head:
                    await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0]))
                number = len(self.heads)
                self.heads.append(head)
                self.in_hand += 1
                self.most_in_hand = max(self.most_in_hand, self.in_hand)
                await asyncio.sleep(self._delay_s)
                self.in_hand -= 1
                answer = self._answer(number)
                if answer is None:
                    break
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def run(server: Server, *streams: Stream, stop_after_s: float | None = None, **fields: float) -> Ran:
    """What a run leaves."""

    async def main() -> Ran:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        prompt = Prompt("bytes", 10, 2, ignore_eos=True)
        runner = Run(LoadSpec((f"127.0.0.1:{port}",), "m", prompt, streams, seed=1, **fields))
        if stop_after_s is not None:
            asyncio.get_running_loop().call_later(stop_after_s, runner.stop)
        ran = await asyncio.wait_for(runner.run(), 20)
        listening.close()
        await listening.wait_closed()
        return ran

    return asyncio.run(main())


def test_a_closed_stream() -> None:
    """Three workers on three connections make nine requests, each number once, the first two being warm-ups."""
    server = Server()
    ran = run(server, CLOSED)
    records = [read_record(sent) for sent in ran.sent]
    assert list(range(9)) == sorted(one.number for one in records)
    assert {0: "warmup", 1: "warmup", **dict.fromkeys(range(2, 9), "measured")} == {
        one.number: one.phase for one in records
    }
    assert (3, 3) == (server.most_in_hand, server.num_connections)
    assert all(one.success for one in records)
    assert all(one.scheduled_ns <= one.sent_ns < one.first_content_ns <= one.done_ns for one in records)
    assert ran.lateness_ns


def test_refused_requests_are_records_and_not_tried_again() -> None:
    """Every third answer is a 503: as many requests go out as were planned, and each refusal is one of them."""
    server = Server(lambda number: REFUSED if number % 3 == 0 else HEAD + BODY)
    records = [read_record(sent) for sent in run(server, CLOSED).sent]
    assert 9 == len(server.heads) == len(records)
    assert [503] * 3 == [one.status for one in records if not one.success]
    assert 3 == server.num_connections, "a refusal leaves its connection usable"


def test_a_connection_that_is_lost() -> None:
    """The request that it took with it is a failure; the worker goes on with another connection."""
    server = Server(lambda number: None if number == 4 else HEAD + BODY)
    records = [read_record(sent) for sent in run(server, CLOSED).sent]
    assert ["disconnected"] == [one.error_class for one in records if not one.success]
    assert 9 == len(records)
    assert 4 == server.num_connections


def test_an_open_stream_waits_for_nobody() -> None:
    """Five requests at their times, though none has been answered yet; what was late is measured from its time."""
    offsets = (0.0, 0.01, 0.02, 0.03, 0.04)
    server = Server(delay_s=0.3)
    ran = run(server, Stream("open", Arrivals.OPEN, "measured", offsets_s=offsets))
    assert 5 == server.most_in_hand
    due = sorted(sent.scheduled_ns for sent in ran.sent)
    assert list(offsets) == pytest.approx([(at - due[0]) / 1e9 for at in due], abs=1e-6)
    assert all(sent.exchange.sent_ns >= sent.scheduled_ns for sent in ran.sent)


def test_a_stop_drains() -> None:
    """A stream without a number runs until it is stopped; what is in flight then is waited for, and nothing new begins."""
    server = Server(delay_s=0.05)
    ran = run(server, replace(CLOSED, num_requests=None), stop_after_s=0.12)
    assert ran.stopped_ns is not None
    assert all(read_record(sent).success for sent in ran.sent)
    assert all(sent.exchange.sent_ns < ran.stopped_ns for sent in ran.sent)
    assert any(sent.exchange.ended_ns > ran.stopped_ns for sent in ran.sent)


@pytest.mark.parametrize(
    ("fields", "stop_after_s", "error_class"),
    [({"drain_s": 0.01}, 0.05, "cut"), ({"request_timeout_s": 0.05}, None, "timed_out")],
    ids=["drain", "timeout"],
)
def test_what_does_not_end_is_given_up(fields: dict[str, float], stop_after_s: float | None, error_class: str) -> None:
    """A drain and a request have their bounds; what ran into one is kept as what it is."""
    number = None if stop_after_s else 1
    stream = replace(CLOSED, concurrency=2, num_warmups=0, num_requests=number)
    ran = run(Server(delay_s=3.0), stream, stop_after_s=stop_after_s, **fields)
    assert {error_class} == {read_record(sent).error_class for sent in ran.sent}


def test_probes_run_beside_and_end_with_the_others() -> None:
    """An open-loop prober asks for health while a closed stream is served, and stops when that has ended."""
    server = Server(delay_s=0.02)
    probe = Stream("probe", Arrivals.PROBE, "probe", rate_per_s=100.0, path="/health")
    ran = run(server, CLOSED, probe)
    probes = [sent for sent in ran.sent if sent.stream == "probe"]
    others = [sent for sent in ran.sent if sent.stream == "cell"]
    assert 9 == len(others)
    assert len(probes) >= 3
    assert all(head.startswith("GET /health") for head in server.heads if "x-request-id: probe" in head)
    assert max(sent.scheduled_ns for sent in probes) < max(sent.exchange.ended_ns for sent in others)
