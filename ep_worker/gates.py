"""What makes a scored start inadmissible though everything it delivers is right: seen in the process that measures.

Loud libraries and a second collective library are looked for before anything is timed; a kernel that was compiled inside a timed
loop, and a knob that is not as the arm asked, after each loop.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.contract.quiet import loud_variables
from ep_worker.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COLLECTIVE_STEM = "libnccl.so"
_CACHES = {
    "CUDA_CACHE_PATH": "~/.nv/ComputeCache",
    "DG_JIT_CACHE_DIR": "",
    "EP_JIT_CACHE_DIR": "",
    "TORCH_EXTENSIONS_DIR": "",
    "TORCHINDUCTOR_CACHE_DIR": "",
    "TRITON_CACHE_DIR": "~/.triton/cache",
}
"""Variables that name a cache of compiled kernels, with where it lies when they are not set."""


class InadmissibleError(RuntimeError):
    """What this process would measure is not what was asked for.

    Attributes:
        code: Why.
    """

    def __init__(self, code: Reason, text: str) -> None:
        super().__init__(text)
        self.code = code


def require_quiet(environment: Mapping[str, str]) -> None:
    """Refuses variables under which libraries print while they communicate.

    Raises:
        InadmissibleError: One is set.
    """
    loud = loud_variables(environment)
    if loud:
        msg = f"found {', '.join(loud)}, expected libraries that are quiet while they are timed: unset it for scored starts"
        raise InadmissibleError(Reason.DEBUG_PRINTING, msg)


def require_one_collective_library() -> None:
    """Refuses a process into which several files of the collective library are mapped: which one answers is unknowable.

    Raises:
        InadmissibleError: There are several.
    """
    paths = mapped_libraries(COLLECTIVE_STEM)
    if len(paths) > 1:
        found = ", ".join(map(str, paths))
        msg = f"found {found} mapped into one process, expected one: set one on the library path, or build against torch's"
        raise InadmissibleError(Reason.SEVERAL_COLLECTIVE_LIBRARIES, msg)


def mapped_libraries(stem: str) -> list[Path]:
    """Files whose name starts with `stem` that are mapped into this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    paths = {Path(line.split(maxsplit=5)[5]) for line in lines if "/" in line}
    return sorted(path for path in paths if path.name.startswith(stem) and path.exists())


def compiled_since(began_at_ns: int, environment: Mapping[str, str]) -> Path | None:
    """A file of a kernel cache that was written after a moment, or None.

    File times lag behind the clock by a tick, so that what was compiled in warm-ups is never taken for later.

    Args:
        began_at_ns: When the first timed iteration began, on the machine's monotonic clock.
        environment: Variables that say where caches are.
    """
    began_ns = time.time_ns() - (time.monotonic_ns() - began_at_ns)
    for path in _cached_files(environment):
        try:
            if path.stat().st_mtime_ns > began_ns:
                return path
        except FileNotFoundError:  # compilers rename what they wrote
            continue
    return None


def _cached_files(environment: Mapping[str, str]) -> Iterator[Path]:
    for name, default in _CACHES.items():
        folder = environment.get(name) or default
        for base, _, names in os.walk(Path(folder).expanduser()) if folder else ():
            yield from (Path(base) / file for file in names)


def not_as_asked(asked: Mapping[str, Any], first: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """What of an arm's knobs is not as it was asked, or has moved since the arm was made; None where all is right.

    Args:
        asked: The arm's knobs. 0 and empty texts leave the choice to the library.
        first: What the arm resolved when it was made.
        now: What it says after a timed loop.
    """
    moved = sorted(name for name in first if now.get(name) != first[name])
    if moved:
        shown = ", ".join(f"{name} {first[name]!r}, now {now.get(name)!r}" for name in moved)
        return f"found {shown}, expected what the arm was made with: something else in this process set it"
    for name, value in sorted(asked.items()):
        chosen = isinstance(value, bool) or value not in (0, "")
        if chosen and name in now and now[name] != value:
            return (
                f"found {name} {now[name]!r}, expected {value!r} as the arm asks: mend the adapter or take the knob out"
            )
    return None
