"""What carries a group, observed on the process itself: the sockets and the shared memory that it gained with the group."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

_ESTABLISHED = "01"
_LOOPBACK_HEX = "0100007F"
_SHARED_MARK = "/memfd:ep_serve"


@dataclass(frozen=True)
class Seen:
    """What a process holds.

    Attributes:
        num_tcp_sockets: Connected TCP sockets.
        num_tcp_loopback: Of these, to 127.0.0.1.
        num_shared_maps: Mapped memory files of this engine.
    """

    num_tcp_sockets: int
    num_tcp_loopback: int
    num_shared_maps: int


class Evidence:
    """Looks at this process and writes what it saw to the rank's log, one line a group."""

    def __init__(self, rank: int, asked: str) -> None:
        self._rank, self._asked = rank, asked

    def look(self) -> Seen:
        """What this process holds now."""
        own = _socket_inodes()
        peers = [peer for peer, inode in _tcp_table() if inode in own]
        maps = Path("/proc/self/maps").read_text(encoding="ascii", errors="replace")
        return Seen(len(peers), sum(peer.startswith(_LOOPBACK_HEX) for peer in peers), maps.count(_SHARED_MARK))

    def log(self, generation: int, before: Seen) -> dict[str, int]:
        """What was gained since `before`; also one line on standard error."""
        now = self.look()
        gained = {name: value - getattr(before, name) for name, value in asdict(now).items()}
        words = " ".join(f"{name}={value}" for name, value in gained.items())
        sys.stderr.write(
            f"ep_serve rank {self._rank}: generation {generation}: transport asked={self._asked} {words}\n"
        )
        sys.stderr.flush()
        return gained


def _socket_inodes() -> set[str]:
    inodes = set()
    for entry in os.scandir("/proc/self/fd"):
        try:
            target = os.readlink(entry.path)  # noqa: PTH115 - thousands of Path objects would be made for nothing
        except FileNotFoundError:
            continue  # the folder's own handle
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes


def _tcp_table() -> list[tuple[str, str]]:
    """Peer address and inode of every connected TCP socket of this network namespace."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    return [(row[2], row[9]) for row in rows if row[3] == _ESTABLISHED]
