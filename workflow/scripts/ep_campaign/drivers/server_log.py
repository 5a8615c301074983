"""What an engine's own log says: completion calls by status, and what its collectives run over."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from ep_campaign.custody.netlog import read_log
from ep_campaign.drivers.driver import TransportProof

_ACCESS = re.compile(r'"POST /v1/(?:chat/)?completions(?:\?\S*)? HTTP/1\.[01]" (\d{3})')


@dataclass(frozen=True)
class NcclTransport:
    """What NCCL's own lines say (`NCCL_DEBUG=INFO`).

    Attributes:
        networks: Names after `Using network`, such as IB or Socket.
        channels: Kinds of channel that were connected, such as NET/IB, NET/Socket, P2P, SHM.
        gpu_direct: Whether a network channel goes through GPU Direct RDMA; None where there is no network channel.
    """

    networks: tuple[str, ...]
    channels: tuple[str, ...]
    gpu_direct: bool | None


def transport_proof(text: str | None) -> TransportProof:
    """What NCCL's lines in a log prove; several networks, or none, prove nothing.

    Args:
        text: The log; None where it cannot be read.
    """
    found = None if text is None else nccl_transport(text)
    if found is None:
        return TransportProof(None, None, "no line of NCCL's about its transport (NCCL_DEBUG=INFO) could be read")
    name = found.networks[0] if len(found.networks) == 1 else None
    words = f"networks {', '.join(found.networks) or 'none'}; channels {', '.join(found.channels) or 'none'}"
    return TransportProof(name, found.gpu_direct, words)


def count_completions(text: str) -> dict[str, int]:
    """Completion calls by HTTP status, from the access lines of uvicorn."""
    return dict(sorted(Counter(_ACCESS.findall(text)).items()))


def nccl_transport(text: str) -> NcclTransport | None:
    """What a log proves of the transport; None where it holds no line of NCCL's about it."""
    found = read_log(text)
    if not found.networks and not found.channels:
        return None
    kinds = {"/".join(one.split("/")[: 2 if one.startswith("NET/") else 1]) for one in found.channels}
    network_channels = [one for one in found.channels if one.startswith("NET/")]
    direct = all("GDRDMA" in one for one in network_channels) if network_channels else None
    return NcclTransport(tuple(sorted(found.networks)), tuple(sorted(kinds)), direct)
