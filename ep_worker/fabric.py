"""The fabric's NICs as the kernel shows them: names, drivers, and counters that tell whether bytes really went through them.

Read once before the ranks begin and once after they ended, never while they run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

DEVICES = Path("/sys/class/infiniband")
COUNTER_FOLDERS = ("counters", "hw_counters")
BYTES_PER_WORD = 4
"""InfiniBand's port counters count words of four bytes."""
_WORD_COUNTERS = ("port_xmit_data", "port_rcv_data")


def snapshot(devices: Path = DEVICES) -> dict[str, dict[str, Any]]:
    """Every RDMA device: its driver and the counters of all of its ports, added up.

    Returns:
        By device name: `driver` and `counters`; a counter of words comes as bytes, under its name with `_bytes` added.
    """
    if not devices.is_dir():
        return {}
    return {
        device.name: {"driver": _driver(device), "counters": _counters(device)} for device in sorted(devices.iterdir())
    }


def _driver(device: Path) -> str:
    link = device / "device" / "driver"
    return link.resolve().name if link.exists() else ""


def _counters(device: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for kind in COUNTER_FOLDERS:
        for path in sorted(device.glob(f"ports/*/{kind}/*")):
            value = _integer(path)
            if value is None:
                continue
            word = path.name in _WORD_COUNTERS
            name = f"{path.name}_bytes" if word else path.name
            found[name] = found.get(name, 0) + value * (BYTES_PER_WORD if word else 1)
    return found


def _integer(path: Path) -> int | None:
    """A counter's value; None where the kernel does not give it (a port that is down, a write-only file)."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
