"""Barriers that line ranks up before a timed iteration.

What a barrier leaves in a latency is the skew with which ranks come out of it. Two ranks on two cores, gloo over loopback:
`dist.barrier` 34 us median skew (the decode round-trip itself takes about 300), spinning on a shared page without yielding
0.06 us but 4 ms whenever a peer needs the core, spinning with `sched_yield` 2 us. Hence the last, wherever all ranks
share a machine; elsewhere the collective one. Letting a rank that is through its iteration sleep until the others are too,
so that it leaves them its core, made more medians jump to a scheduler's tick, not fewer.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

from ep_worker.failure import BarrierTimeoutError, PeerLostError

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

_WORDS_PER_SLOT = 8  # one cache line of 64-bit words for each rank, so that ranks do not fight over a line
_SPINS_PER_CLOCK_READ = 1024


class Barrier(Protocol):
    """Returns when every rank has called it."""

    name: str

    def __call__(self) -> None:
        """Waits for all ranks.

        Raises:
            PeerLostError: A peer gave up.
            BarrierTimeoutError: A peer did not arrive in time.
        """

    def abort(self) -> None:
        """Tells waiting peers that this rank will not come."""


class CollectiveBarrier:
    """The process group's own barrier, followed by whatever makes the device idle again."""

    name = "collective"

    def __init__(self, wait: Callable[[], None]) -> None:
        self._wait = wait

    def __call__(self) -> None:
        """Waits for all ranks."""
        self._wait()

    def abort(self) -> None:
        """Does nothing: peers see this rank's sockets close."""


class SpinBarrier:
    """Ranks of one machine count rounds on a page that they share.

    Attributes:
        name: How records call it.
    """

    name = "spin"

    def __init__(self, page: mmap.mmap, rank: int, num_ranks: int, timeout_s: float) -> None:
        words = memoryview(page).cast("q")
        self._words = words
        self._own = rank * _WORDS_PER_SLOT
        self._peers = tuple(peer * _WORDS_PER_SLOT for peer in range(num_ranks) if peer != rank)
        self._aborted = num_ranks * _WORDS_PER_SLOT
        self._timeout_s = timeout_s
        self._round = 0

    @staticmethod
    def num_bytes(num_ranks: int) -> int:
        """Size of the shared page: a slot for each rank, and one that says that somebody gave up."""
        return 8 * _WORDS_PER_SLOT * (num_ranks + 1)

    def __call__(self) -> None:
        """Waits for all ranks."""
        self._round += 1
        words, arrived, give_way = self._words, self._round, os.sched_yield
        words[self._own] = arrived
        for peer in self._peers:
            spins = 0
            while words[peer] < arrived:
                give_way()
                spins += 1
                if spins % _SPINS_PER_CLOCK_READ == 0:
                    self._check(spins)

    def _check(self, spins: int) -> None:
        """Raises where waiting on is hopeless; the clock is read seldom, for reading it is not free."""
        if self._words[self._aborted]:
            msg = f"a peer gave up before barrier {self._round}; its own account says why"
            raise PeerLostError(msg)
        if spins == _SPINS_PER_CLOCK_READ:
            self._deadline = time.monotonic() + self._timeout_s
        elif time.monotonic() > self._deadline:
            late = [peer // _WORDS_PER_SLOT for peer in self._peers if self._words[peer] < self._round]
            msg = f"ranks {late} did not arrive at barrier {self._round} within {self._timeout_s:g} s"
            raise BarrierTimeoutError(msg)

    def abort(self) -> None:
        """Tells waiting peers that this rank will not come."""
        self._words[self._aborted] = 1
