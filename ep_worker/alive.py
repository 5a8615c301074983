"""A sign of life between containers that share a folder: a kernel lock, which the death of its holder releases.

The holder is the launcher and, by inheritance, each of its ranks; the lock is free once none of them lives, however they ended.
"""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FILE = ".alive"
_LOOK_S = 0.1


def hold(folder: Path) -> int:
    """Takes the lock for this process and every process that it forks; returns its file descriptor.

    The file gets its name only once it is locked, so that nobody finds it free before its holder has begun.

    Raises:
        OSError: The folder cannot be written.
    """
    descriptor = os.open(folder / f"{_FILE}.{os.getpid()}", os.O_CREAT | os.O_RDWR, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    (folder / f"{_FILE}.{os.getpid()}").rename(folder / _FILE)
    return descriptor


def wait_until_released(folder: Path) -> None:
    """Waits for a holder to begin, and then for its end; whoever started both has a bound on that."""
    while not (folder / _FILE).exists():
        time.sleep(_LOOK_S)
    with (folder / _FILE).open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
