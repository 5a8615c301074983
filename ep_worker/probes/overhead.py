"""This harness against the least that could time the same calls: blocks of both in turn, in one process.

The least is a loop over the arm's own `layout`, `dispatch` and `combine` with one stamp before and one after, on one input that
never changes. It lines ranks up, hides launches and empties caches as ours does: else it would measure something else.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING

from ep_worker.contract.terms import Mode
from ep_worker.timing import run_series, spin_ns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch import Tensor

    from ep_worker.backends.protocol import Backend
    from ep_worker.barrier import Barrier
    from ep_worker.contract.series import Series
    from ep_worker.contract.terms import Phase
    from ep_worker.device import Machine
    from ep_worker.roundtrip import Tokens

    Step = Callable[[], None]

BLOCKS = 20
ITERATIONS = 30
WARMUPS = 5


def compare(
    series: Series,
    names: Sequence[Phase],
    steps: Callable[[], list[Step]],
    turn: Step,
    minimal: Step,
    machine: Machine,
    barrier: Barrier,
) -> list[dict[str, list[int]]]:
    """Times of both loops on this rank [ns], block by block; who goes first alternates.

    `steps` makes our loop's steps anew for each block: the minimal loop has overwritten what the last block left.
    """
    block = replace(series, iterations=ITERATIONS, warmups=WARMUPS)

    def ours() -> list[int]:
        timed = run_series(block, names, steps(), machine, barrier, turn)
        return list(timed.times_ns[len(names) - 1 :: len(names)])

    def least() -> list[int]:
        return list(minimal_loop(minimal, series.mode, machine, barrier))

    found = []
    for number in range(BLOCKS):
        order = [("ours", ours), ("minimal", least)]
        found.append({name: run() for name, run in (order if number % 2 == 0 else reversed(order))})
    return found


def calls(backend: Backend, tokens: Tokens, y: Tensor, *, fresh_layout: bool) -> Step:
    """The arm's own calls of one round-trip, and nothing else."""
    made = backend.layout()

    def trip() -> None:
        handle = backend.layout() if fresh_layout else made
        rows = backend.dispatch(tokens.payload_TH, tokens.scale_TB, handle)
        backend.combine(y, rows.handle)

    return trip


def minimal_loop(trip: Step, mode: Mode, machine: Machine, barrier: Barrier) -> array[int]:
    """Iterations of some calls, each between two stamps [ns]."""
    hidden = mode is Mode.LAUNCH_HIDDEN
    duration_ns = spin_ns([trip], machine, barrier) if hidden else 0
    clock = machine.clock(2 * (WARMUPS + ITERATIONS))
    for _ in range(WARMUPS + ITERATIONS):
        machine.chill()
        machine.settle()
        barrier()
        if hidden:
            machine.spin(duration_ns)  # type: ignore[attr-defined] # this mode is a GPU's
            machine.line_up()  # type: ignore[attr-defined]
        clock.stamp()
        trip()
        clock.stamp()
    machine.settle()
    return array("q", (clock.elapsed_ns(2 * i, 2 * i + 1) for i in range(WARMUPS, WARMUPS + ITERATIONS)))
