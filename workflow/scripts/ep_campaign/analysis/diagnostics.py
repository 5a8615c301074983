"""Diagnostics of every cell at the primary boundary and mode: order effect, drift, unstable starts, spread."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.analysis.grids import make_grid
from ep_campaign.analysis.levels import start_values_us
from ep_campaign.stats.diagnostics import Drift, UnstableStarts, drift, unstable_starts
from ep_campaign.stats.judge import diagnose
from ep_campaign.stats.printable import printable
from ep_campaign.summary import ArmDiagnostics, Diagnostics, Order

if TYPE_CHECKING:
    from ep_campaign.analysis.matrix import Matrix, Where
    from ep_campaign.stats.judge import CellDiagnostics, CellRounds


def make_diagnostics(matrix: Matrix) -> tuple[Diagnostics, ...]:
    """One entry a judged place, also where the reference does not run: then each arm stands alone."""
    return tuple(_diagnostics(matrix, where) for where in matrix.places() if matrix.is_judged(where))


def _diagnostics(matrix: Matrix, where: Where) -> Diagnostics:
    grid = make_grid(matrix, where)
    found = diagnose(grid, seed=matrix.plan.document["seed"]) if grid is not None else None
    arms = []
    for arm in matrix.arms_at(where):
        records = matrix.ok(where, arm)
        if not records:
            continue
        values = start_values_us(records.values())
        on_time = [number for number, record in records.items() if not record.late]
        if found is not None:
            drifted, unstable = found.drift.get(arm), found.unstable[arm]
            rounds = tuple(row + 1 for row in unstable.starts)
        else:
            drifted = drift(start_values_us(records[number] for number in on_time), on_time) if on_time else None
            unstable = unstable_starts(values)
            rounds = tuple(list(records)[index] for index in unstable.starts)
        arms.append(_arm(matrix, arm, values, drifted if len(on_time) > 1 else None, unstable, rounds))
    order = _order(grid, found) if grid is not None and found is not None else None
    return Diagnostics(cell=where.cell, loop=where.loop, order=order, arms=tuple(arms))


def _arm(
    matrix: Matrix,
    arm: str,
    values: list[float],
    drifted: Drift | None,
    unstable: UnstableStarts,
    rounds: tuple[int, ...],
) -> ArmDiagnostics:
    shown = printable(len(values), 1, matrix.plan.document["family"]["alpha"])
    return ArmDiagnostics(
        arm=arm,
        num_starts=len(values),
        start_sd_log=float(np.log(values).std(ddof=1)) if shown.intervals else None,
        rho=drifted.rho if drifted else None,
        drift_p=drifted.p if drifted else None,
        drift_method=drifted.method if drifted else None,
        drift_veto=drifted.veto if drifted else False,
        unstable_rounds=rounds,
        unstable_veto=unstable.veto,
    )


def _order(grid: CellRounds, found: CellDiagnostics) -> Order | None:
    if found.order is None:
        return None
    present_NA = ~np.isnan(grid.values)
    on_time_NA = present_NA if grid.late is None else present_NA & ~grid.late
    return Order(
        num_rounds=int(on_time_NA.all(axis=1).sum()),
        p=found.order.p,
        method=found.order.method,
        mean_ranks=found.order.mean_rank_by_position,
        veto=found.order.veto,
    )
