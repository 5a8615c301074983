"""From the start values of a family's cells to its verdicts: complete rounds, contrasts, Holm, vetoes, late starts.

Shapes: N rounds, A arms.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.stats.contrast import PairedComparison, compare, log_ratios
from ep_campaign.stats.diagnostics import Drift, OrderEffect, UnstableStarts, drift, order_effect, unstable_starts
from ep_campaign.stats.family import holm
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.verdict import Decision, Qualifier, Rules, Verdict, decide, mark_late

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from ep_campaign.stats.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class CellRounds:
    """The start values of one cell.

    Attributes:
        name: The cell's key.
        arms: Names, in column order.
        reference: Which arm the others are compared with.
        values: [N, A] start values (durations above zero); NaN where a round has no `ok` start of an arm.
        positions: [N, A] position (0..A-1) of each arm in each round; None where unknown (imported results).
        late: [N, A] true where a start was re-run after its round had closed; default none.
    """

    name: str
    arms: tuple[str, ...]
    reference: str
    values: FloatArray
    positions: npt.NDArray[np.int64] | None = None
    late: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if self.reference not in self.arms or len(set(self.arms)) != len(self.arms) or len(self.arms) < 2:
            msg = f"cell {self.name}: arms {self.arms}, reference {self.reference}; expected distinct arms, one of them it"
            raise ValueError(msg)
        for what, array in (("values", self.values), ("positions", self.positions), ("late", self.late)):
            if array is not None and (array.ndim != 2 or array.shape != (len(self.values), len(self.arms))):
                msg = f"cell {self.name}: {what} have shape {array.shape}; expected [rounds, {len(self.arms)} arms]"
                raise ValueError(msg)

    @property
    def contrasts(self) -> tuple[str, ...]:
        """The arms that are compared with the reference."""
        return tuple(arm for arm in self.arms if arm != self.reference)

    @property
    def has_late_starts(self) -> bool:
        """Whether any start with a value came late."""
        return self.late is not None and bool((self.late & ~np.isnan(self.values)).any())

    def without_late(self) -> CellRounds:
        """The same cell as if late starts had stayed missing."""
        if self.late is None:
            return self
        on_time_NA = np.where(self.late, np.nan, self.values)
        return CellRounds(self.name, self.arms, self.reference, on_time_NA, self.positions)


@dataclass(frozen=True)
class CellDiagnostics:
    """Diagnostics of one cell.

    Attributes:
        order: None where positions are unknown or fewer than two rounds are complete over all arms.
        drift: By arm; missing for an arm without a start.
        unstable: By arm; missing for an arm without a start. Indices are rounds (row numbers).
    """

    order: OrderEffect | None
    drift: dict[str, Drift]
    unstable: dict[str, UnstableStarts]

    def vetoes(self, arms: Sequence[str]) -> frozenset[Qualifier]:
        """Those that fired for a contrast between `arms`; an order effect concerns every contrast of the cell."""
        fired = {
            Qualifier.ORDER_EFFECT: self.order is not None and self.order.veto,
            Qualifier.DRIFT: any(self.drift[arm].veto for arm in arms if arm in self.drift),
            Qualifier.UNSTABLE_STARTS: any(self.unstable[arm].veto for arm in arms if arm in self.unstable),
        }
        return frozenset(qualifier for qualifier, veto in fired.items() if veto)


@dataclass(frozen=True)
class Judgement:
    """One contrast of the family, judged.

    Attributes:
        cell: The cell's name.
        arm: Compared with the reference.
        reference: The reference arm.
        rounds: Complete rounds used (row numbers).
        excluded_rounds: Rounds in which one of the two arms has no value; their count is printed.
        comparison: None where no round is complete.
        adjusted_p: Holm-adjusted over the family; None where no round is complete.
        decision: Verdict and qualifiers, late starts included.
        decision_without_late: The same without late starts; None where the family has none.
        diagnostics: Of the cell.
    """

    cell: str
    arm: str
    reference: str
    rounds: tuple[int, ...]
    excluded_rounds: tuple[int, ...]
    comparison: PairedComparison | None
    adjusted_p: float | None
    decision: Decision
    decision_without_late: Decision | None
    diagnostics: CellDiagnostics = field(repr=False)


def diagnose(cell: CellRounds, *, seed: int = 0) -> CellDiagnostics:
    """Run the diagnostics of a cell.

    A late start ran outside its round, so that its round and position say nothing about when it ran: the order test
    leaves its round out and the drift test leaves it out. It stays among the starts that can be unstable.
    """
    present_NA = ~np.isnan(cell.values)
    on_time_NA = present_NA if cell.late is None else present_NA & ~cell.late
    order = None
    whole = np.flatnonzero(on_time_NA.all(axis=1))
    if cell.positions is not None and whole.size >= 2:
        order = order_effect(cell.values[whole], cell.positions[whole], seed=seed)
    drifts, unstable = {}, {}
    for column, arm in enumerate(cell.arms):
        on_time = np.flatnonzero(on_time_NA[:, column])
        if on_time.size:
            drifts[arm] = drift(cell.values[on_time, column], on_time)
        rows = np.flatnonzero(present_NA[:, column])
        if rows.size:
            found = unstable_starts(cell.values[rows, column])
            unstable[arm] = found._replace(starts=tuple(rows[list(found.starts)].tolist()))
    return CellDiagnostics(order, drifts, unstable)


def judge(
    cells: Sequence[CellRounds],
    *,
    family_size: int | None = None,
    test: PairedTest = PairedTest.SIGNED_RANK,
    rules: Rules | None = None,
    seed: int = 0,
) -> tuple[Judgement, ...]:
    """Judge every contrast of a family, cell by cell in the order given.

    Args:
        cells: The family's cells, in the primary mode and boundary.
        family_size: Declared contrasts; default those of `cells`.
        test: The declared paired test.
        rules: The plan's alpha and practical threshold; intervals have level 1 - alpha at least.
        seed: The plan's; used only where a diagnostic's exact law is too large.
    """
    rules = rules or Rules()
    size = sum(len(cell.contrasts) for cell in cells) if family_size is None else family_size
    judged = _judge_once(cells, size, test, rules, seed)
    if not any(cell.has_late_starts for cell in cells):
        return tuple(judged)
    on_time = _judge_once([cell.without_late() for cell in cells], size, test, rules, seed)
    return tuple(_with_late(every, early.decision) for every, early in zip(judged, on_time, strict=True))


def _with_late(judgement: Judgement, without_late: Decision) -> Judgement:
    decision = mark_late(judgement.decision, without_late)
    return Judgement(**{**vars(judgement), "decision": decision, "decision_without_late": without_late})


def _judge_once(
    cells: Sequence[CellRounds], family_size: int, test: PairedTest, rules: Rules, seed: int
) -> list[Judgement]:
    contrasts = [(cell, arm) for cell in cells for arm in cell.contrasts]
    rounds = [_complete_rounds(cell, arm) for cell, arm in contrasts]
    comparisons = [
        _compare(cell, arm, rows, test, rules) if rows.size else None
        for (cell, arm), rows in zip(contrasts, rounds, strict=True)
    ]
    tested = [index for index, comparison in enumerate(comparisons) if comparison is not None]
    raw = [comparison.p for comparison in comparisons if comparison is not None]
    adjusted = dict(zip(tested, holm(raw, family_size), strict=True))
    diagnostics = {cell.name: diagnose(cell, seed=seed) for cell in cells}
    judged = []
    for index, ((cell, arm), rows, comparison) in enumerate(zip(contrasts, rounds, comparisons, strict=True)):
        found = diagnostics[cell.name]
        decision = Decision(Verdict.TOO_FEW_STARTS)
        if comparison is not None:
            decision = decide(comparison, adjusted[index], family_size, found.vetoes((arm, cell.reference)), rules)
        excluded = np.setdiff1d(np.arange(len(cell.values)), rows)
        judged.append(
            Judgement(
                cell=cell.name,
                arm=arm,
                reference=cell.reference,
                rounds=tuple(rows.tolist()),
                excluded_rounds=tuple(excluded.tolist()),
                comparison=comparison,
                adjusted_p=adjusted.get(index),
                decision=decision,
                decision_without_late=None,
                diagnostics=found,
            )
        )
    return judged


def _complete_rounds(cell: CellRounds, arm: str) -> npt.NDArray[np.intp]:
    pair = [cell.arms.index(arm), cell.arms.index(cell.reference)]
    return np.flatnonzero(~np.isnan(cell.values[:, pair]).any(axis=1))


def _compare(
    cell: CellRounds, arm: str, rows: npt.NDArray[np.intp], test: PairedTest, rules: Rules
) -> PairedComparison:
    of_arm = cell.values[rows, cell.arms.index(arm)]
    of_reference = cell.values[rows, cell.arms.index(cell.reference)]
    return compare(log_ratios(of_arm, of_reference), confidence=1 - rules.alpha, test=test)
