"""What figures draw: the summary and the plan of one campaign, with the look-ups that every figure needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ep_campaign.summary import Role, State
from ep_worker.contract.terms import Boundary, Loop, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ep_campaign.figures.names import FigureId
    from ep_campaign.plan import Plan
    from ep_campaign.summary import Cell, Contrast, Diagnostics, Level, Summary

Key = tuple[str, Boundary, Mode, Loop, str]


@dataclass(frozen=True)
class View:
    """One campaign as figures see it.

    Attributes:
        plan: The plan.
        summary: Its summary.
    """

    plan: Plan
    summary: Summary

    @cached_property
    def arms(self) -> tuple[str, ...]:
        """Names of the arms, in the plan's order."""
        return tuple(arm.name for arm in self.summary.head.arms)

    @cached_property
    def _levels(self) -> dict[Key, Level]:
        return {(item.cell, item.boundary, item.mode, item.loop, item.arm): item for item in self.summary.levels}

    @cached_property
    def _diagnostics(self) -> dict[str, Diagnostics]:
        return {item.cell: item for item in self.summary.diagnostics if item.loop is Loop.ROUNDTRIP}

    @cached_property
    def _places(self) -> dict[tuple[int, str, int, str], int]:
        return {(s.ep_size, s.profile, s.round, s.arm): s.order_position for s in self.plan.starts}

    @property
    def stamp(self) -> str:
        """What every figure of an unfinished campaign says in its corner; empty for a complete one."""
        state = self.summary.head.state
        return "" if state is State.COMPLETE else state.value.upper()

    @property
    def primary_text(self) -> str:
        """The boundary and mode of the verdicts, in words."""
        head = self.summary.head
        return f"{head.primary_boundary.value}, {head.primary_mode.value} (primary)"

    def cells_of(self, figure: FigureId) -> list[Cell]:
        """The cells that a figure covers, in the plan's order."""
        where = (figure.ep_size, figure.profile)
        return [cell for cell in self.summary.head.cells if where in ((None, None), (cell.ep_size, cell.profile))]

    def cells_of_size(self, ep_size: int | None) -> list[Cell]:
        """The cells of an EP size, in the plan's order; of all, where none is named."""
        return [cell for cell in self.summary.head.cells if ep_size in (None, cell.ep_size)]

    def level(self, cell: str, arm: str, boundary: Boundary, mode: Mode, loop: Loop = Loop.ROUNDTRIP) -> Level | None:
        """One level; None where the arm has none there."""
        return self._levels.get((cell, boundary, mode, loop, arm))

    def roundtrips(self, cells: Sequence[Cell]) -> list[Level]:
        """The levels of whole round-trips in some cells, at every boundary and mode."""
        ids = {cell.id for cell in cells}
        return [level for level in self.summary.levels if level.loop is Loop.ROUNDTRIP and level.cell in ids]

    def primary(self, cell: str, arm: str) -> Level | None:
        """The level at the primary boundary and mode."""
        head = self.summary.head
        return self.level(cell, arm, head.primary_boundary, head.primary_mode)

    def primary_contrasts(self) -> list[Contrast]:
        """Contrasts at the primary boundary and mode by cell and arm, the cells that are judged before those described."""
        place = {cell.id: number for number, cell in enumerate(self.summary.head.cells)}
        found = [item for item in self.summary.contrasts if item.role is not Role.SECONDARY]
        judged = {item.cell for item in found if item.role is Role.FAMILY}
        loops = list(Loop)
        return sorted(
            found,
            key=lambda item: (
                item.cell not in judged,
                place[item.cell],
                loops.index(item.loop),
                self.arms.index(item.arm),
            ),
        )

    def diagnostics(self, cell: str) -> Diagnostics | None:
        """What speaks against the starts of a cell; None where it has none."""
        return self._diagnostics.get(cell)

    def place(self, level: Level, round_number: int) -> int:
        """The place (from 1) that an arm had in a round."""
        return self._places[(level.ep_size, level.profile, round_number, level.arm)]

    def why_absent(self, cell: str, arm: str) -> str:
        """Why an arm has no level at the primary boundary and mode; empty where it has one."""
        if self.primary(cell, arm) is not None:
            return ""
        head = self.summary.head
        for row in self.summary.unsupported:
            here = (row.cell, row.arm) == (cell, arm)
            if here and row.boundary in ("*", head.primary_boundary) and row.mode in ("*", head.primary_mode):
                return row.reason
        return "no start was planned"
