"""Was the transport the one that was asked? From a verbose log once for each arm, from NIC counters in every scored start.

A start whose bytes went over sockets has measured something else: it is `inadmissible`, whatever its latencies are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ep_campaign.custody.netlog import NetLog

MIN_SHARE = 0.5
"""Share of the bytes that a start must send to other nodes which its NICs must have counted: counters are read around the
whole start, warm-ups and oracle included, so that a sound start counts more than all of them."""

GIN_GDAKI = "Libfabric_GDAKI type 5"


class Fabric(StrEnum):
    """What joins the nodes."""

    EFA = "efa"
    INFINIBAND = "infiniband"
    SOCKET = "socket"
    NONE = "none"


class Stack(StrEnum):
    """Which library moves an arm's bytes between nodes."""

    NCCL = "nccl"
    NCCL_GIN = "nccl_gin"
    NVSHMEM = "nvshmem"
    UCCL = "uccl"
    GLOO = "gloo"


_OVER_NCCL = (Stack.NCCL, Stack.NCCL_GIN)
"""What NCCL's own network carries; for the others it only carries barriers, and its lines say nothing of theirs."""


class Outcome(StrEnum):
    """PROVED; REFUTED: something else carried the bytes; SILENT: the evidence does not say. Only PROVED is admissible."""

    PROVED = "proved"
    REFUTED = "refuted"
    SILENT = "silent"


@dataclass(frozen=True)
class Proof:
    """What was found.

    Attributes:
        outcome: See `Outcome`.
        reason_code: Stable code; empty where proved.
        reason: Found, expected, what to do; where proved, what proves it.
        evidence: Lines or counters that it rests on.
    """

    outcome: Outcome
    reason_code: str
    reason: str
    evidence: tuple[str, ...] = ()

    @property
    def admissible(self) -> bool:
        """Whether a start with this proof may carry latencies."""
        return self.outcome is Outcome.PROVED

    def as_json(self) -> dict[str, Any]:
        """For a record."""
        return {
            "outcome": self.outcome.value,
            "reason_code": self.reason_code,
            "reason": self.reason,
            "evidence": list(self.evidence),
        }


def stack_of(backend: str) -> Stack:
    """The library that moves a backend's bytes; what torch's process group calls NCCL counts as NCCL."""
    known = {"deepep-v2": Stack.NCCL_GIN, "deepep-v1": Stack.NVSHMEM, "uccl": Stack.UCCL}
    return known.get(backend, Stack.NCCL)


def environment(stack: Stack) -> dict[str, str]:
    """Variables that make a stack say what it uses; set in the one verbose run of an arm, never in a scored start."""
    nccl = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH"}
    return {
        Stack.GLOO: {},
        Stack.NCCL: nccl,
        Stack.NCCL_GIN: {**nccl, "EP_BUFFER_DEBUG": "1", "FI_LOG_LEVEL": "info", "FI_LOG_SUBSYS": "fabric"},
        Stack.NVSHMEM: {**nccl, "NVSHMEM_DEBUG": "INFO", "NVSHMEM_INFO": "1"},
        Stack.UCCL: nccl,
    }[stack]


def judge_log(stack: Stack, fabric: Fabric, log: NetLog, num_nics: int = 0) -> Proof:
    """Judges what a verbose run logged.

    Args:
        stack: The arm's library.
        fabric: What was asked to carry the bytes.
        log: What the logs of its ranks say.
        num_nics: NICs that a pod was given; fewer found is refuted. 0 for any number.
    """
    if fabric in (Fabric.NONE, Fabric.SOCKET):
        return Proof(Outcome.PROVED, "", f"no fabric is asked for ({fabric.value}): nothing to prove")
    refuted = fallback(stack, log)
    if refuted is None and stack in _OVER_NCCL and fabric is Fabric.EFA:
        refuted = _provider(log, num_nics)
    if refuted is not None:
        return refuted
    return {
        Stack.NCCL: _nccl,
        Stack.NCCL_GIN: _gin,
        Stack.NVSHMEM: _nvshmem,
        Stack.UCCL: _uccl,
        Stack.GLOO: _gloo,
    }[stack](log, fabric)


