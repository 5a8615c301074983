"""What a rank leaves behind, line by line as it happens, so that a crash loses only what had not happened yet.

`rank-<r>.jsonl` holds one event a line, `rank-<r>.samples` the raw times that `series` events point into, `rank-<r>.log`
whatever the process and its libraries printed. Nothing is read back from the log.
"""

from __future__ import annotations

import json
import os
from array import array
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.contract.canonical import canonical_json

if TYPE_CHECKING:
    from collections.abc import Sequence


class Event(str, Enum):
    """What a line says.

    HELLO: pid, hostname, worker digest; before anything can fail. JOINED: the group is complete. PROVENANCE: observed
    environment. WORKLOAD: digests and counts of one route. ORACLE: result of one check of one cell (`stage` before or
    after). SERIES: one timed loop, done (or refused). FAILURE: why this rank gives up, with status and reason code.
    PROBE: what a launch of another kind measured instead. RESULTS: everything is on disk; teardown begins.
    TEARDOWN: how it went.
    """

    HELLO = "hello"
    JOINED = "joined"
    PROVENANCE = "provenance"
    WORKLOAD = "workload"
    ORACLE = "oracle"
    SERIES = "series"
    FAILURE = "failure"
    PROBE = "probe"
    RESULTS = "results"
    TEARDOWN = "teardown"


def event_path(folder: str | os.PathLike[str], rank: int) -> Path:
    """Path of a rank's events."""
    return Path(folder) / f"rank-{rank}.jsonl"


def sample_path(folder: str | os.PathLike[str], rank: int) -> Path:
    """Path of a rank's raw times: int64 nanoseconds, little-endian."""
    return Path(folder) / f"rank-{rank}.samples"


def log_path(folder: str | os.PathLike[str], rank: int) -> Path:
    """Path of what a rank printed."""
    return Path(folder) / f"rank-{rank}.log"


class RankWriter:
    """Appends events and samples of one rank; `settle` forces them to disk."""

    def __init__(self, folder: str | os.PathLike[str], rank: int) -> None:
        self._events = event_path(folder, rank).open("a", encoding="ascii")
        self._samples = sample_path(folder, rank).open("ab")

    def event(self, kind: Event, **fields: Any) -> None:
        """Appends one event and hands it to the operating system."""
        self._events.write(canonical_json({"event": kind.value, **fields}) + "\n")
        self._events.flush()

    def samples(self, times_ns: array[int]) -> int:
        """Appends raw times; returns the byte offset at which they start."""
        offset = self._samples.tell()
        self._samples.write(_little_endian(times_ns))
        self._samples.flush()
        return offset

    def settle(self) -> None:
        """Forces everything written so far to disk."""
        for stream in (self._samples, self._events):
            stream.flush()
            os.fsync(stream.fileno())


def read_events(folder: str | os.PathLike[str], rank: int) -> list[dict[str, Any]]:
    """A rank's events; a last line that a crash cut short is left out, any other malformed line raises.

    Raises:
        ValueError: A line that is not the last one is not a JSON object: the file was altered.
    """
    path = event_path(folder, rank)
    if not path.exists():
        return []
    lines = path.read_text(encoding="ascii", errors="replace").split("\n")
    events = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            msg = f"{path}: line {number} is not JSON ({error}): the file was altered after it was written"
            raise ValueError(msg) from error
        if not isinstance(value, dict) or not isinstance(value.get("event"), str):
            msg = f"{path}: line {number} is no event: the file was altered after it was written"
            raise ValueError(msg)  # noqa: TRY004 - about the file, as its other faults
        events.append(value)
    return events


def read_samples(folder: str | os.PathLike[str], rank: int, offset: int, count: int) -> array[int]:
    """`count` raw times of a rank from a byte offset.

    Raises:
        ValueError: The file holds fewer: it was cut short.
    """
    path = sample_path(folder, rank)
    times_ns = array("q")
    with path.open("rb") as stream:
        stream.seek(offset)
        data = stream.read(8 * count)
    if len(data) != 8 * count:
        msg = f"{path}: {len(data)} bytes at offset {offset}, expected {8 * count}: the file was cut short"
        raise ValueError(msg)
    times_ns.frombytes(data)
    return _from_little_endian(times_ns)


def _little_endian(times_ns: array[int]) -> bytes:
    return _from_little_endian(times_ns).tobytes()


def _from_little_endian(times_ns: array[int]) -> array[int]:
    if array("H", [1]).tobytes()[0] == 1:
        return times_ns
    swapped = array("q", times_ns)
    swapped.byteswap()
    return swapped


def interleave(by_rank: Sequence[array[int]], num_samples: int, num_phases: int) -> array[int]:
    """[rank][sample, phase] times as one array [sample, rank, phase]."""
    merged = array("q", bytes(8 * num_samples * num_phases * len(by_rank)))
    stride = num_phases * len(by_rank)
    for rank, times_ns in enumerate(by_rank):
        for phase in range(num_phases):
            merged[rank * num_phases + phase :: stride] = times_ns[phase::num_phases]
    return merged
