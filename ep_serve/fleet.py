"""The rank processes as the front sees them: started, joined, spoken to, lost."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_serve.children import Child, Children, NurseryGoneError
from ep_serve.wire import Message, pack, read_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ep_serve.settings import Settings

_ANSWERS = ("ready", "switched", "done")


class EngineDeadError(RuntimeError):
    """A rank that serves is gone: nothing that needs the group can be done any more."""


class PrepareFailedError(RuntimeError):
    """A resize could not be prepared; what served goes on serving."""


@dataclass(frozen=True)
class Member:
    """One rank process.

    Attributes:
        rank: Its rank, the same for its whole life.
        pid: Its process.
        start_ticks: When the kernel started it; with the pid, an identity.
        since_generation: The group with which it began.
    """

    rank: int
    pid: int
    start_ticks: int
    since_generation: int


class Link:
    """One rank's connection."""

    def __init__(self, rank: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.rank = rank
        self._reader, self._writer = reader, writer
        self._answers: dict[str, asyncio.Queue[Message | Exception]] = {name: asyncio.Queue() for name in _ANSWERS}

    def send(self, message: Message) -> None:
        """Sends; the answer is awaited apart."""
        self._writer.write(pack(message))

    async def answer(self, kind: str) -> Message:
        """The next answer of a kind.

        Raises:
            EngineDeadError: The rank is gone.
            PrepareFailedError: It could not prepare.
        """
        answer = await self._answers[kind].get()
        if isinstance(answer, Exception):
            self._answers[kind].put_nowait(answer)  # it holds for whoever asks next, too
            raise answer
        if answer["op"] == "prepare_failed":
            raise PrepareFailedError(answer["reason"])
        return answer

    async def listen(self) -> str:
        """Sorts what the rank says until it is gone; why it went."""
        reason = f"rank {self.rank} has ended"
        try:
            while True:
                message = await read_message(self._reader)
                if message["op"] == "failed":
                    reason = f"rank {self.rank} failed: {message['reason']}"
                else:
                    kind = "ready" if message["op"] == "prepare_failed" else message["op"]
                    self._answers[kind].put_nowait(message)
        except (asyncio.IncompleteReadError, ConnectionError):
            return reason

    def break_off(self, error: Exception) -> None:
        """Fails everything that waits for this rank, now or later."""
        for queue in self._answers.values():
            queue.put_nowait(error)


class Fleet:
    """All ranks of an engine.

    Attributes:
        links: Connections of ranks that joined.
        members: Their processes.
        died: Why the engine cannot go on; None while it can.
    """

    def __init__(self, settings: Settings, work: Path, uid: str, *, on_change: Callable[[], None]) -> None:
        """Starts nothing yet.

        Args:
            settings: The engine's.
            work: Folder for the ranks' logs.
            uid: The engine's own name, which keeps its addresses apart from others'.
            on_change: Called when a rank joins or goes.
        """
        self.links: dict[int, Link] = {}
        self.members: dict[int, Member] = {}
        self.died: str | None = None
        self._settings, self._work, self._on_change = settings, work, on_change
        self._address = f"ep_serve/{uid}"
        self._children = Children(settings, work, self._address)
        self._processes: dict[int, Child] = {}
        self._leaving: set[int] = set()
        self._serving: frozenset[int] = frozenset()
        self._joined = asyncio.Condition()
        self._generation = 0

    @property
    def num_started(self) -> int:
        """Processes that run."""
        return sum(process.runs for process in self._processes.values())

    async def open(self) -> None:
        """Opens the door for ranks, and prepares what starts them."""
        await self._children.open()
        await asyncio.start_unix_server(self._join, path=f"\0{self._address}")

    async def start(self, ranks: Iterable[int], generation: int, delay_s: float = 0.0) -> None:
        """Starts processes; they join by themselves, after a delay where one is asked.

        Raises:
            PrepareFailedError: They cannot be started.
        """
        self._generation = generation
        for rank in ranks:
            try:
                self._processes[rank] = await self._children.start(rank, delay_s)
            except NurseryGoneError as error:
                raise PrepareFailedError(str(error)) from None
        self._on_change()

    async def all_joined(self, ranks: Iterable[int]) -> None:
        """Waits until some ranks are there.

        Raises:
            PrepareFailedError: One ended before it had joined.
        """
        wanted = set(ranks)
        joined = asyncio.ensure_future(self._until_joined(wanted))
        ended: dict[asyncio.Future[Any], int] = {
            asyncio.shield(self._processes[rank].ended): rank for rank in wanted & set(self._processes)
        }
        done, pending = await asyncio.wait([joined, *ended], return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        if joined not in done:
            rank = min(ended[task] for task in done)
            reason = f"rank {rank} ended before it had joined: see {self._work / f'rank-{rank}.log'}"
            raise PrepareFailedError(reason)
        self.check()

    def serve_with(self, width: int) -> None:
        """Says which ranks the engine cannot lose from now on: the first `width`."""
        self._serving = frozenset(range(width))

    async def ask(self, orders: dict[int, Message], kind: str) -> dict[int, Message]:
        """Sends each rank its order and waits for all answers, also where one fails: no answer is left behind.

        Raises:
            EngineDeadError: One of them is gone.
            PrepareFailedError: One of them could not prepare.
        """
        self.check()
        for rank, order in orders.items():
            self.links[rank].send(order)
        links = [self.links[rank] for rank in orders]
        answers = await asyncio.gather(*(link.answer(kind) for link in links), return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        if failures:
            raise min(failures, key=lambda error: not isinstance(error, EngineDeadError))
        return dict(zip(orders, [answer for answer in answers if isinstance(answer, dict)], strict=True))

    def check(self) -> None:
        """Raises `EngineDeadError` where the engine is dead."""
        if self.died is not None:
            raise EngineDeadError(self.died)

    async def remove(self, ranks: Iterable[int]) -> None:
        """Ends ranks that nobody needs, and waits until they are gone."""
        leaving = {rank: self._processes[rank] for rank in ranks if rank in self._processes}
        self._leaving.update(leaving)
        for rank, process in leaving.items():
            if rank in self.links:
                self.links[rank].send({"op": "stop"})
            else:
                process.kill()
        for rank, process in leaving.items():
            await process.gone(self._settings.timeout_s)
            self._processes.pop(rank, None)  # a resize that is given up meanwhile may have removed it
        self._leaving.difference_update(leaving)
        self._on_change()

    async def close(self) -> None:
        """Ends all ranks."""
        await self.remove(list(self._processes))
        await self._children.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keeps one rank's connection from its first word to its end."""
        try:
            hello = await read_message(reader)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        rank, pid = hello["rank"], hello["pid"]
        link = Link(rank, reader, writer)
        self.links[rank] = link
        self.members[rank] = Member(rank, pid, start_ticks(pid), self._generation)
        await self._tell()
        reason = await link.listen()
        writer.close()
        del self.links[rank], self.members[rank]
        link.break_off(self._verdict(rank, reason))
        if self.died is not None:
            for other in self.links.values():
                other.break_off(EngineDeadError(self.died))
        await self._tell()

    def _verdict(self, rank: int, reason: str) -> Exception:
        """What the loss of a rank means."""
        if rank in self._serving and rank not in self._leaving:
            self.died = self.died or reason
            return EngineDeadError(reason)
        return PrepareFailedError(reason)

    async def _until_joined(self, wanted: set[int]) -> None:
        async with self._joined:
            await self._joined.wait_for(lambda: self.died is not None or wanted <= set(self.links))

    async def _tell(self) -> None:
        self._on_change()
        async with self._joined:
            self._joined.notify_all()


def start_ticks(pid: int) -> int:
    """When the kernel started a process, in its ticks since boot; 0 where the process is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[19])


def as_json(members: Iterable[Member]) -> list[dict[str, Any]]:
    """Members as files say them."""
    return [vars(member) for member in sorted(members, key=lambda one: one.rank)]
