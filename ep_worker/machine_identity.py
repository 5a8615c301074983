"""Which machine this is, told from any other: starts that ran on several are told apart by it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_GPUS = Path("/proc/driver/nvidia/gpus")


def machine_identity() -> dict[str, Any]:
    """Host name, the kernel's id of this boot, and the UUIDs of the GPUs that its driver knows; no GPU library is asked."""
    return {
        "hostname": socket.gethostname(),
        "boot_id": _BOOT_ID.read_text(encoding="ascii").strip() if _BOOT_ID.exists() else "unknown",
        "gpu_uuids": sorted(_uuid(path) for path in _GPUS.glob("*/information")),
    }


def _uuid(path: Path) -> str:
    """The UUID in one GPU's information file; the file's folder where it has none."""
    for line in path.read_text(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "GPU UUID":
            return value.strip()
    return path.parent.name