def fallback(stack: Stack, log: NetLog) -> Proof | None:
    """What a log says against the transport; None where it says nothing, as the log of a quiet run does."""
    refuted = _failed(log, stack)
    if refuted is None and stack in _OVER_NCCL:
        refuted = _fallback(log)
    return refuted


def judge_counters(
    before: Mapping[str, Mapping[str, int]],
    after: Mapping[str, Mapping[str, int]],
    least_bytes: int,
) -> Proof:
    """Judges one pod's NIC counters around a start.

    Args:
        before: Counters of each device before the ranks began.
        after: The same after they ended.
        least_bytes: What the route sends to other nodes from this pod's ranks in its timed iterations [bytes].
    """
    if not before or not after:
        return Proof(
            Outcome.SILENT, "no_nic_counters", "the pod saw no NIC counters: are the fabric's devices in the pod?"
        )
    gone = sorted(set(before) - set(after))
    moved = {nic: moved_bytes(before[nic], after[nic]) for nic in sorted(set(before) & set(after))}
    backwards = [nic for nic, num in moved.items() if num < 0]
    if gone or backwards:
        which = ", ".join([*gone, *backwards])
        return Proof(
            Outcome.SILENT, "nic_reset", f"counters of {which} vanished or ran backwards: the device was reset"
        )
    total = sum(moved.values())
    evidence = tuple(f"{nic}: {num} bytes sent" for nic, num in moved.items())
    if total < MIN_SHARE * least_bytes:
        message = (
            f"NICs sent {total} bytes, the route sends at least {least_bytes} to other nodes: something else carried them "
            f"(sockets do not count here); read the arm's log of admission"
        )
        return Proof(Outcome.REFUTED, "bytes_not_on_fabric", message, evidence)
    used = sum(num > 0 for num in moved.values())
    return Proof(
        Outcome.PROVED,
        "",
        f"{used} of {len(moved)} NICs sent {total} bytes, at least {least_bytes} were to be sent",
        evidence,
    )


