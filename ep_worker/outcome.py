"""How the processes of a start ended, as the launcher saw it: the account for whatever the ranks did not reach themselves."""

from __future__ import annotations

import signal
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from ep_worker.contract.terms import Status
from ep_worker.reason import Reason

LAUNCHER_SCHEMA = "ep-campaign/launcher/1"
LAUNCHER_FILE = "launcher.json"
EXIT_RENDEZVOUS = 4
"""Exit status of a rank that did not find the others, so that this is told from a fault of an arm."""


class Outcome(str, Enum):
    """How the processes ended.

    FINISHED: all ranks by themselves with exit status 0. RANK_FAILED: one by itself otherwise. WATCHDOG: the bound on the
    start ran out. RENDEZVOUS_TIMEOUT: the ranks did not find one another. INTERRUPTED: the launcher was told to stop.
    """

    FINISHED = "finished"
    RANK_FAILED = "rank_failed"
    WATCHDOG = "watchdog"
    RENDEZVOUS_TIMEOUT = "rendezvous_timeout"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Ended:
    """One rank's end.

    Attributes:
        rank: Global rank.
        pid: Its process.
        exit_code: Exit status; None where a signal ended it.
        signal: Name of that signal; else None.
        seconds: From its fork to its end.
        stopped: Whether the launcher ended it.
    """

    rank: int
    pid: int
    exit_code: int | None
    signal: str | None
    seconds: float
    stopped: bool

    @property
    def failed(self) -> bool:
        """Whether it ended by itself, and not well."""
        return not self.stopped and self.exit_code != 0

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return asdict(self)


@dataclass(frozen=True)
class Verdict:
    """Outcome, and status, code and reason of what was not reached."""

    outcome: Outcome
    status: Status
    reason_code: str
    reason: str
    first_failed_rank: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return {
            "outcome": self.outcome.value,
            "status": self.status.value,
            "reason_code": self.reason_code,
            "reason": self.reason,
            "first_failed_rank": self.first_failed_rank,
        }


def ended(rank: int, pid: int, wait_status: int, seconds: float, *, stopped: bool) -> Ended:
    """From what waiting for a process returns."""
    by_signal = wait_status & 0x7F
    name = signal.Signals(by_signal).name if by_signal else None
    return Ended(rank, pid, None if by_signal else wait_status >> 8, name, round(seconds, 3), stopped)


def of_failure(first: Ended) -> Verdict:
    """The verdict where a rank ended by itself, and not well."""
    where = f"what it said is in rank-{first.rank}.jsonl and rank-{first.rank}.log"
    if first.signal is not None:
        text = f"rank {first.rank} (process {first.pid}) was killed by {first.signal}; {where}"
        return Verdict(Outcome.RANK_FAILED, Status.CRASHED, Reason.RANK_KILLED.value, text, first.rank)
    if first.exit_code == EXIT_RENDEZVOUS:
        text = f"rank {first.rank} did not find all others in time; {where}"
        code = Reason.RENDEZVOUS_TIMEOUT.value
        return Verdict(Outcome.RENDEZVOUS_TIMEOUT, Status.TIMED_OUT, code, text, first.rank)
    text = f"rank {first.rank} (process {first.pid}) ended with exit status {first.exit_code}; {where}"
    return Verdict(Outcome.RANK_FAILED, Status.CRASHED, Reason.RANK_EXITED.value, text, first.rank)


def of_watchdog(late: list[int], num_ranks: int, watchdog_s: float) -> Verdict:
    """The verdict where ranks had not ended in time."""
    who = "no rank" if len(late) == num_ranks else f"all ranks but {late}"
    text = f"{who} finished within {watchdog_s:g} s; stacks are in rank-*.log"
    return Verdict(Outcome.WATCHDOG, Status.TIMED_OUT, Reason.WATCHDOG.value, text)


def of_interrupt(by: signal.Signals) -> Verdict:
    """The verdict where the launcher was told to stop."""
    text = f"the launcher got {by.name} and ended its ranks"
    return Verdict(Outcome.INTERRUPTED, Status.CRASHED, Reason.INTERRUPTED.value, text)


def of_launch_failure(error: OSError) -> Verdict:
    """The verdict where no rank could be started."""
    text = f"no rank could be started: {error}"
    return Verdict(Outcome.RANK_FAILED, Status.CRASHED, Reason.LAUNCH_FAILED.value, text)


FINISHED = Verdict(Outcome.FINISHED, Status.OK, "", "")
"""The verdict where every rank ended by itself with exit status 0."""
