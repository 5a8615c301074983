"""Launch floor: what an empty timed region, an empty kernel and a barrier take: no cell can be faster."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.hardware.native import ProbeRefusedError, compiled
from ep_worker.hardware.ranks import run_ranks

if TYPE_CHECKING:
    from collections.abc import Callable

_NS_PER_US = 1e3


def measure_floor(spec: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Points of one start: `empty`, `kernel` (GPUs only) and `barrier` [us].

    Args:
        spec: `device` (cpu or cuda), `ranks` of the barrier, `iterations`, `warmups`.
        folder: Where compiled code goes.

    Raises:
        ProbeRefusedError: No device, no compiler, or ranks that do not meet.
    """
    points = []
    if spec["device"] == "cuda":
        library = compiled("stride_cuda.cu", folder)
        library.floor_cuda.restype = ctypes.c_int64
        points += [
            _point("empty", _times(spec, lambda: _checked(library.floor_cuda(0)))),
            _point("kernel", _times(spec, lambda: _checked(library.floor_cuda(1)))),
        ]
    else:
        points.append(_point("empty", _times(spec, _empty)))
    with tempfile.TemporaryDirectory() as meeting:
        values = run_ranks(spec["ranks"], spec["device"], Path(meeting), "barrier", spec)
    points.append(_point("barrier", values))
    return points


def _point(name: str, values: list[float]) -> dict[str, Any]:
    return {"x": name, "unit": "us", "values": values, "fault": ""}


def _times(spec: dict[str, Any], once: Callable[[], int]) -> list[float]:
    values = [once() / _NS_PER_US for _ in range(spec["warmups"] + spec["iterations"])]
    return values[spec["warmups"] :]


def _empty() -> int:
    began = time.perf_counter_ns()
    return time.perf_counter_ns() - began


def _checked(elapsed: int) -> int:
    if elapsed < 0:
        raise ProbeRefusedError("cuda_error", f"an empty region: CUDA error {-elapsed} on {os.uname().nodename}")
    return elapsed
