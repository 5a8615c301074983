"""The spin barrier: nobody passes before all have come; who waits in vain says for whom."""

from __future__ import annotations

import mmap
import threading
import time

import pytest

from ep_worker.barrier import SpinBarrier
from ep_worker.failure import BarrierTimeoutError, PeerLostError


def barriers(num_ranks: int, timeout_s: float = 20.0) -> list[SpinBarrier]:
    page = mmap.mmap(-1, SpinBarrier.num_bytes(num_ranks))
    return [SpinBarrier(page, rank, num_ranks, timeout_s) for rank in range(num_ranks)]


def test_nobody_passes_early() -> None:
    """At every round each rank sees that all others have reached it, and none has gone two rounds on."""
    rounds = [0, 0, 0]
    seen: list[bool] = []

    def rank(own: int, barrier: SpinBarrier) -> None:
        for number in range(1, 101):
            rounds[own] = number
            barrier()
            seen.append(all(number <= other <= number + 1 for other in rounds))

    threads = [threading.Thread(target=rank, args=case) for case in enumerate(barriers(3))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [True] * 300 == seen


def test_a_rank_that_does_not_come_is_named() -> None:
    """Waiting ends after the bound, with the ranks that are missing."""
    first, second, _ = barriers(3, timeout_s=0.05)
    second._words[second._own] = 1

    with pytest.raises(BarrierTimeoutError, match=r"ranks \[2\] did not arrive at barrier 1 within 0\.05 s"):
        first()


def test_a_rank_that_gives_up_frees_the_others_at_once() -> None:
    """A peer's word ends the wait long before the bound."""
    first, second = barriers(2)
    threading.Timer(0.05, second.abort).start()
    began = time.monotonic()

    with pytest.raises(PeerLostError, match="gave up"):
        first()
    assert time.monotonic() - began < 5
