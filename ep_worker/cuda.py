"""CUDA: event clock, device spin, device-side line-up, cache flush, graph capture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

_CALIBRATION_CYCLES = 10_000_000
_CAPTURE_WARMUPS = 3
_NS_PER_MS = 1_000_000


def _spin(num_cycles: int) -> None:
    torch.cuda._sleep(num_cycles)  # type: ignore[no-untyped-call] # noqa: SLF001 - torch has no public device spin


class EventClock:
    """Events on the current stream: a stamp is taken when the device gets there."""

    def __init__(self, num_stamps: int) -> None:
        self._events = [
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call] # torch has no types for it
            for _ in range(num_stamps)
        ]
        self._next = 0

    def stamp(self) -> None:
        """Puts the next stamp into the stream."""
        self._events[self._next].record()
        self._next += 1

    def elapsed_ns(self, first: int, last: int) -> int:
        """Time between two stamps [ns]; stamps must be near, for the driver gives milliseconds in float32."""
        elapsed_ms: float = self._events[first].elapsed_time(self._events[last])
        return round(elapsed_ms * _NS_PER_MS)


class CudaMachine:
    """One GPU.

    Attributes:
        device: As torch calls it.
        bound_device: The same, for the process group.
    """

    collective_backend = "nccl"

    def __init__(self, index: int) -> None:
        torch.cuda.set_device(index)
        self.device = torch.device("cuda", index)
        self.bound_device: torch.device | None = self.device
        properties = torch.cuda.get_device_properties(index)
        # Twice the cache, so that no line of the previous iteration survives a policy that is not plain LRU.
        self._flush = torch.empty(2 * properties.L2_cache_size, dtype=torch.uint8, device=self.device)
        self._line_up = torch.zeros(1, device=self.device)
        self._cycles_per_ns = 0.0

    def settle(self) -> None:
        """Returns when the device has nothing left to do."""
        torch.cuda.synchronize()

    def chill(self) -> None:
        """Overwrites the L2 cache."""
        self._flush.zero_()

    def clock(self, num_stamps: int) -> EventClock:
        """A clock for so many stamps."""
        return EventClock(num_stamps)

    def spin(self, duration_ns: int) -> None:
        """Keeps the device busy for about so long, while the host launches what comes after."""
        if self._cycles_per_ns == 0.0:
            self._cycles_per_ns = self._calibrate()
        _spin(int(duration_ns * self._cycles_per_ns))

    def _calibrate(self) -> float:
        clock = EventClock(2)
        _spin(_CALIBRATION_CYCLES)  # brings the clocks up first
        clock.stamp()
        _spin(_CALIBRATION_CYCLES)
        clock.stamp()
        self.settle()
        return _CALIBRATION_CYCLES / clock.elapsed_ns(0, 1)

    def line_up(self) -> None:
        """Puts a barrier of all devices into the stream: what comes after it starts on all of them at about one time."""
        dist.all_reduce(self._line_up)

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """A graph of some work on this device; calling the result replays it.

        Raises:
            RuntimeError: The work waits on the host, or a library in it cannot be captured.
        """
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call] # torch has no types for it
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_CAPTURE_WARMUPS):
                work()
        torch.cuda.current_stream().wait_stream(side)
        self.settle()
        graph = torch.cuda.CUDAGraph()
        # Only this thread's calls are checked: the collective library's own threads query events meanwhile.
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            work()
        replay: Callable[[], None] = graph.replay
        return replay
