"""`python -m ep_worker.audit OUT`: what a pod sees of its node, as `OUT/audit.json`. Reads; changes nothing.

Runs in a pinned image on each named node before the first scored start, and needs no privilege: modules, their versions and
parameters are readable by everybody.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import stat
import sys
from pathlib import Path
from typing import Any

from ep_worker.alive import hold
from ep_worker.fabric import snapshot

AUDIT_SCHEMA = "ep-campaign/audit/1"
MODULES = ("efa", "gdrdrv", "ib_uverbs", "mlx5_ib", "nvidia", "nvidia_peermem", "nvidia_uvm")
PARAMETERS = ("nvidia_uvm/uvm_disable_hmm",)
DEVICES = ("/dev/gdrdrv", "/dev/infiniband/uverbs0", "/dev/nvidia0")


def audit(root: Path = Path("/")) -> dict[str, Any]:
    """Everything that admission judges of a node."""
    return {
        "schema": AUDIT_SCHEMA,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "modules": {name: version for name in MODULES if (version := _module(root, name)) is not None},
        "parameters": {name: _text(root / "sys/module" / _parameter(name)) for name in PARAMETERS},
        "character_devices": [name for name in DEVICES if _is_character_device(root / name.lstrip("/"))],
        "nics": {name: device["driver"] for name, device in snapshot(root / "sys/class/infiniband").items()},
        "num_gpus": len([p for p in (root / "dev").glob("nvidia*") if p.name.removeprefix("nvidia").isdigit()]),
        "hugepages_2mi_free": int(_text(root / "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") or 0),
        "shm_bytes": _size(root / "dev/shm"),
        "memlock_bytes": resource.getrlimit(resource.RLIMIT_MEMLOCK)[0],
    }


def _parameter(name: str) -> Path:
    module, _, parameter = name.partition("/")
    return Path(module) / "parameters" / parameter


def _module(root: Path, name: str) -> str | None:
    """A loaded module's version, empty where it states none; None where it is not loaded."""
    folder = root / "sys/module" / name
    return (_text(folder / "version") or "") if folder.is_dir() else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def _is_character_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.stat().st_mode)
    except OSError:
        return False


def _size(path: Path) -> int:
    try:
        found = os.statvfs(path)
    except OSError:
        return 0
    return found.f_frsize * found.f_blocks


def main(arguments: list[str]) -> int:
    """Writes the audit into the folder that is named."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m ep_worker.audit OUT\n")
        return 2
    out = Path(arguments[0])
    out.mkdir(parents=True, exist_ok=True)
    hold(out)  # its release, by our end, tells whoever collects that all is written
    (out / "audit.json").write_text(json.dumps(audit(), indent=1, sort_keys=True) + "\n", encoding="ascii")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
