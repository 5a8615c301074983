"""The paths that the engine serves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ep_serve import completion
from ep_serve.completion import RefusedError, Writer, error_body
from ep_serve.fleet import EngineDeadError
from ep_serve.request import Broken, Request, Token

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ep_serve.access_log import AccessLog
    from ep_serve.fleet import Fleet
    from ep_serve.metrics import Metrics
    from ep_serve.resize import Resizer
    from ep_serve.settings import Settings
    from ep_serve.stepper import Stepper
    from ep_serve.web import Call, Reply

RANK_HEADER = "x-data-parallel-rank"
SCALING = "The model is currently scaling. Please try again later."
_DRAIN_TIMEOUT_S = 120


@dataclass
class Entry:
    """One call on its way: what was asked, how it is answered, and the completion that it is, if it is one."""

    call: Call
    reply: Reply
    request: Request | None = None


class Api:
    """Answers calls."""

    def __init__(
        self, settings: Settings, fleet: Fleet, stepper: Stepper, resizer: Resizer, metrics: Metrics, log: AccessLog
    ) -> None:
        self._settings, self._fleet, self._stepper = settings, fleet, stepper
        self._resizer, self._metrics, self._log = resizer, metrics, log
        self._num_requests = 0
        self._routes: dict[tuple[str, str], Callable[[Entry], Awaitable[None]]] = {
            ("GET", "/health"): self._health,
            ("GET", "/metrics"): self._page,
            ("GET", "/v1/models"): self._models,
            ("POST", "/v1/completions"): self._complete,
            ("POST", "/v1/chat/completions"): self._complete,
            ("POST", "/scale_elastic_ep"): self._scale,
            ("POST", "/is_scaling_elastic_ep"): self._is_scaling,
        }

    async def handle(self, call: Call, reply: Reply) -> None:
        """Answers one call, and notes in the access log what became of it."""
        entry = Entry(call, reply)
        reply.before_end = partial(self._note, entry)
        try:
            route = self._routes.get((call.method, call.path))
            if self._resizer.scaling:
                await reply.send_json(503, {"error": SCALING})  # on every path, as vLLM's middleware does
            elif route is None:
                known = any(path == call.path for _, path in self._routes)
                await reply.send_json(405 if known else 404, {"detail": "Method Not Allowed" if known else "Not Found"})
            else:
                await route(entry)
        except RefusedError as error:
            await reply.send_json(error.status, error_body(str(error), error.status))
        except EngineDeadError as error:
            await reply.send_json(500, error_body(f"EngineDeadError: {error}", 500))
        finally:
            reply.end()

    def _note(self, entry: Entry) -> None:
        self._log.note(entry.call, entry.reply.status, entry.request)

    async def _health(self, entry: Entry) -> None:
        await entry.reply.send(200 if self._fleet.died is None else 503, b"")

    async def _page(self, entry: Entry) -> None:
        page = self._metrics.page(self._stepper.num_running, self._stepper.num_waiting)
        await entry.reply.send(200, page.encode(), "text/plain; version=0.0.4; charset=utf-8")

    async def _models(self, entry: Entry) -> None:
        model = {"id": self._settings.model_name, "object": "model", "max_model_len": self._settings.max_len}
        await entry.reply.send_json(200, {"object": "list", "data": [model]})

    async def _is_scaling(self, entry: Entry) -> None:
        await entry.reply.send_json(200, {"is_scaling_elastic_ep": self._resizer.scaling})

    async def _scale(self, entry: Entry) -> None:
        width, drain_timeout_s = read_scale(entry.call.body)
        answer = await self._resizer.resize(width, drain_timeout_s)
        body = {"message": answer.message} if answer.status == 200 else error_body(answer.message, answer.status)
        await entry.reply.send_json(answer.status, body)

    async def _complete(self, entry: Entry) -> None:
        call = entry.call
        asked = completion.read_body(call.body, self._settings, chat=call.path.startswith("/v1/chat"))
        addressed = read_rank(call.headers.get(RANK_HEADER), self._stepper.width)
        self._num_requests += 1
        request = Request(
            self._num_requests, asked.tokens, asked.max_tokens, asked.ignore_eos, addressed, call.arrived_ns
        )
        entry.request = request
        self._stepper.submit(request)
        writer = Writer(asked, request.number, self._settings.model_name)
        try:
            await (self._stream if asked.stream else self._collect)(request, writer, entry.reply)
        finally:
            self._stepper.give_up(request)  # does nothing where it has ended

    async def _stream(self, request: Request, writer: Writer, reply: Reply) -> None:
        reply.begin_events()
        event: Token | Broken | None = None
        while not reply.abandoned:
            first, event = event is None, await request.events.get()
            if isinstance(event, Broken):
                await reply.event(json.dumps(error_body(f"EngineDeadError: {event.reason}", 500)).encode())
                break
            opening = writer.opening() if first else None
            if opening is not None:
                await reply.event(opening)
            await reply.event(writer.token(event))
            if event.finish is not None:
                break
        if isinstance(event, Token) and event.finish is not None and (closing := writer.closing()) is not None:
            await reply.event(closing)
        await reply.event(b"[DONE]")
        await reply.end_events()

    async def _collect(self, request: Request, writer: Writer, reply: Reply) -> None:
        tokens: list[Token] = []
        while not tokens or tokens[-1].finish is None:
            event = await request.events.get()
            if isinstance(event, Broken):
                raise EngineDeadError(event.reason)
            tokens.append(event)
        await reply.send_json(200, writer.whole(tokens))


def read_rank(text: str | None, width: int) -> int | None:
    """The rank that a client asks for.

    Raises:
        RefusedError: There is no such rank; the text says how many there are, and is vLLM's.
    """
    if text is None:
        return None
    try:
        rank = int(text)
    except ValueError:
        raise RefusedError(f"{RANK_HEADER} is {text!r}, expected a whole number") from None
    if not 0 <= rank < width:
        raise RefusedError(f"data_parallel_rank {rank} is out of range [0, {width}).")
    return rank


def read_scale(body: bytes) -> tuple[int, float]:
    """Width and drain bound that a resize asks for.

    Raises:
        RefusedError: They are none.
    """
    try:
        value: Any = json.loads(body)
    except ValueError as error:
        raise RefusedError(f"the body is not JSON: {error}") from None
    if not isinstance(value, dict) or "new_data_parallel_size" not in value:
        raise RefusedError("new_data_parallel_size is required")
    width, drain_timeout_s = value["new_data_parallel_size"], value.get("drain_timeout", _DRAIN_TIMEOUT_S)
    if type(width) is not int or width < 1:
        raise RefusedError(f"new_data_parallel_size is {width!r}, expected a whole number from 1")
    if type(drain_timeout_s) not in (int, float) or drain_timeout_s <= 0:
        raise RefusedError(f"drain_timeout is {drain_timeout_s!r}, expected seconds above 0")
    return width, float(drain_timeout_s)
