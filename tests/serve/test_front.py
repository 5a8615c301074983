"""The front without ranks: who waits, who is placed where, and what clients read."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from ep_serve.access_log import AccessLog
from ep_serve.api import Api, read_rank, read_scale
from ep_serve.completion import RefusedError, decode, encode, read_body
from ep_serve.fleet import EngineDeadError
from ep_serve.metrics import Metrics
from ep_serve.request import Broken, Request
from ep_serve.settings import EOS_TOKEN, Settings
from ep_serve.stepper import Stepper
from ep_serve.web import MAX_HEAD_BYTES, serve_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

SETTINGS = Settings(max_num_seqs=2, max_len=40)


class Ranks:
    """Stands for the fleet: each request makes `A`, `B`, ... one a step; keeps what it was told."""

    def __init__(self) -> None:
        self.died: str | None = None
        self.told: list[dict[int, tuple[list[int], list[int]]]] = []
        self._served: dict[int, dict[int, list[int]]] = {}

    def check(self) -> None:
        if self.died is not None:
            raise EngineDeadError(self.died)

    async def ask(self, orders: dict[int, Any], kind: str) -> dict[int, Any]:
        await asyncio.sleep(0)
        self.check()
        assert "done" == kind
        self.told.append({r: ([one["number"] for one in o["admit"]], o["drop"]) for r, o in orders.items()})
        return {rank: {"num_rows": 1, "tokens": self._step(rank, order)} for rank, order in orders.items()}

    def _step(self, rank: int, order: Any) -> list[list[Any]]:
        served = self._served.setdefault(rank, {})
        for number in order["drop"]:
            served.pop(number, None)
        served.update({one["number"]: [0, one["max_tokens"]] for one in order["admit"]})
        made = []
        for number, state in list(served.items()):
            state[0] += 1
            ends = state[0] == state[1]
            made.append([number, 64 + state[0], -0.5, "length" if ends else None])
            if ends:
                del served[number]
        return made


class Never:
    """Stands for the resizer: nothing scales unless a test says so."""

    scaling = False


def ask_for(number: int, max_tokens: int, addressed: int | None = None) -> Request:
    """A request."""
    return Request(number, [1], max_tokens, ignore_eos=False, addressed=addressed, arrived_ns=0)


async def finish(*requests: Request) -> None:
    """Waits until requests have ended."""
    for request in requests:
        while True:
            event = await request.events.get()
            if isinstance(event, Broken) or event.finish is not None:
                break


class TestStepper:
    """One queue, one slot limit for each rank."""

    def run(self, requests: list[Request], ranks: Ranks) -> None:
        """Serves some requests that come at once."""

        async def main() -> None:
            stepper = Stepper(SETTINGS, ranks, Metrics())
            for request in requests:
                stepper.submit(request)
            running = asyncio.create_task(stepper.run())
            await finish(*requests)
            running.cancel()

        asyncio.run(main())

    def test_slots_bound_what_runs_and_the_queue_is_fair(self) -> None:
        """Two ranks of two slots take four; the fifth and sixth come when slots are free, in their order."""
        ranks = Ranks()
        requests = [ask_for(number, 3 if number < 5 else 1) for number in range(1, 7)]
        self.run(requests, ranks)
        admitted = [{rank: told[0] for rank, told in step.items()} for step in ranks.told]
        assert {0: [1, 3], 1: [2, 4]} == admitted[0]
        assert [{0: [], 1: []}] * 2 == admitted[1:3]
        assert {0: [5], 1: [6]} == admitted[3]

    def test_a_full_rank_lets_others_pass(self) -> None:
        """Requests for one rank wait for it; those behind them do not."""
        ranks = Ranks()
        self.run([ask_for(1, 2, 1), ask_for(2, 2, 1), ask_for(3, 1, 1), ask_for(4, 1)], ranks)
        admitted = [{rank: told[0] for rank, told in step.items()} for step in ranks.told]
        assert [{0: [4], 1: [1, 2]}, {0: [], 1: []}, {0: [], 1: [3]}] == admitted

    def test_who_gives_up_frees_the_slot(self) -> None:
        """A rank is told to drop what nobody waits for; what only waited is never told of."""
        ranks = Ranks()

        async def main() -> None:
            stepper = Stepper(SETTINGS, ranks, Metrics())
            served, waiting = ask_for(1, 1000), ask_for(2, 5)
            stepper.submit(served)
            await stepper.step()
            stepper.submit(waiting)
            stepper.give_up(waiting)
            stepper.give_up(served)
            await stepper.step()
            await stepper.step()
            assert (0, 0) == (stepper.num_running, stepper.num_waiting)

        asyncio.run(main())
        assert [([1], []), ([], [1]), ([], [])] == [step[0] for step in ranks.told]

    def test_a_dead_engine_breaks_everything_once(self) -> None:
        """What runs and what waits is told; what comes later is refused."""
        ranks = Ranks()

        async def main() -> None:
            stepper = Stepper(SETTINGS, ranks, Metrics())
            requests = [ask_for(number, 9) for number in range(6)]
            for request in requests:
                stepper.submit(request)
            await stepper.step()
            ranks.died = "rank 1 has ended"
            await stepper.run()
            assert [Broken("rank 1 has ended")] * 6 == [one.events._queue[-1] for one in requests]
            with pytest.raises(EngineDeadError):
                stepper.submit(ask_for(9, 1))

        asyncio.run(main())

    def test_a_request_for_a_rank_that_goes(self) -> None:
        """A smaller width breaks what waits for a rank that is gone, and nothing else."""

        async def main() -> None:
            stepper = Stepper(SETTINGS, Ranks(), Metrics())
            gone, stays = ask_for(1, 1, 1), ask_for(2, 1)
            stepper.submit(gone)
            stepper.submit(stays)
            stepper.change_width(1)
            assert isinstance(gone.events.get_nowait(), Broken)
            assert stays.events.empty()
            assert 1 == stepper.num_waiting

        asyncio.run(main())


class Client:
    """Sends raw calls to a front in this process."""

    def __init__(self, folder: Path) -> None:
        self.ranks, self.resizer = Ranks(), Never()
        self.log = folder / "access.jsonl"

    def talk(self, *calls: bytes) -> list[bytes]:
        """Answers to calls on one connection, each read until it is whole; b'' where the server closed."""
        answers: list[bytes] = []

        async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for call in calls:
                writer.write(call)
                answers.append(await _answer(reader))

        self.serve(ask)
        return answers

    def post(self, path: str, value: Any, headers: str = "") -> tuple[int, Any]:
        """Status and body of one call; a stream as the list of its events."""
        head, _, body = self.talk(post(path, value, headers))[0].partition(b"\r\n\r\n")
        status = int(head.split(b" ")[1])
        if b"text/event-stream" in head:
            events = [line[6:] for line in body.decode().split("\r\n") if line.startswith("data: ")]
            return status, [one.removesuffix("\n\n") for one in events]
        return status, json.loads(body)

    def serve(self, act: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]) -> None:
        """Lets a client act on one connection to a front."""
        asyncio.run(self._serve(act))

    async def _serve(
        self, act: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]
    ) -> None:
        metrics = Metrics()
        stepper = Stepper(SETTINGS, self.ranks, metrics)
        log = AccessLog(self.log)
        api = Api(SETTINGS, self.ranks, stepper, self.resizer, metrics, log)
        server = await asyncio.start_server(
            lambda r, w: serve_connection(r, w, api.handle), "127.0.0.1", 0, limit=MAX_HEAD_BYTES
        )
        stepping = asyncio.create_task(stepper.run())
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await asyncio.wait_for(act(reader, writer), 20)
        writer.close()
        stepping.cancel()
        server.close()
        await server.wait_closed()
        log.close()


async def _answer(reader: asyncio.StreamReader) -> bytes:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    if b"chunked" in head:
        body = b""
        while not body.endswith(b"\r\n0\r\n\r\n"):
            body += await reader.read(4096)
        return head + body
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(length)


def post(path: str, value: Any, headers: str = "") -> bytes:
    """A call as it travels."""
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    return f"POST {path} HTTP/1.1\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """A client of a fresh front."""
    return Client(tmp_path)


class TestAnswers:
    """What clients read, event by event."""

    def test_a_streamed_completion(self, client: Client) -> None:
        """One event a token, the reason in the last, the counts after it where they are wanted, then [DONE]."""
        asked = {"prompt": "hey", "max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}
        status, events = client.post("/v1/completions", asked)
        values = [json.loads(one) for one in events[:-1]]
        assert (200, "[DONE]") == (status, events[-1])
        assert [("A", None), ("B", "length")] == [
            (one["choices"][0]["text"], one["choices"][0]["finish_reason"]) for one in values[:2]
        ]
        assert [] == values[2]["choices"]
        assert {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5} == values[2]["usage"]
        assert not [one for one in values[:2] if "usage" in one]

    def test_a_streamed_chat(self, client: Client) -> None:
        """A chat begins with its role and no content; counts come with every event where that is asked."""
        asked = {
            "messages": [{"role": "user", "content": "hi"}],
            "max_completion_tokens": 2,
            "stream": True,
            "stream_options": {"continuous_usage_stats": True},
        }
        _, events = client.post("/v1/chat/completions", asked)
        values = [json.loads(one) for one in events[:-1]]
        assert [{"role": "assistant", "content": ""}, {"content": "A"}, {"content": "B"}] == [
            one["choices"][0]["delta"] for one in values
        ]
        assert [0, 1, 2] == [one["usage"]["completion_tokens"] for one in values]
        assert {20} == {one["usage"]["prompt_tokens"] for one in values}  # "user: hi\nassistant: "

    def test_whole_answers(self, client: Client) -> None:
        """Without a stream the text comes whole, with its counts; logprobs where they are asked."""
        _, plain = client.post("/v1/completions", {"prompt": [104, 105], "max_tokens": 3, "logprobs": 1})
        _, chat = client.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1})
        assert ("ABC", "length") == (plain["choices"][0]["text"], plain["choices"][0]["finish_reason"])
        assert {"token_logprobs": [-0.5] * 3} == plain["choices"][0]["logprobs"]
        assert {"role": "assistant", "content": "A"} == chat["choices"][0]["message"]

    def test_an_engine_that_dies_in_a_stream(self, client: Client) -> None:
        """The error comes in the stream, after a status of 200; a stream that ends so is no success."""

        class Dying(Ranks):
            async def ask(self, orders: dict[int, Any], kind: str) -> dict[int, Any]:
                if len(self.told) == 2:
                    self.died = "rank 1 has ended"
                return await super().ask(orders, kind)

        client.ranks = Dying()
        status, events = client.post("/v1/completions", {"prompt": "hey", "max_tokens": 9, "stream": True})
        assert (200, 4, "[DONE]") == (status, len(events), events[-1])
        assert {"message": "EngineDeadError: rank 1 has ended", "code": 500} == {
            name: json.loads(events[2])["error"][name] for name in ("message", "code")
        }

    def test_a_client_that_goes(self, client: Client) -> None:
        """Its request is dropped from its rank at the next token, and the log holds what it had got."""

        class Slow(Ranks):
            async def ask(self, orders: dict[int, Any], kind: str) -> dict[int, Any]:
                await asyncio.sleep(0.005)
                return await super().ask(orders, kind)

        client.ranks = Slow()

        async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(post("/v1/completions", {"prompt": "hey", "max_tokens": 37, "stream": True}))
            await reader.readuntil(b"data: ")
            writer.close()
            while not any(dropped for step in client.ranks.told for _, dropped in step.values()):
                await asyncio.sleep(0.005)

        client.serve(leave)
        (line,) = [json.loads(line) for line in client.log.read_text().splitlines()]
        assert 200 == line["status"]
        assert 1 <= line["completion_tokens"] < 37

    def test_while_it_scales(self, client: Client) -> None:
        """Every path says 503 with one text, also paths that are none."""
        client.resizer.scaling = True
        calls = [post("/v1/completions", {"prompt": "x"}), post("/is_scaling_elastic_ep", {}), post("/none", {})]
        answers = client.talk(*calls, b"GET /health HTTP/1.1\r\n\r\n")
        text = b'{"error":"The model is currently scaling. Please try again later."}'
        assert [(b"HTTP/1.1 503", text)] * 4 == [(one[:12], one.rpartition(b"\r\n")[2]) for one in answers]

    def test_the_access_log(self, client: Client) -> None:
        """One line for each call, also a refused one; a completion says its rank and its tokens."""
        client.talk(post("/v1/completions", {"prompt": "hey", "max_tokens": 2}), post("/v1/completions", b"{"))
        lines = [json.loads(line) for line in client.log.read_text().splitlines()]
        assert [200, 400] == [line["status"] for line in lines]
        assert {"number": 1, "rank": 0, "prompt_tokens": 3, "completion_tokens": 2} == {
            name: lines[0][name] for name in ("number", "rank", "prompt_tokens", "completion_tokens")
        }
        assert lines[0]["arrived_ns"] < lines[0]["done_ns"]

    def test_metrics(self, client: Client) -> None:
        """Counters and histograms follow what was served: three tokens are one first token and two gaps."""
        page = client.talk(
            post("/v1/completions", {"prompt": "hey", "max_tokens": 3}), b"GET /metrics HTTP/1.1\r\n\r\n"
        )[1]
        for line in (
            b"vllm:num_requests_running 0",
            b"vllm:prompt_tokens_total 3",
            b"vllm:generation_tokens_total 3",
            b"vllm:request_success_total 1",
            b"ep_serve:steps_total 3",
            b"vllm:time_to_first_token_seconds_count 1",
            b'vllm:inter_token_latency_seconds_bucket{le="+Inf"} 2',
        ):
            assert line in page.split(b"\n")


class TestWeb:
    """What is no request that can be answered."""

    @pytest.mark.parametrize(
        ("call", "status"),
        [
            (b"nonsense\r\n\r\n", b"400"),
            (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n", b"400"),
            (b"POST / HTTP/1.1\r\ncontent-length: many\r\n\r\n", b"413"),
            (b"GET / HTTP/1.1\r\nx: " + b"y" * MAX_HEAD_BYTES * 2 + b"\r\n\r\n", b"413"),
            (b"GET /v1/completions HTTP/1.1\r\n\r\n", b"405"),
            (b"GET /none HTTP/1.1\r\n\r\n", b"404"),
        ],
        ids=["no request line", "chunked body", "no length", "long head", "method", "path"],
    )
    def test_refused(self, client: Client, call: bytes, status: bytes) -> None:
        """Each has its status."""
        assert status == client.talk(call)[0].split(b" ")[1]

    def test_a_connection_serves_until_it_is_told_to_close(self, client: Client) -> None:
        """Calls follow one another on a connection; `connection: close` ends it."""
        health, closing = b"GET /health HTTP/1.1\r\n\r\n", b"GET /health HTTP/1.1\r\nConnection: Close\r\n\r\n"
        answers = client.talk(health, health, closing, health)
        assert [b"HTTP/1.1 200 OK"] * 3 + [b""] == [one.partition(b"\r\n")[0] for one in answers]


class TestBodies:
    """What a body may ask for."""

    @pytest.mark.parametrize(
        ("body", "chat", "says"),
        [
            (b"{", False, "not JSON"),
            (b"[]", False, "is a list, expected an object"),
            (b'{"prompt": "x", "model": "other"}', False, "The model `other` does not exist."),
            (b'{"prompt": "x", "temperature": 0.7}', False, "decodes greedily"),
            (b'{"prompt": "x", "n": 2}', False, "decodes greedily"),
            (b'{"prompt": ""}', False, "prompt is empty"),
            (b'{"prompt": [256]}', False, "byte tokens from 0 to 255"),
            (b'{"prompt": ["a", "b"]}', False, "one text"),
            (b'{"messages": []}', True, "messages must be"),
            (b'{"messages": [{"role": "user", "content": 3}]}', True, "messages must be"),
            (b'{"prompt": "x", "max_tokens": 40}', False, "maximum context length is 40 tokens; the prompt has 1"),
            (b'{"prompt": "x", "max_tokens": true}', False, "max_tokens is True"),
            (b'{"prompt": "x", "max_tokens": -1}', False, "max_tokens is -1"),
        ],
    )
    def test_refused(self, body: bytes, chat: bool, says: str) -> None:
        """Each is refused with what was found and what is expected."""
        with pytest.raises(RefusedError, match=says):
            read_body(body, SETTINGS, chat=chat)

    def test_what_is_not_said(self) -> None:
        """A completion makes 16 tokens, a chat as many as fit; neither streams."""
        plain = read_body(b'{"prompt": "x"}', SETTINGS, chat=False)
        chat = read_body(b'{"messages": [{"role": "a", "content": "b"}]}', SETTINGS, chat=True)
        assert (16, False, False) == (plain.max_tokens, plain.stream, plain.logprobs)
        assert 40 - len("a: b\nassistant: ") == chat.max_tokens

    def test_tokens_are_bytes(self) -> None:
        """Text becomes its bytes; every token but the end mark is one character that can be read back."""
        assert [104, 195, 169] == encode("h\u00e9")
        assert "".join(decode(token) for token in range(256)).encode("latin-1") == bytes(range(256))
        assert "" == decode(EOS_TOKEN)

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("-1", r"data_parallel_rank -1 is out of range \[0, 2\)\."),
            ("2", r"data_parallel_rank 2 is out of range \[0, 2\)\."),
            ("one", "is 'one', expected a whole number"),
        ],
    )
    def test_ranks_that_are_none(self, text: str, says: str) -> None:
        """The refusal names the bound, in vLLM's words."""
        with pytest.raises(RefusedError, match=says):
            read_rank(text, 2)

    def test_ranks(self) -> None:
        """A rank in range is taken; none is any."""
        assert (0, 1, None) == (read_rank("0", 2), read_rank("1", 2), read_rank(None, 2))

    @pytest.mark.parametrize(
        ("body", "says"),
        [
            (b"", "not JSON"),
            (b"{}", "new_data_parallel_size is required"),
            (b'{"new_data_parallel_size": "4"}', "is '4', expected a whole number"),
            (b'{"new_data_parallel_size": 4, "drain_timeout": 0}', "drain_timeout is 0"),
        ],
    )
    def test_scale_bodies(self, body: bytes, says: str) -> None:
        """A width is a whole number, a drain bound is above 0."""
        with pytest.raises(RefusedError, match=says):
            read_scale(body)
        assert (4, 120.0) == read_scale(b'{"new_data_parallel_size": 4}')
