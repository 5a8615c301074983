"""From an exception to a rank's own account: status, reason code, and whether it merely saw a peer die."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

import torch
from torch import distributed as dist

from ep_worker.contract.terms import Status
from ep_worker.gates import InadmissibleError
from ep_worker.reason import Reason

MAX_REASON_CHARS = 2000

_TIMED_OUT = re.compile(r"timed out|timeout", re.IGNORECASE)
_PEER_GONE = re.compile(
    r"connection (closed|reset|refused|was likely closed)|broken pipe|remote process exited|"
    r"application timeout caused pair closure|socket (closed|error)",
    re.IGNORECASE,
)


class Stage(str, Enum):
    """What a rank is doing; it decides what an exception means."""

    JOIN = "join"
    WORKLOAD = "workload"
    BUILD = "build"
    MEASURE = "measure"
    REPORT = "report"


class PeerLostError(RuntimeError):
    """A peer gave up, and told this rank so."""


class BarrierTimeoutError(RuntimeError):
    """A peer did not arrive at a barrier in time."""


class RendezvousTimeoutError(RuntimeError):
    """Not all ranks arrived in time."""


class MissingBackendError(RuntimeError):
    """The backend is unknown or cannot be imported."""


class MissingDeviceError(RuntimeError):
    """There is no device for this rank."""


class WorkloadError(RuntimeError):
    """The workload cannot be made from what lies beside the spec."""


@dataclass(frozen=True)
class Failure:
    """Why a rank gives up; `secondary` where a peer's end is the cause, so that the peer's account goes before this one."""

    status: Status
    reason_code: Reason
    reason: str
    secondary: bool


_BY_TYPE: tuple[tuple[type[BaseException], Status, Reason], ...] = (
    (PeerLostError, Status.CRASHED, Reason.PEER_LOST),
    (BarrierTimeoutError, Status.TIMED_OUT, Reason.COLLECTIVE_TIMEOUT),
    (RendezvousTimeoutError, Status.TIMED_OUT, Reason.RENDEZVOUS_TIMEOUT),
    (MissingBackendError, Status.INADMISSIBLE, Reason.MISSING_BUILD),
    (MissingDeviceError, Status.INADMISSIBLE, Reason.MISSING_DEVICE),
    (WorkloadError, Status.CRASHED, Reason.WORKLOAD_UNREADABLE),
    (torch.OutOfMemoryError, Status.CRASHED, Reason.OUT_OF_MEMORY),
    (MemoryError, Status.CRASHED, Reason.OUT_OF_MEMORY),
)


def account(error: BaseException, stage: Stage) -> Failure:
    """What an exception that ends a rank says about its start."""
    status, code = _kind(error, stage)
    text = f"{type(error).__name__} during {stage.value}: {error}"
    return Failure(status, code, text[:MAX_REASON_CHARS], code is Reason.PEER_LOST)


def _kind(error: BaseException, stage: Stage) -> tuple[Status, Reason]:
    if isinstance(error, InadmissibleError):
        return Status.INADMISSIBLE, error.code
    for known, status, code in _BY_TYPE:
        if isinstance(error, known):
            return status, code
    if isinstance(error, dist.DistError) or _from_collective(error):
        # The libraries tell a dead peer from a slow one in words only.
        if _TIMED_OUT.search(str(error)):
            return Status.TIMED_OUT, Reason.RENDEZVOUS_TIMEOUT if stage is Stage.JOIN else Reason.COLLECTIVE_TIMEOUT
        if _PEER_GONE.search(str(error)):
            return Status.CRASHED, Reason.PEER_LOST
    return Status.CRASHED, Reason.BACKEND_RAISED if stage in (Stage.BUILD, Stage.MEASURE) else Reason.WORKER_RAISED


def _from_collective(error: BaseException) -> bool:
    """Whether torch.distributed raised it: gloo has no exception type of its own."""
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_globals.get("__name__", "").startswith("torch.distributed"):
            return isinstance(error, RuntimeError)
        frame = frame.tb_next
    return False
