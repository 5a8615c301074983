"""The start values of one place as the statistics take them: rounds x arms, with positions and late starts.

Shapes: N planned rounds, A arms.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.analysis.levels import start_values_us
from ep_campaign.analysis.matrix import cell_parts
from ep_campaign.stats.judge import CellRounds
from ep_campaign.summary.contrast import place_text

if TYPE_CHECKING:
    from ep_campaign.analysis.matrix import Matrix, Where


def make_grid(matrix: Matrix, where: Where) -> CellRounds | None:
    """The grid of a place that has the reference and another arm; None elsewhere.

    An arm without a single value is left out where two others remain: rounds would otherwise never be complete over all
    arms, and nothing could be said about the order of the others. Row i is round i + 1.
    """
    reference, planned = matrix.reference, matrix.arms_at(where)
    if reference not in planned or len(planned) < 2:
        return None
    measured = [arm for arm in planned if arm == reference or matrix.ok(where, arm)]
    arms = measured if len(measured) > 1 else planned
    shape = (matrix.plan.num_rounds[cell_parts(where.cell)[0]], len(arms))
    values_NA, late_NA = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    places_NA = np.zeros(shape, dtype=np.int64)
    for column, arm in enumerate(arms):
        found = matrix.ok(where, arm)
        rows = [number - 1 for number in found]
        values_NA[rows, column] = start_values_us(found.values())
        late_NA[rows, column] = [record.late for record in found.values()]
        for number, start in matrix.planned(where, arm).items():
            places_NA[number - 1, column] = start.order_position
    # Places among the arms of this cell: an arm that runs in the round but not in this cell leaves no gap.
    positions_NA = np.argsort(np.argsort(places_NA, axis=1), axis=1)
    return CellRounds(grid_name(where), tuple(arms), reference, values_NA, positions_NA, late_NA)


def grid_name(where: Where) -> str:
    """The name of a place among those that a family judges, as it is shown."""
    return place_text(where.cell, where.loop)