def moved_bytes(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    """Bytes that a NIC sent; negative where a counter ran backwards.

    EFA counts writes, answers to reads and sends apart, and drivers differ in what of it `tx_bytes` holds; InfiniBand counts
    all in one. The largest of the three is what was sent at least.
    """
    ways = (("rdma_write_bytes", "rdma_read_resp_bytes", "send_bytes"), ("tx_bytes",), ("port_xmit_data_bytes",))
    sums = [sum(after[name] - before.get(name, 0) for name in way if name in after) for way in ways]
    return min(sums) if min(sums) < 0 else max(sums)


def worst(proofs: Iterable[Proof]) -> Proof:
    """The proof that decides over several pods."""
    order = (Outcome.PROVED, Outcome.SILENT, Outcome.REFUTED)
    return max(proofs, key=lambda proof: order.index(proof.outcome))


def _fallback(log: NetLog) -> Proof | None:
    sockets = any(name.startswith("NET/Socket") for name in log.channels)
    if "Socket" in log.networks or sockets:
        message = "NCCL uses sockets between nodes: is its plugin in the image, are the fabric's devices in the pod?"
        return Proof(Outcome.REFUTED, "socket_fallback", message, tuple(log.lines))
    if log.providers and "efa" not in log.providers:
        found = ", ".join(sorted(log.providers))
        message = f"the plugin selected {found}, expected efa: its banner proves nothing, it stands over TCP too"
        return Proof(Outcome.REFUTED, "wrong_provider", message, tuple(log.lines))
    return None


def _failed(log: NetLog, stack: Stack) -> Proof | None:
    mine = [line for line in log.failures if stack is Stack.NCCL_GIN or "GIN/Plugin" not in line]
    if not mine:
        return None
    return Proof(
        Outcome.REFUTED, "transport_failed", f"a transport could not be used: {mine[0][:300]}", tuple(mine[:10])
    )


def _provider(log: NetLog, num_nics: int) -> Proof | None:
    if "efa" not in log.providers:
        message = "no line says which libfabric provider was selected: run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS with NET"
        return Proof(Outcome.SILENT, "no_provider_line", message, tuple(log.lines))
    if 0 < log.providers["efa"] < num_nics:
        message = (
            f"the plugin found {log.providers['efa']} NICs, the pod was given {num_nics}: the others are not usable"
        )
        return Proof(Outcome.REFUTED, "too_few_nics", message, tuple(log.lines))
    return None


def _nccl(log: NetLog, fabric: Fabric) -> Proof:
    expected = "Libfabric" if fabric is Fabric.EFA else "IB"
    named = any(expected in name for name in log.networks)
    joined = any(name.startswith("NET/") and expected in name for name in log.channels)
    if named or joined:
        return Proof(Outcome.PROVED, "", f"NCCL uses {expected} between nodes", tuple(log.lines))
    message = f"no line says that NCCL uses {expected}; found networks: {', '.join(sorted(log.networks)) or 'none'}"
    return Proof(Outcome.SILENT, "no_network_line", message, tuple(log.lines))


def _gin(log: NetLog, fabric: Fabric) -> Proof:
    base = _nccl(log, fabric)
    if not base.admissible or fabric is not Fabric.EFA:
        return base
    if GIN_GDAKI in log.gin:
        return Proof(Outcome.PROVED, "", f"GIN plugin {GIN_GDAKI} was assigned to a communicator", tuple(log.lines))
    if log.gin:
        found = ", ".join(sorted(log.gin))
        message = f"the communicator got {found}, expected {GIN_GDAKI}: set NCCL_GIN_TYPE=5; both load, one is used"
        return Proof(Outcome.REFUTED, "wrong_gin_plugin", message, tuple(log.lines))
    message = f"no line says which GIN plugin was assigned, expected {GIN_GDAKI}; that it was loaded proves nothing"
    return Proof(Outcome.SILENT, "no_gin_line", message, tuple(log.lines))


def _nvshmem(log: NetLog, fabric: Fabric) -> Proof:
    expected = "libfabric" if fabric is Fabric.EFA else "ibgda"
    others = sorted(log.nvshmem - {expected})
    if expected not in log.nvshmem:
        if others:
            message = (
                f"NVSHMEM selected {', '.join(others)}, expected {expected}; it falls back in silence: set "
                f"NVSHMEM_REMOTE_TRANSPORT={expected}"
            )
            return Proof(Outcome.REFUTED, "wrong_nvshmem_transport", message, tuple(log.lines))
        return Proof(Outcome.SILENT, "no_nvshmem_line", "no line of NVSHMEM says what it selected", tuple(log.lines))
    if fabric is Fabric.EFA and log.nvshmem_providers - {"efa"}:
        message = f"NVSHMEM's libfabric provider is {', '.join(sorted(log.nvshmem_providers))}, expected efa: its default is cxi"
        return Proof(Outcome.REFUTED, "wrong_provider", message, tuple(log.lines))
    return Proof(Outcome.PROVED, "", f"NVSHMEM selected {expected}", tuple(log.lines))


def _uccl(log: NetLog, fabric: Fabric) -> Proof:
    prefix = "rdmap" if fabric is Fabric.EFA else ""
    others = sorted(nic for nic in log.uccl_nics if not nic.startswith(prefix))
    if not log.uccl_nics:
        return Proof(Outcome.SILENT, "no_uccl_line", "no line says which NIC UCCL opened", tuple(log.lines))
    if others:
        message = f"UCCL opened {', '.join(others)}, expected EFA devices ({prefix}*): set UCCL_IB_HCA={prefix}"
        return Proof(Outcome.REFUTED, "wrong_nic", message, tuple(log.lines))
    return Proof(Outcome.PROVED, "", f"UCCL opened {len(log.uccl_nics)} NICs of the fabric", tuple(log.lines))


def _gloo(log: NetLog, fabric: Fabric) -> Proof:
    message = (
        f"gloo carries bytes over sockets, and {fabric.value} was asked for: choose a place whose fabric is socket"
    )
    return Proof(Outcome.REFUTED, "socket_fallback", message, tuple(log.lines))
