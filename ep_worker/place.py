"""Where one rank stands: which rank of which start, on which node, and how it finds the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ep_worker.contract.spec import StartSpec


@dataclass(frozen=True)
class Endpoint:
    """A TCP address."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Endpoint:
        """From HOST:PORT.

        Raises:
            ValueError: It is not that.
        """
        host, separator, port = text.rpartition(":")
        if not (separator and host and port.isdecimal() and 0 < int(port) < 65536):
            msg = f"rendezvous is {text!r}, expected HOST:PORT with a port from 1 to 65535"
            raise ValueError(msg)
        return cls(host.strip("[]"), int(port))


@dataclass(frozen=True)
class Place:
    """One rank's place.

    Attributes:
        spec: What the start measures.
        spec_folder: Where a trace's path starts.
        out: Folder of the rank's files.
        rank: Global rank.
        local_rank: Rank on its node; the number of its device, where ranks do not share one.
        num_local_ranks: Ranks of its node.
        store: Where the ranks meet; None under a foreign launcher, whose environment says it.
        worker_digest: Digest of this package's sources.
        launched_at_ns: When the launcher began, on the machine's monotonic clock.
    """

    spec: StartSpec
    spec_folder: Path
    out: Path
    rank: int
    local_rank: int
    num_local_ranks: int
    store: Endpoint | None
    worker_digest: str
    launched_at_ns: int
