"""What ranks exchange tokens and weights through, and its form over gloo (TCP, loopback).

Groups are independent of torch's default group and of one another: a standby group is built and used beside the serving one.
Shapes: N rows that a rank sends, M rows that it receives, W columns, R ranks.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import distributed as dist
from torch.distributed import FileStore  # type: ignore[attr-defined] # public, missing in torch's own types

from ep_serve.settings import Transport

if TYPE_CHECKING:
    from torch import Tensor

LOOPBACK = "127.0.0.1"


class Group(Protocol):
    """Ranks 0 to `width` - 1 of one generation.

    Attributes:
        rank: This rank.
        width: Number of ranks.
    """

    rank: int
    width: int

    def exchange(self, x_NW: Tensor, num_to_R: list[int], num_from_R: list[int] | None) -> tuple[Tensor, list[int]]:
        """Sends consecutive rows to the ranks in turn; every rank must call it.

        Args:
            x_NW: Float rows, those of rank 0 first.
            num_to_R: Rows for each rank.
            num_from_R: Rows from each rank where they are known; None makes them known.

        Returns:
            Received rows [M, W], those of rank 0 first, and how many came from each rank.
        """

    def send(self, tensor: Tensor, target: int) -> None:
        """Sends one tensor to a rank that calls `receive` for it; in order."""

    def receive(self, tensor: Tensor, source: int) -> None:
        """Fills a tensor with what a rank sends."""

    def close(self) -> None:
        """Lets go of what it holds."""


class GlooGroup:
    """A `Group` over TCP sockets of the loopback interface."""

    def __init__(self, store: Path, rank: int, width: int, timeout_s: float) -> None:
        """Meets the other ranks at a file.

        Args:
            store: File of the rendezvous; one for each group.
            rank: This rank.
            width: Number of ranks.
            timeout_s: Bound of the meeting and of every exchange.

        Raises:
            RuntimeError: Not all ranks came in time.
        """
        self.rank, self.width = rank, width
        gloo: Any = dist.ProcessGroupGloo  # its types are not public
        options = gloo._Options()  # noqa: SLF001 - the only way to a group beside the default one
        options._timeout = timedelta(seconds=timeout_s)  # noqa: SLF001
        options._threads = 2  # noqa: SLF001 - with one, every exchange waits 4 ms for it
        options._devices = [gloo.create_device(hostname=LOOPBACK)]  # noqa: SLF001
        meeting = FileStore(str(store), width)
        meeting.set_timeout(timedelta(seconds=timeout_s))
        self._gloo: Any = gloo(meeting, rank, width, options)

    def exchange(self, x_NW: Tensor, num_to_R: list[int], num_from_R: list[int] | None) -> tuple[Tensor, list[int]]:
        """As the protocol says; unknown counts cost an exchange of their own."""
        if num_from_R is None:
            counts_R = torch.tensor(num_to_R, dtype=torch.int64)
            received_R = torch.empty_like(counts_R)
            self._all_to_all(received_R, counts_R, [], [])
            num_from_R = received_R.tolist()
        received_MW = x_NW.new_empty((sum(num_from_R), x_NW.shape[1]))
        self._all_to_all(received_MW, x_NW.contiguous(), num_from_R, num_to_R)
        return received_MW, num_from_R

    def send(self, tensor: Tensor, target: int) -> None:
        """As the protocol says."""
        self._gloo.send([tensor], target, 0).wait()

    def receive(self, tensor: Tensor, source: int) -> None:
        """As the protocol says."""
        self._gloo.recv([tensor], source, 0).wait()

    def close(self) -> None:
        """Closes its sockets, once nothing else holds the group."""
        self._gloo = None

    def _all_to_all(self, out: Tensor, own: Tensor, num_from_R: list[int], num_to_R: list[int]) -> None:
        self._gloo.alltoall_base(out, own, num_from_R, num_to_R, dist.AllToAllOptions()).wait()


def join(transport: Transport, meeting: str, rank: int, width: int, *, capacity: int, timeout_s: float) -> Group:
    """This rank's end of a new group.

    Args:
        transport: What carries it.
        meeting: Absolute path, unique to the group, short of a suffix.
        rank: This rank.
        width: Number of ranks.
        capacity: Bytes that one rank sends another at most in one exchange.
        timeout_s: Bound of every wait.
    """
    if transport is Transport.TCP:
        return GlooGroup(Path(f"{meeting}.store"), rank, width, timeout_s)
    from ep_serve.shared_group import SharedGroup  # noqa: PLC0415 - Linux only, unlike the rest

    return SharedGroup(meeting, rank, width, capacity, timeout_s)
