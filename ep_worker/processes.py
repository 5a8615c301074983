"""What a process of a start owes to the machine: it dies with its parent, prints to its log, and shows its stacks on demand."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

STACKS_SIGNAL = signal.SIGUSR1
"""A rank that gets it writes the stacks of its threads to its log."""

WATCHED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT)
"""What a launcher waits for."""

_PR_SET_PDEATHSIG = 1


def hold_signals() -> None:
    """Keeps what a launcher waits for until it asks: a word to stop that comes while it imports torch is not lost."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)


def release_signals() -> None:
    """Undoes `hold_signals` in a rank, where SIGTERM ends the process at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from a terminal it reaches all; the launcher decides
    signal.pthread_sigmask(signal.SIG_UNBLOCK, WATCHED)


def die_with_parent(parent_pid: int) -> None:
    """Asks the kernel to kill this process when its parent ends, however the parent ends.

    The kernel means the thread that made this process: whoever starts a launcher from a thread must keep the thread.

    Args:
        parent_pid: The parent as the caller knows it. Where it is gone already, this process ends at once: it would
            otherwise be an orphan that no signal announces.

    Raises:
        OSError: The kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_PDEATHSIG): {os.strerror(number)}")
    if os.getppid() != parent_pid:
        os._exit(1)


def print_to(log: Path) -> None:
    """Standard input from nowhere, standard output and error to a log; stacks on `STACKS_SIGNAL` go there too."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for target, source in ((0, nowhere), (1, stream), (2, stream)):
        os.dup2(source, target)
    os.close(nowhere)
    os.close(stream)
    faulthandler.enable(file=2)
    faulthandler.register(STACKS_SIGNAL, file=2, all_threads=True)
