"""What one start measures: its list of series, resolved before it runs, so that a missing one can be missed.

A series is one timed loop: a cell at a boundary in a mode. The list follows from the plan and the capability table alone;
ranks execute it in order, validation holds the records against it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ep_worker.contract.capabilities import Capability, reject_mode, same_work
from ep_worker.contract.terms import Boundary, Device, Dtype, Loop, Mode, Phase


@dataclass(frozen=True)
class Cell:
    """One row of a results table, inside a start (whose EP size and profile are fixed).

    Attributes:
        id: `ep<N>/<profile>/<route>/<dtype>`.
        route: Name of the route.
        dtype: Dispatch dtype.
    """

    id: str
    route: str
    dtype: Dtype


@dataclass(frozen=True)
class Series:
    """One timed loop.

    Attributes:
        cell: Cell id.
        boundary: Boundary.
        mode: Mode.
        loop: Whole round-trips, or one phase alone.
        iterations: Timed iterations (round-trips, also in chained mode).
        warmups: Iterations before them that are not timed.
        chain_length: Round-trips of one sample; 1 except in chained mode.
        same_as: Boundary whose samples serve this one too, the work being the same; None where it is measured.
    """

    cell: str
    boundary: Boundary
    mode: Mode
    loop: Loop
    iterations: int
    warmups: int
    chain_length: int
    same_as: Boundary | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Cell, boundary, mode, loop: unique within a start."""
        return (self.cell, self.boundary.value, self.mode.value, self.loop.value)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return {key: getattr(value, "value", value) for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Series:
        """Back from `as_json`."""
        return cls(
            cell=value["cell"],
            boundary=Boundary(value["boundary"]),
            mode=Mode(value["mode"]),
            loop=Loop(value["loop"]),
            iterations=value["iterations"],
            warmups=value["warmups"],
            chain_length=value["chain_length"],
            same_as=None if value["same_as"] is None else Boundary(value["same_as"]),
        )


@dataclass(frozen=True)
class Rejected:
    """A cell x boundary x mode that is known not to run, with its sourced reason."""

    cell: str
    boundary: Boundary
    mode: Mode
    reason_code: str
    reason: str
    source: str

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return {key: getattr(value, "value", value) for key, value in asdict(self).items()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Rejected:
        """Back from `as_json`."""
        return cls(**{**value, "boundary": Boundary(value["boundary"]), "mode": Mode(value["mode"])})


@dataclass(frozen=True)
class Measurement:
    """How every cell of a profile is timed.

    Attributes:
        boundaries: Boundaries, in the order of a record.
        modes: Modes, likewise.
        primary_boundary: Boundary that carries the verdicts.
        primary_mode: Mode that carries the verdicts.
        isolated_loops: Whether each phase is also timed alone, at the primary boundary and mode.
        iterations: Timed iterations of a series.
        warmups: Untimed iterations before them.
        chain_length: Round-trips of one chained sample; divides `iterations`.
    """

    boundaries: tuple[Boundary, ...]
    modes: tuple[Mode, ...]
    primary_boundary: Boundary
    primary_mode: Mode
    isolated_loops: bool
    iterations: int
    warmups: int
    chain_length: int


def resolve(
    cells: list[Cell], how: Measurement, entry: Capability, device: Device
) -> tuple[list[Series], list[Rejected]]:
    """All series of a start, cell by cell in the given order, and everything that its arm or device rejects."""
    series: list[Series] = []
    rejected: list[Rejected] = []
    for cell in cells:
        for mode in how.modes:
            reason = reject_mode(entry, device, mode)
            for boundary in how.boundaries:
                if reason is not None:
                    rejected.append(Rejected(cell.id, boundary, mode, reason.code, reason.reason, reason.source))
                    continue
                series.extend(_loops(cell, boundary, mode, how, entry))
    return series, rejected


def _loops(cell: Cell, boundary: Boundary, mode: Mode, how: Measurement, entry: Capability) -> list[Series]:
    earlier = same_work(entry, cell.dtype, boundary)
    same_as = earlier if earlier in how.boundaries else None
    chain = how.chain_length if mode is Mode.CHAINED else 1
    roundtrip = Series(cell.id, boundary, mode, Loop.ROUNDTRIP, how.iterations, how.warmups, chain, same_as)
    if not (how.isolated_loops and (boundary, mode) == (how.primary_boundary, how.primary_mode)):
        return [roundtrip]
    alone = [Loop.LAYOUT, Loop.DISPATCH, Loop.COMBINE] if entry.separable_layout else [Loop.DISPATCH, Loop.COMBINE]
    return [
        roundtrip,
        # Phases are timed alone at this boundary only: there is no earlier one whose samples could serve.
        *(Series(cell.id, boundary, mode, loop, how.iterations, how.warmups, 1) for loop in alone),
    ]


def phases(series: Series, entry: Capability) -> tuple[Phase, ...]:
    """The phases that a series' samples hold, in the order of their last axis.

    A round-trip that is started one at a time is split; in chained and graph modes there is no stamp inside.
    """
    if series.loop is not Loop.ROUNDTRIP:
        return (Phase(series.loop.value),)
    if series.mode not in (Mode.HOST_START, Mode.LAUNCH_HIDDEN):
        return (Phase.ROUNDTRIP,)
    layout = (Phase.LAYOUT,) if entry.separable_layout else ()
    return (*layout, Phase.DISPATCH, Phase.COMBINE, Phase.ROUNDTRIP)
