"""`python -m ep_worker collect OUT STREAM`: prints what a start has left in a folder, once its processes have ended.

It runs beside the ranks, in a container of its own, and prints frames (`contract.framing`) to its log: no native library shares
that log, and it outlives the container that it tells of.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ep_worker.alive import wait_until_released
from ep_worker.contract.framing import encode

if TYPE_CHECKING:
    from pathlib import Path

MAX_LOG_BYTES = 256 * 1024
"""Of a rank's own log; of a longer one the first and the last half."""
_STDOUT = 1


def collect(folder: Path, stream: str) -> None:
    """Waits until the lock on the folder is released, then prints its files."""
    wait_until_released(folder)
    for line in encode(messages(folder), stream):
        os.write(_STDOUT, f"{line}\n".encode("ascii"))


def messages(folder: Path) -> dict[str, bytes]:
    """Every file of a folder by name, hidden ones left out, logs shortened in the middle."""
    found = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            content = path.read_bytes()
            found[path.name] = shortened(content) if path.suffix == ".log" else content
    return found


def shortened(content: bytes) -> bytes:
    """At most `MAX_LOG_BYTES`, with a line in the middle that says how much is missing."""
    if len(content) <= MAX_LOG_BYTES:
        return content
    half = MAX_LOG_BYTES // 2
    note = f"\n... {len(content) - 2 * half} bytes are left out here ...\n".encode("ascii")
    return content[:half] + note + content[-half:]
