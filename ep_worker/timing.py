"""Timed loops: how an iteration is started, where stamps are taken, and what becomes of them.

Nothing but the arm's own calls lies between the first and the last stamp of a sample, and no collective of ours is in
flight there. The garbage collector is off meanwhile.
"""

from __future__ import annotations

import gc
import time
from array import array
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ep_worker.collectives import agree
from ep_worker.contract.terms import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ep_worker.barrier import Barrier
    from ep_worker.contract.series import Series
    from ep_worker.contract.terms import Phase
    from ep_worker.cuda import CudaMachine
    from ep_worker.device import Clock, Machine

    Step = Callable[[], None]

TIMER_FLOOR_ITERATIONS = 50
_LEAST_SPIN_NS = 1_000_000
_MOST_SPIN_NS = 5_000_000


class CaptureError(RuntimeError):
    """A device graph could not be captured on some rank; every rank raises it."""


@dataclass(frozen=True)
class Timed:
    """The samples of one loop.

    Attributes:
        times_ns: [sample, phase], flat [ns].
        num_samples: Samples.
        began_at_ns: When the first timed iteration began, on the machine's monotonic clock.
        ended_at_ns: When the last one had ended.
    """

    times_ns: array[int]
    num_samples: int
    began_at_ns: int
    ended_at_ns: int


def run_series(
    series: Series,
    phases: Sequence[Phase],
    steps: list[Step],
    machine: Machine,
    barrier: Barrier,
    turn: Step = lambda: None,
) -> Timed:
    """Runs one timed loop, its warm-ups before it.

    Args:
        series: What to run.
        phases: What its samples hold.
        steps: The calls of one iteration.
        machine: Device.
        barrier: Barrier of all ranks.
        turn: What is done before every iteration, outside of what is timed; in a chain, where nothing may come between, once before
            the first.
    """
    if len(phases) == 1 and len(steps) > 1:
        steps = [_together(steps)]
    gc.collect()
    with _without_collector():
        if series.mode is Mode.CHAINED:
            timed = _chained(series, steps, machine, barrier, turn)
        elif series.mode is Mode.HOST_START:
            timed = _one_by_one(series, steps, machine, _host_start(machine, barrier, turn))
        else:
            timed = _on_cuda(series, steps, machine, barrier, turn)
    return timed


def timer_floor_ns(machine: Machine, barrier: Barrier) -> int:
    """Median time between two stamps with nothing between them: a covariate of the host's speed."""
    clock = machine.clock(2 * TIMER_FLOOR_ITERATIONS)
    line_up = _host_start(machine, barrier, lambda: None)
    for _ in range(TIMER_FLOOR_ITERATIONS):
        line_up()
        clock.stamp()
        clock.stamp()
    machine.settle()
    times = sorted(clock.elapsed_ns(2 * i, 2 * i + 1) for i in range(TIMER_FLOOR_ITERATIONS))
    return times[TIMER_FLOOR_ITERATIONS // 2]


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _together(steps: list[Step]) -> Step:
    def run() -> None:
        for step in steps:
            step()

    return run


def _host_start(machine: Machine, barrier: Barrier, turn: Step) -> Step:
    """Fresh data, cold cache, idle device, all ranks together: what precedes an iteration that the host starts."""

    def line_up() -> None:
        turn()
        machine.chill()
        machine.settle()
        barrier()

    return line_up


def _one_by_one(series: Series, steps: list[Step], machine: Machine, line_up: Step) -> Timed:
    """Iterations that each start from a line-up, with a stamp before, between and after their steps."""
    num_stamps = len(steps) + 1
    _iterate(machine.clock(series.warmups * num_stamps), series.warmups, steps, line_up)
    clock = machine.clock(series.iterations * num_stamps)
    machine.settle()
    began = time.monotonic_ns()
    _iterate(clock, series.iterations, steps, line_up)
    machine.settle()
    ended = time.monotonic_ns()
    times_ns = array("q")
    for first in range(0, series.iterations * num_stamps, num_stamps):
        times_ns.extend(clock.elapsed_ns(first + step, first + step + 1) for step in range(len(steps)))
        if len(steps) > 1:
            times_ns.append(clock.elapsed_ns(first, first + len(steps)))
    return Timed(times_ns, series.iterations, began, ended)


def _iterate(clock: Clock, num_iterations: int, steps: list[Step], line_up: Step) -> None:
    stamp = clock.stamp
    for _ in range(num_iterations):
        line_up()
        stamp()
        for step in steps:
            step()
            stamp()


def _chained(series: Series, steps: list[Step], machine: Machine, barrier: Barrier, turn: Step) -> Timed:
    """Round-trips without a pause from first to last; a stamp after every `chain_length` of them."""
    num_samples = series.iterations // series.chain_length
    clock = machine.clock(num_samples + 1)
    turn()
    machine.settle()
    barrier()
    for _ in range(series.warmups):
        for step in steps:
            step()
    began = time.monotonic_ns()
    clock.stamp()
    for _ in range(num_samples):
        for _ in range(series.chain_length):
            for step in steps:
                step()
        clock.stamp()
    machine.settle()
    ended = time.monotonic_ns()
    times_ns = array("q", (clock.elapsed_ns(sample, sample + 1) for sample in range(num_samples)))
    return Timed(times_ns, num_samples, began, ended)


def _on_cuda(series: Series, steps: list[Step], machine: Machine, barrier: Barrier, turn: Step) -> Timed:
    """The modes that need a device queue; the capability table admits them on CUDA only."""
    from ep_worker.cuda import CudaMachine  # noqa: PLC0415 - a rank on CPUs never comes here

    assert isinstance(machine, CudaMachine)
    if series.mode is Mode.GRAPH:
        return _one_by_one(series, [_captured(steps, machine)], machine, _host_start(machine, barrier, turn))
    assert series.mode is Mode.LAUNCH_HIDDEN
    duration_ns = spin_ns(steps, machine, barrier)
    start = _host_start(machine, barrier, turn)

    def line_up() -> None:
        start()
        machine.spin(duration_ns)
        machine.line_up()

    return _one_by_one(series, steps, machine, line_up)


def _captured(steps: list[Step], machine: CudaMachine) -> Step:
    """Replay of a graph of the steps, on all ranks or on none."""
    error: RuntimeError | None = None
    replay: Step | None = None
    try:
        replay = machine.capture(_together(steps))
    except RuntimeError as caught:
        error = caught
    if not agree(replay is not None, machine.device) or replay is None:
        msg = f"the round-trip could not be captured: {error or 'a peer could not'}"
        raise CaptureError(msg) from error
    return replay


def spin_ns(steps: list[Step], machine: Machine, barrier: Barrier) -> int:
    """How long the device must spin so that the host has launched one iteration meanwhile: twice what that takes here."""
    launch_ns = []
    for _ in range(5):
        machine.settle()
        barrier()
        began = time.perf_counter_ns()
        for step in steps:
            step()
        launch_ns.append(time.perf_counter_ns() - began)
    machine.settle()
    return min(max(2 * sorted(launch_ns)[2], _LEAST_SPIN_NS), _MOST_SPIN_NS)
