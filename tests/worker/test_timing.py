"""Timed loops on a made-up machine, whose clock counts calls: what is called, how often, and which stamps a sample is made of."""

from __future__ import annotations

import gc

import pytest

from ep_worker.contract.series import Series
from ep_worker.contract.terms import Boundary, Loop, Mode, Phase
from ep_worker.device import HostMachine
from ep_worker.timing import run_series, timer_floor_ns


class CountingMachine:
    """A machine whose time is what `work` has added up."""

    def __init__(self) -> None:
        self.now = 0
        self.calls: list[str] = []

    def settle(self) -> None:
        self.calls.append("settle")

    def chill(self) -> None:
        self.calls.append("chill")

    def barrier(self) -> None:
        self.calls.append("barrier")

    def clock(self, num_stamps: int) -> CountingClock:
        return CountingClock(self, num_stamps)

    def step(self, name: str, cost: int) -> object:
        def work() -> None:
            self.now += cost
            self.calls.append(name)
            assert not gc.isenabled()

        return work


class CountingClock:
    """Stamps of a machine's made-up time."""

    def __init__(self, machine: CountingMachine, num_stamps: int) -> None:
        self.machine, self.num_stamps, self.at = machine, num_stamps, []

    def stamp(self) -> None:
        self.at.append(self.machine.now)
        assert len(self.at) <= self.num_stamps

    def elapsed_ns(self, first: int, last: int) -> int:
        return self.at[last] - self.at[first]


def series(mode: Mode, loop: Loop = Loop.ROUNDTRIP, chain_length: int = 1) -> Series:
    return Series("cell", Boundary.BF16_READY, mode, loop, 6, 2, chain_length)


def run(one: Series, phases: tuple[Phase, ...], names: str) -> tuple:
    machine = CountingMachine()
    steps = [machine.step(name, 10 ** (index + 1)) for index, name in enumerate(names)]
    return machine, run_series(one, phases, steps, machine, machine.barrier)


def test_a_round_trip_is_split_into_its_phases() -> None:
    """Each sample holds every step's time and their sum; warm-ups run alike and leave no sample."""
    phases = (Phase.LAYOUT, Phase.DISPATCH, Phase.COMBINE, Phase.ROUNDTRIP)
    machine, timed = run(series(Mode.HOST_START), phases, "ldc")

    assert [10, 100, 1000, 1110] * 6 == timed.times_ns.tolist()
    assert 6 == timed.num_samples
    assert [8, 8, 8] == [machine.calls.count(name) for name in "ldc"]
    assert ["chill", "settle", "barrier", "l", "d", "c"] == machine.calls[:6]
    assert 8 == machine.calls.count("barrier")


def test_a_phase_alone_is_its_own_whole() -> None:
    """An isolated loop leaves one time a sample."""
    _, timed = run(series(Mode.HOST_START, Loop.DISPATCH), (Phase.DISPATCH,), "d")

    assert [10] * 6 == timed.times_ns.tolist()


def test_a_chain_has_no_barrier_inside() -> None:
    """Chained: one barrier before all, a stamp after every chain, nothing between round-trips."""
    machine, timed = run(series(Mode.CHAINED, chain_length=3), (Phase.ROUNDTRIP,), "dc")

    assert [330, 330] == timed.times_ns.tolist()
    assert 2 == timed.num_samples
    assert ["settle", "barrier", *"dc" * 8, "settle"] == machine.calls


def test_the_collector_is_on_again_when_a_step_raises() -> None:
    """Also a loop that a backend breaks off leaves the collector as it was."""

    def broken() -> None:
        raise RuntimeError("broken")

    machine = CountingMachine()
    with pytest.raises(RuntimeError, match="broken"):
        run_series(series(Mode.HOST_START), (Phase.DISPATCH,), [broken], machine, machine.barrier)
    assert gc.isenabled()


def test_the_timer_floor_is_small() -> None:
    """Two stamps of the host's clock lie less than a millisecond apart."""
    assert 0 <= timer_floor_ns(HostMachine(), lambda: None) < 1_000_000
