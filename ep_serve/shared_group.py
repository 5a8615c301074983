"""A `Group` through memory that two processes share; a byte over a Unix socket says that something lies there.

Each pair of ranks has one socket and, in each direction, one anonymous memory file of two halves, handed over through the
socket: nothing has a name in a file system, and nothing outlives the processes. Halves alternate. When a rank writes the
same half again it has had the peer's next message, which the peer sent after it had read the half.
"""

from __future__ import annotations

import mmap
import os
import socket
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

_BELL = struct.Struct("<q")
_FLOAT_BYTES = 4
_RETRY_S = 0.02


@dataclass
class _Pair:
    """One peer."""

    bell: socket.socket
    outbox: Tensor
    inbox: Tensor
    num_sent: int = 0
    num_received: int = 0


class SharedGroup:
    """As `ep_serve.group.Group` says."""

    def __init__(self, meeting: str, rank: int, width: int, capacity: int, timeout_s: float) -> None:
        """Meets the other ranks at abstract Unix sockets.

        Args:
            meeting: Unique to the group.
            rank: This rank.
            width: Number of ranks.
            capacity: Bytes that one rank sends another at most in one exchange.
            timeout_s: Bound of every wait.

        Raises:
            OSError: Not all ranks came in time.
        """
        self.rank, self.width = rank, width
        self._half_floats = -(-capacity // _FLOAT_BYTES)
        self._pairs: dict[int, _Pair] = {}
        deadline = time.monotonic() + timeout_s
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
            door.bind(_address(meeting, rank))
            door.listen(width)
            for peer in range(rank):
                self._add(peer, _call(_address(meeting, peer), rank, deadline), timeout_s)
            for _ in range(rank + 1, width):
                door.settimeout(max(0.001, deadline - time.monotonic()))
                bell, _ = door.accept()
                bell.settimeout(timeout_s)
                self._add(_BELL.unpack(_exactly(bell))[0], bell, timeout_s)

    def exchange(self, x_NW: Tensor, num_to_R: list[int], num_from_R: list[int] | None) -> tuple[Tensor, list[int]]:
        """As the protocol says; the counts travel with the bell, so that known ones save nothing."""
        parts = list(torch.split(x_NW, num_to_R))
        for peer, pair in self._pairs.items():
            self._post(pair, parts[peer])
        columns = x_NW.shape[1]
        received = []
        for source in range(self.width):
            part = parts[source] if source == self.rank else self._take(self._pairs[source]).view(-1, columns)
            if num_from_R is not None and len(part) != num_from_R[source]:
                msg = f"rank {source} sent {len(part)} rows, expected {num_from_R[source]}"
                raise RuntimeError(msg)
            received.append(part)
        return torch.cat(received), [len(part) for part in received]

    def send(self, tensor: Tensor, target: int) -> None:
        """As the protocol says; in pieces, each acknowledged."""
        pair = self._pairs[target]
        for piece in torch.split(tensor.reshape(-1), self._half_floats):
            self._post(pair, piece)
            self._take(pair)

    def receive(self, tensor: Tensor, source: int) -> None:
        """As the protocol says."""
        pair = self._pairs[source]
        for piece in torch.split(tensor.view(-1), self._half_floats):
            piece.copy_(self._take(pair))
            self._post(pair, piece[:0])

    def close(self) -> None:
        """Closes the sockets; the memory goes with the last tensor that looks into it."""
        for pair in self._pairs.values():
            pair.bell.close()
        self._pairs.clear()

    def _add(self, peer: int, bell: socket.socket, timeout_s: float) -> None:
        """Makes the own outbox, hands it over, and takes the peer's."""
        bell.settimeout(timeout_s)
        size = 2 * self._half_floats * _FLOAT_BYTES
        own = os.memfd_create(f"ep_serve.{self.rank}.{peer}")
        os.ftruncate(own, size)
        socket.send_fds(bell, [b"f"], [own])
        message, files, _, _ = socket.recv_fds(bell, 1, 1)
        if message != b"f" or len(files) != 1:
            msg = f"rank {peer} gave no memory"
            raise OSError(msg)
        outbox, inbox = (_as_tensor(file, size) for file in (own, files[0]))
        self._pairs[peer] = _Pair(bell, outbox, inbox)

    def _post(self, pair: _Pair, part: Tensor) -> None:
        size = part.numel()
        if size > self._half_floats:
            msg = f"{size} floats for one rank, there is room for {self._half_floats}"
            raise RuntimeError(msg)
        start = (pair.num_sent % 2) * self._half_floats
        pair.outbox[start : start + size] = part.reshape(-1)
        pair.num_sent += 1
        pair.bell.sendall(_BELL.pack(size))

    def _take(self, pair: _Pair) -> Tensor:
        """The next message, as a view that holds until the one after the next is taken."""
        size: int = _BELL.unpack(_exactly(pair.bell))[0]
        start = (pair.num_received % 2) * self._half_floats
        pair.num_received += 1
        return pair.inbox[start : start + size]


def _address(meeting: str, rank: int) -> str:
    """An address without a file; Linux clears it when the socket closes."""
    return f"\0{meeting[-80:]}.{rank}"


def _call(address: str, rank: int, deadline: float) -> socket.socket:
    """Connects to a rank that may not listen yet, and says who calls."""
    while True:
        bell = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            bell.connect(address)
        except ConnectionRefusedError:
            bell.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            bell.sendall(_BELL.pack(rank))
            return bell


def _exactly(bell: socket.socket) -> bytes:
    """One whole bell.

    Raises:
        OSError: The peer is gone, or silent for too long.
    """
    data = b""
    while len(data) < _BELL.size:
        piece = bell.recv(_BELL.size - len(data))
        if not piece:
            msg = "a rank has closed its end"
            raise ConnectionError(msg)
        data += piece
    return data


def _as_tensor(file: int, size: int) -> Tensor:
    """The memory file as floats; the file's number is given back, the mapping stays."""
    memory = mmap.mmap(file, size)
    os.close(file)
    return torch.frombuffer(memory, dtype=torch.float32)
