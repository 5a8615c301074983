"""Who waits, who is served where, and the steps that all ranks make together."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ep_serve.fleet import EngineDeadError
from ep_serve.request import Broken, Request, Token

if TYPE_CHECKING:
    from ep_serve.fleet import Fleet
    from ep_serve.metrics import Metrics
    from ep_serve.settings import Settings
    from ep_serve.wire import Message


class Stepper:
    """Places requests on ranks and drives the steps.

    One queue serves all ranks: a request is placed when a slot is free, on the rank with the most free slots, and stays.

    Attributes:
        width: Ranks that step together.
        accepting: Ranks that get new requests: the first so many.
        boundary: Held during each step; who holds it stands between two steps.
        num_steps: Steps made.
    """

    def __init__(self, settings: Settings, fleet: Fleet, metrics: Metrics) -> None:
        self.width = self.accepting = settings.width
        self.boundary = asyncio.Lock()
        self.num_steps = 0
        self._settings, self._fleet, self._metrics = settings, fleet, metrics
        self._waiting: list[Request] = []
        self._running: dict[int, Request] = {}
        self._dropped: list[Request] = []
        self._work = asyncio.Event()
        self._emptied = asyncio.Condition()

    @property
    def num_waiting(self) -> int:
        """Requests without a rank."""
        return len(self._waiting)

    @property
    def num_running(self) -> int:
        """Requests on ranks."""
        return len(self._running)

    def submit(self, request: Request) -> None:
        """Queues a request.

        Raises:
            EngineDeadError: Nobody will serve it.
        """
        self._fleet.check()
        self._waiting.append(request)
        self._work.set()

    def give_up(self, request: Request) -> None:
        """Forgets a request whose client has gone."""
        if request in self._waiting:
            self._waiting.remove(request)
        elif self._running.pop(request.number, None) is not None:
            self._dropped.append(request)
            self._work.set()

    async def run(self) -> None:
        """Steps while there is work, until the engine dies."""
        try:
            while True:
                await self._work.wait()
                async with self.boundary:
                    await self.step()
                if not (self._running or self._waiting or self._dropped):
                    self._work.clear()
        except EngineDeadError as error:
            self._break_all(str(error))

    async def step(self) -> dict[int, Message]:
        """One step of all ranks, also with nothing to compute; the caller holds the boundary."""
        orders = self._orders()
        answers = await self._fleet.ask(orders, "done")
        now = time.monotonic_ns()
        self.num_steps += 1
        self._metrics.note_step(sum(answer["num_rows"] for answer in answers.values()))
        for answer in answers.values():
            for number, token, logprob, finish in answer["tokens"]:
                self._deliver(number, Token(token, logprob, finish), now)
        async with self._emptied:
            self._emptied.notify_all()
        return answers

    def change_width(self, width: int) -> None:
        """Steps with other ranks from now on; the caller holds the boundary."""
        self.width = self.accepting = width
        for request in self._waiting:
            if request.addressed is not None and request.addressed >= width:
                request.events.put_nowait(
                    Broken(f"rank {request.addressed} was removed while the request waited for it")
                )
        self._waiting = [one for one in self._waiting if one.addressed is None or one.addressed < width]

    async def emptied(self, first_rank: int) -> None:
        """Waits until no rank from `first_rank` on serves a request."""
        async with self._emptied:
            await self._emptied.wait_for(
                lambda: all(request.rank in range(first_rank) for request in self._running.values())
            )

    def _orders(self) -> dict[int, Message]:
        orders: dict[int, Message] = {rank: {"op": "step", "admit": [], "drop": []} for rank in range(self.width)}
        for request in self._dropped:
            if request.rank is not None and request.rank in orders:
                orders[request.rank]["drop"].append(request.number)
        self._dropped = []
        for request, rank in self._placements():
            request.rank = rank
            self._running[request.number] = request
            orders[rank]["admit"].append(
                {
                    "number": request.number,
                    "tokens": request.tokens,
                    "max_tokens": request.max_tokens,
                    "ignore_eos": request.ignore_eos,
                }
            )
        return orders

    def _placements(self) -> list[tuple[Request, int]]:
        """Requests that get a slot now, in the order of their arrival; one for a full rank lets the others pass."""
        free = dict.fromkeys(range(self.accepting), self._settings.max_num_seqs)
        for request in self._running.values():
            if request.rank in free:
                free[request.rank] -= 1
        placed, still = [], []
        for request in self._waiting:
            asked = request.addressed
            rank = max(free, key=lambda one: (free[one], -one)) if asked is None else asked
            if free.get(rank, 0) > 0:
                free[rank] -= 1
                placed.append((request, rank))
            else:
                still.append(request)
        self._waiting = still
        return placed

    def _deliver(self, number: int, token: Token, now_ns: int) -> None:
        request = self._running.get(number)
        if request is None:
            return  # its client has gone meanwhile
        self._metrics.note_token(request, token, now_ns)
        request.num_made += 1
        request.last_ns = now_ns
        if token.finish is not None:
            del self._running[number]
        request.events.put_nowait(token)

    def _break_all(self, reason: str) -> None:
        for request in [*self._running.values(), *self._waiting]:
            request.events.put_nowait(Broken(reason))
        self._running.clear()
        self._waiting.clear()
