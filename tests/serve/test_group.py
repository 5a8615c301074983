"""Both transports deliver the same rows, in the same order, and say so when a rank is gone."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
import torch

from ep_serve.group import Group, join
from ep_serve.settings import Transport

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from torch import Tensor


def together(folder: Path, transport: Transport, width: int, act: Callable[[Group], Any], **options: Any) -> list[Any]:
    """What each rank of a fresh group returns; ranks are threads."""
    meeting = str(folder / uuid.uuid4().hex)

    def run(rank: int) -> Any:
        group = join(transport, meeting, rank, width, **{"capacity": 4096, "timeout_s": 10.0, **options})
        try:
            return act(group)
        finally:
            group.close()

    with ThreadPoolExecutor(width) as pool:
        return list(pool.map(run, range(width)))


def rows(source: int, target: int, num_rows: int, turn: int) -> Tensor:
    """Rows that say where they come from, where they go, and when."""
    return torch.tensor([[source, target, row, turn] for row in range(num_rows)], dtype=torch.float32).view(-1, 4)


@pytest.mark.parametrize("transport", list(Transport))
@pytest.mark.parametrize("width", [1, 2, 4])
def test_exchange(tmp_path: Path, transport: Transport, width: int) -> None:
    """Rank r gets the rows that were for r, those of rank 0 first, whether it knew their number or not; also none."""

    def act(group: Group) -> None:
        for turn in range(5):
            num_to = [(group.rank + target * turn) % 3 for target in range(width)]
            num_from = [(source + group.rank * turn) % 3 for source in range(width)]
            sent = torch.cat([rows(group.rank, target, num, turn) for target, num in enumerate(num_to)])
            expected = torch.cat([rows(source, group.rank, num, turn) for source, num in enumerate(num_from)])
            received, counts = group.exchange(sent, num_to, num_from if turn % 2 else None)
            assert num_from == counts
            assert torch.equal(expected, received)

    together(tmp_path, transport, width, act)


@pytest.mark.parametrize("transport", list(Transport))
def test_tensors_larger_than_the_room_of_an_exchange(tmp_path: Path, transport: Transport) -> None:
    """Weights travel whole, in pieces where they must."""

    def act(group: Group) -> bool:
        sent = torch.arange(5000, dtype=torch.float32).view(50, 100)
        if group.rank == 0:
            group.send(sent, 1)
            group.send(sent * 2, 1)
            return True
        received = [torch.zeros(50, 100) for _ in range(2)]
        for tensor in received:
            group.receive(tensor, 0)
        return torch.equal(sent, received[0]) and torch.equal(sent * 2, received[1])

    assert [True, True] == together(tmp_path, transport, 2, act)


def test_more_than_the_room_is_an_error(tmp_path: Path) -> None:
    """Shared memory has a bound, and nothing is written beyond it."""

    def act(group: Group) -> str:
        with pytest.raises(RuntimeError) as caught:
            group.exchange(torch.zeros(10, 4), [5, 5], None)
        return str(caught.value)

    assert ["20 floats for one rank, there is room for 16"] * 2 == together(
        tmp_path, Transport.SHARED_MEMORY, 2, act, capacity=64
    )


@pytest.mark.parametrize("transport", list(Transport))
def test_a_rank_that_goes_is_noticed(tmp_path: Path, transport: Transport) -> None:
    """Whoever waits for a rank that has left gets an error, not a wait without end."""
    left = threading.Event()

    def act(group: Group) -> str:
        if group.rank == 1:
            group.close()
            left.set()
            return "left"
        left.wait(5.0)
        with pytest.raises((RuntimeError, OSError)):
            group.exchange(torch.zeros(2, 4), [1, 1], None)
        return "noticed"

    assert ["noticed", "left"] == together(tmp_path, transport, 2, act, timeout_s=2.0)


def test_a_rank_that_never_comes(tmp_path: Path) -> None:
    """The meeting has a bound."""
    with pytest.raises(OSError, match=r"timed out|refused"):
        join(Transport.SHARED_MEMORY, str(tmp_path / "alone"), 0, 2, capacity=64, timeout_s=0.2)
