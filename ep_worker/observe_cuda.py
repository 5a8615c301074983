"""Provenance of a rank on a GPU: the libraries really mapped into the process, the device, its driver, its clocks."""

from __future__ import annotations

import ctypes
import functools
import subprocess
from typing import TYPE_CHECKING, Any

import torch

from ep_worker.contract.canonical import sha256_file
from ep_worker.gates import COLLECTIVE_STEM, mapped_libraries

if TYPE_CHECKING:
    from pathlib import Path

_QUERY = ("clocks.sm", "clocks.mem", "clocks_event_reasons.active")
_TIMEOUT_S = 20


def cuda_libraries() -> dict[str, Any]:
    """Collective library, CUDA, device and driver; null where something could not be observed."""
    paths = mapped_libraries(COLLECTIVE_STEM)
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        # Several mapped copies make it unknowable which one answers: every version is said, and validation refuses it.
        "collective_version_loaded": ", ".join(sorted({_nccl_version(path) for path in paths})) or None,
        "collective_version_compiled": ".".join(map(str, torch.cuda.nccl.version())),  # type: ignore[no-untyped-call] # torch has no types for it
        "collective_library_files": [{"path": str(path), "sha256": _digest(path)} for path in paths] or None,
        "cuda_version": torch.version.cuda,
        "gpu_model": properties.name,
        "driver_version": _smi("driver_version"),
    }


def clocks_and_throttling() -> dict[str, Any]:
    """SM and memory clock [MHz] and the active throttle reasons (bit mask as the driver reports it)."""
    return read_clocks(_smi(",".join(_QUERY)) or "")


def read_clocks(answer: str) -> dict[str, Any]:
    """Clocks and throttle reasons from a line of nvidia-smi; null for what it does not say."""
    parts = [part.strip() for part in answer.split(",")] if answer else [""] * len(_QUERY)
    known = all(part.isdecimal() for part in parts[:2])
    clocks = {"sm": int(parts[0]), "memory": int(parts[1])} if known else None
    return {"gpu_clocks_mhz": clocks, "gpu_throttle_reasons": parts[2] or None}


@functools.cache  # observed before and after: a mapped library does not change, and hashing one takes a second
def _digest(path: Path) -> str:
    return sha256_file(path)


def _nccl_version(path: Path) -> str:
    number = ctypes.c_int()
    ctypes.CDLL(str(path)).ncclGetVersion(ctypes.byref(number))
    return nccl_version_text(number.value)


def nccl_version_text(number: int) -> str:
    """NCCL's version number as people write it: major * 10000 + minor * 100 + patch since 2.9."""
    major, rest = divmod(number, 10_000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _smi(query: str) -> str | None:
    """What nvidia-smi says of this rank's device, which it is asked for by UUID: its own numbering ignores visibility."""
    uuid = torch.cuda.get_device_properties(torch.cuda.current_device()).uuid
    command = ["nvidia-smi", f"--id=GPU-{uuid}", f"--query-gpu={query}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
