"""Signal stride: how many 8-byte atomic adds a second a memory takes, by the distance between the counters.

A backend signals progress by adds to one counter a channel. Where counters lie far apart, each add reaches another line, page or
translation; a responder may then sustain far fewer of them (deepseek-ai/DeepEP issue 793 measured a network card so).
"""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any

from ep_worker.hardware.native import ProbeRefusedError, compiled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNTER_BYTES = 8
_NS_PER_US = 1e3


def measure_stride(spec: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Points of one start: for each stride the rate [Mops] of every iteration, and whether each add arrived.

    Args:
        spec: `transport` (shm, device, nvlink), `channels`, `strides` [bytes], `adds` a channel, `iterations`, `warmups`.
        folder: Where compiled code goes.

    Raises:
        ProbeRefusedError: This machine has no such transport, or no compiler for it.
    """
    adds = _transport(spec["transport"], folder)
    points: list[dict[str, Any]] = []
    for stride in spec["strides"]:
        if stride < COUNTER_BYTES or stride % COUNTER_BYTES:
            message = f"stride {stride}: counters of {COUNTER_BYTES} bytes lie a multiple of that apart"
            raise ProbeRefusedError("bad_stride", message)
        rates = []
        for number in range(spec["warmups"] + spec["iterations"]):
            elapsed_ns, total = adds(spec["channels"], stride, spec["adds"])
            expected = spec["channels"] * spec["adds"]
            if total != expected:
                message = f"stride {stride}: {total} adds arrived of {expected}"
                return [*points, {"x": stride, "unit": "Mops", "values": [], "fault": message}]
            if number >= spec["warmups"]:
                rates.append(expected / (elapsed_ns / _NS_PER_US))
        points.append({"x": stride, "unit": "Mops", "values": rates, "fault": ""})
    return points


def _transport(name: str, folder: Path) -> Callable[[int, int, int], tuple[int, int]]:
    if name == "shm":
        return _shm(folder)
    if name in ("device", "nvlink"):
        return _cuda(folder, across=name == "nvlink")
    raise ProbeRefusedError("unknown_transport", f"{name!r}; expected shm, device or nvlink")


def _shm(folder: Path) -> Callable[[int, int, int], tuple[int, int]]:
    library = compiled("stride_shm.c", folder)
    library.stride_shm.restype = ctypes.c_int64
    # As many issuers as there are processors: more would take turns on one, and time the scheduler.
    num_issuers = len(os.sched_getaffinity(0))

    def adds(channels: int, stride: int, each: int) -> tuple[int, int]:
        total = ctypes.c_uint64()
        issuers = min(num_issuers, channels)
        elapsed = library.stride_shm(
            ctypes.c_int(issuers),
            ctypes.c_long(channels),
            ctypes.c_size_t(stride),
            ctypes.c_long(each),
            ctypes.byref(total),
        )
        if elapsed <= 0:
            raise ProbeRefusedError("no_memory", f"{channels} counters {stride} bytes apart: code {elapsed}")
        return int(elapsed), int(total.value)

    return adds


def _cuda(folder: Path, *, across: bool) -> Callable[[int, int, int], tuple[int, int]]:
    import torch  # noqa: PLC0415 - the shm transport has no use for it

    num_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if num_devices < (2 if across else 1):
        needs = "two GPUs that reach each other" if across else "a GPU"
        raise ProbeRefusedError(
            "no_device", f"this process sees {num_devices} CUDA devices, and the transport needs {needs}"
        )
    if across and not torch.cuda.can_device_access_peer(0, 1):
        raise ProbeRefusedError("no_peer_access", "GPU 0 cannot reach GPU 1's memory: nothing links them")
    library = compiled("stride_cuda.cu", folder)
    library.stride_cuda.restype = ctypes.c_int64
    owner = 1 if across else 0

    def adds(channels: int, stride: int, each: int) -> tuple[int, int]:
        total = ctypes.c_uint64()
        elapsed = library.stride_cuda(
            ctypes.c_int(0),
            ctypes.c_int(owner),
            ctypes.c_long(channels),
            ctypes.c_size_t(stride),
            ctypes.c_long(each),
            ctypes.byref(total),
        )
        if elapsed <= 0:
            raise ProbeRefusedError("cuda_error", f"{channels} counters {stride} bytes apart: CUDA error {-elapsed}")
        return int(elapsed), int(total.value)

    return adds
