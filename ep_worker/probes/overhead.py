"""This harness against the least that could time the same calls: blocks of both in turn, in one process.

The least is a loop over the arm's own `layout`, `dispatch` and `combine` with one stamp before and one after. What precedes an
iteration is the same in both (other data, cold caches, ranks lined up, launches hidden): else they would time something else.
"""

from __future__ import annotations

import gc
from array import array
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ep_worker.contract.terms import Mode
from ep_worker.roundtrip import Arrived
from ep_worker.timing import run_series, spin_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ep_worker.backends.protocol import Backend
    from ep_worker.barrier import Barrier
    from ep_worker.contract.series import Series
    from ep_worker.contract.terms import Phase
    from ep_worker.device import Machine
    from ep_worker.trip import Trip

    Step = Callable[[], None]

BLOCKS = 20
ITERATIONS = 30
WARMUPS = 5


def compare(
    series: Series,
    names: Sequence[Phase],
    trip: Trip,
    minimal: Step,
    machine: Machine,
    barrier: Barrier,
    *,
    fresh_layout: bool,
) -> list[dict[str, list[int]]]:
    """Times of both loops on this rank [ns], block by block; who goes first alternates."""
    block = replace(series, iterations=ITERATIONS, warmups=WARMUPS)
    turn = partial(trip.turn, series.loop)

    def ours() -> list[int]:
        steps = trip.steps(series.loop, fresh_layout=fresh_layout)
        timed = run_series(block, names, steps, machine, barrier, turn)
        trip.look(series.loop)
        return list(timed.times_ns[len(names) - 1 :: len(names)])

    def least() -> list[int]:
        trip.steps(series.loop, fresh_layout=fresh_layout)  # forgets what the last block left
        times_ns = minimal_loop(minimal, turn, series.mode, machine, barrier)
        trip.look(series.loop)
        return list(times_ns)

    found = []
    for number in range(BLOCKS):
        order = [("ours", ours), ("minimal", least)]
        found.append({name: run() for name, run in (order if number % 2 == 0 else reversed(order))})
    return found


class Calls:
    """The arm's own calls of one round-trip, and nothing else; what they return is kept, to be looked at as ours is."""

    def __init__(self, backend: Backend, trip: Trip, *, fresh_layout: bool) -> None:
        self._backend, self._trip, self._fresh = backend, trip, fresh_layout
        self._handle = backend.layout()

    def __call__(self) -> None:
        """One round-trip."""
        backend, trip = self._backend, self._trip
        handle = backend.layout() if self._fresh else self._handle
        rows = backend.dispatch(trip.tokens.payload_TH, trip.tokens.scale_TB, handle)
        trip.adopt(Arrived(rows, None), backend.combine(trip.y, rows.handle))


def minimal_loop(calls: Step, turn: Step, mode: Mode, machine: Machine, barrier: Barrier) -> array[int]:
    """Iterations of some calls, each between two stamps [ns]."""
    hidden = mode is Mode.LAUNCH_HIDDEN
    duration_ns = spin_ns([calls], machine, barrier) if hidden else 0
    clock = machine.clock(2 * (WARMUPS + ITERATIONS))
    gc.collect()
    gc.disable()
    for _ in range(WARMUPS + ITERATIONS):
        turn()
        machine.chill()
        machine.settle()
        barrier()
        if hidden:
            machine.spin(duration_ns)  # type: ignore[attr-defined] # this mode is a GPU's
            machine.line_up()  # type: ignore[attr-defined]
        clock.stamp()
        calls()
        clock.stamp()
    gc.enable()
    machine.settle()
    return array("q", (clock.elapsed_ns(2 * i, 2 * i + 1) for i in range(WARMUPS, WARMUPS + ITERATIONS)))
