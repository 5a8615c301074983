"""Link peak: how fast bytes move by a copy and by an all-to-all, by message size: the ceiling that cells are held against."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.hardware.native import ProbeRefusedError
from ep_worker.hardware.ranks import run_ranks

if TYPE_CHECKING:
    from collections.abc import Callable

_BYTES_PER_US_TO_GB = 1e-3
_PATTERN_BYTE = 0x5A


def measure_link(spec: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Points of one start: for each size the rate [GB/s, 1e9] of every iteration.

    A copy's rate counts its bytes once. An all-to-all's counts what one rank sends to others.

    Args:
        spec: `pattern` (copy, peer_copy, all_to_all), `device`, `sizes` [bytes], `ranks`, `iterations`, `warmups`.
        folder: Not used: nothing is compiled.

    Raises:
        ProbeRefusedError: The devices are not there, ranks do not meet, or contents are wrong.
    """
    del folder
    if spec["pattern"] == "all_to_all":
        return [_exchange(spec, size) for size in spec["sizes"]]
    once = _copier(spec)
    points = []
    for size in spec["sizes"]:
        times = once(size)
        values = [size / elapsed_us * _BYTES_PER_US_TO_GB for elapsed_us in times[spec["warmups"] :]]
        points.append({"x": size, "unit": "GB/s", "values": values, "fault": ""})
    return points


def _exchange(spec: dict[str, Any], size: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as meeting:
        times = run_ranks(spec["ranks"], spec["device"], Path(meeting), "all_to_all", {**spec, "size": size})
    part = max(1, size // spec["ranks"])
    sent = part * (spec["ranks"] - 1)
    values = [sent / elapsed_us * _BYTES_PER_US_TO_GB for elapsed_us in times]
    return {"x": size, "unit": "GB/s", "values": values, "fault": ""}


def _copier(spec: dict[str, Any]) -> Callable[[int], list[float]]:
    import torch  # noqa: PLC0415 - the host side never comes here

    if spec["device"] == "cpu":
        source, target = "cpu", "cpu"
    else:
        across = spec["pattern"] == "peer_copy"
        num_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if num_devices < 1 + across:
            raise ProbeRefusedError("no_device", f"this process sees {num_devices} CUDA devices, expected {1 + across}")
        source, target = "cuda:0", "cuda:1" if across else "cuda:0"

    def times_us(size: int) -> list[float]:
        held = torch.full((size,), _PATTERN_BYTE, dtype=torch.uint8, device=source)
        there = torch.zeros(size, dtype=torch.uint8, device=target)
        number = spec["warmups"] + spec["iterations"]
        found = [_timed(torch, lambda: there.copy_(held), on_gpu=source != "cpu") for _ in range(number)]
        if not bool((there == _PATTERN_BYTE).all()):
            raise ProbeRefusedError("wrong_contents", f"a copy of {size} bytes did not arrive whole")
        return found

    return times_us


def _timed(torch: Any, copy: Callable[[], Any], *, on_gpu: bool) -> float:
    """One copy [us]: by events on a GPU, by the clock elsewhere."""
    if not on_gpu:
        began = time.perf_counter_ns()
        copy()
        return (time.perf_counter_ns() - began) / 1e3
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    began.record()
    copy()
    ended.record()
    torch.cuda.synchronize()
    return float(began.elapsed_time(ended)) * 1e3
