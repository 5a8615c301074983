"""What an exception says about a start: its status, its code, and whether it is another rank's story."""

from __future__ import annotations

import pytest
import torch
from torch import distributed as dist

from ep_worker.contract.terms import Status
from ep_worker.failure import (
    BarrierTimeoutError,
    MissingBackendError,
    PeerLostError,
    RendezvousTimeoutError,
    Stage,
    WorkloadError,
    account,
)
from ep_worker.reason import Reason


@pytest.mark.parametrize(
    ("error", "stage", "status", "code"),
    [
        (ValueError("bad knob"), Stage.BUILD, Status.CRASHED, Reason.BACKEND_RAISED),
        (RuntimeError("connection closed by my own words"), Stage.MEASURE, Status.CRASHED, Reason.BACKEND_RAISED),
        (KeyError("x"), Stage.WORKLOAD, Status.CRASHED, Reason.WORKER_RAISED),
        (KeyError("x"), Stage.REPORT, Status.CRASHED, Reason.WORKER_RAISED),
        (torch.OutOfMemoryError("40 GiB"), Stage.BUILD, Status.CRASHED, Reason.OUT_OF_MEMORY),
        (MemoryError(), Stage.MEASURE, Status.CRASHED, Reason.OUT_OF_MEMORY),
        (MissingBackendError("uccl"), Stage.BUILD, Status.INADMISSIBLE, Reason.MISSING_BUILD),
        (WorkloadError("trace"), Stage.WORKLOAD, Status.CRASHED, Reason.WORKLOAD_UNREADABLE),
        (RendezvousTimeoutError("ranks [1]"), Stage.JOIN, Status.TIMED_OUT, Reason.RENDEZVOUS_TIMEOUT),
        (BarrierTimeoutError("ranks [1]"), Stage.MEASURE, Status.TIMED_OUT, Reason.COLLECTIVE_TIMEOUT),
        (dist.DistStoreError("wait timeout after 10ms"), Stage.JOIN, Status.TIMED_OUT, Reason.RENDEZVOUS_TIMEOUT),
        (dist.DistBackendError("Timed out waiting"), Stage.MEASURE, Status.TIMED_OUT, Reason.COLLECTIVE_TIMEOUT),
        (dist.DistNetworkError("Connection reset by peer"), Stage.MEASURE, Status.CRASHED, Reason.PEER_LOST),
        (dist.DistBackendError("something else"), Stage.MEASURE, Status.CRASHED, Reason.BACKEND_RAISED),
        (PeerLostError("a peer"), Stage.MEASURE, Status.CRASHED, Reason.PEER_LOST),
    ],
)
def test_each_exception_has_its_status_and_code(
    error: BaseException, stage: Stage, status: Status, code: Reason
) -> None:
    """Status and code follow from the type and, for torch.distributed alone, from its words; only a lost peer is secondary."""
    failure = account(error, stage)

    assert (status, code) == (failure.status, failure.reason_code)
    assert (code is Reason.PEER_LOST) == failure.secondary
    assert failure.reason.startswith(f"{type(error).__name__} during {stage.value}: ")
