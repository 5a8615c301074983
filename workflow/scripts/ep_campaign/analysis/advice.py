"""Advice for the next campaign, from this one's own spread: how many iterations a start should measure."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING

from ep_campaign.analysis.levels import start_values_us
from ep_campaign.analysis.matrix import cell_parts
from ep_campaign.stats.iterations import (
    VarianceComponents,
    advised_iterations,
    components_of_starts,
    standard_error_penalty,
)
from ep_campaign.stats.printable import printable
from ep_campaign.summary import Advice

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ep_campaign.analysis.matrix import Matrix, Where
    from ep_campaign.analysis.rows import Attempt

NS_PER_S = 1e9


def make_advice(matrix: Matrix) -> tuple[Advice, ...]:
    """One entry for each EP size and profile that has enough starts, and a cost to weigh."""
    blocks = [(size, profile) for size in matrix.plan.num_rounds for profile in matrix.plan.document["profiles"]]
    found = (_advice(matrix, size, profile) for size, profile in blocks)
    return tuple(advice for advice in found if advice is not None)


def _advice(matrix: Matrix, ep_size: int, profile: str) -> Advice | None:
    places = [
        key for key in matrix.series if matrix.is_primary(key[0]) and cell_parts(key[0].cell)[:2] == (ep_size, profile)
    ]
    parts = [part for part in (_components(matrix, where, arm) for where, arm in places) if part is not None]
    costs = _costs(matrix, ep_size, profile)
    if not parts or not costs:
        return None
    series = matrix.series[places[0]]
    spread = VarianceComponents(*(_root_mean_square(column) for column in zip(*parts, strict=True)))
    start_s, iteration_s = (median(column) for column in zip(*costs, strict=True))
    if start_s <= 0:
        return None
    # One sample is a chain of round-trips; the statistics count samples, a campaign file counts round-trips.
    chain, num_samples = series.chain_length, series.iterations // series.chain_length
    advised = advised_iterations(start_s, iteration_s * chain, spread)
    penalty = None if advised is None else standard_error_penalty(num_samples, start_s, iteration_s * chain, spread)
    return Advice(
        ep_size=ep_size,
        profile=profile,
        iterations=series.iterations,
        start_sd_log=spread.start_sd,
        iteration_sd_log=spread.iteration_sd,
        start_cost_s=start_s,
        iteration_cost_s=iteration_s,
        advised_iterations=None if advised is None else advised * chain,
        standard_error_penalty=penalty,
    )


def _components(matrix: Matrix, where: Where, arm: str) -> VarianceComponents | None:
    """Of one arm in one cell; None below the starts that a spread may be shown of."""
    records = [record for record in matrix.ok(where, arm).values() if (record.num_samples or 0) > 1]
    spreads = [record.iteration_sd_log for record in records if record.iteration_sd_log is not None]
    if not printable(len(records), 1, matrix.plan.document["family"]["alpha"]).intervals:
        return None
    return components_of_starts(start_values_us(records), spreads, min(record.num_samples or 0 for record in records))


def _root_mean_square(values: Iterable[float]) -> float:
    squares = [value**2 for value in values]
    return math.sqrt(sum(squares) / len(squares))


def _costs(matrix: Matrix, ep_size: int, profile: str) -> list[tuple[float, float]]:
    """For each start that is wholly ok, what it costs beside its iterations, and what one more of every series does [s].

    The timed loop alone: barriers between iterations count as part of what a start costs anyway.
    """
    iteration_s: dict[str, float] = {}
    for key, series in matrix.series.items():
        if cell_parts(key[0].cell)[:2] == (ep_size, profile) and series.same_as is None:
            for record in matrix.ok(*key).values():
                iteration_s[record.start] = iteration_s.get(record.start, 0.0) + (record.mean_ns or 0.0) / NS_PER_S
    iterations = matrix.plan.measurement(profile, ep_size).iterations
    return [
        (attempt.seconds - iterations * per_iteration, per_iteration)
        for start, per_iteration in iteration_s.items()
        if (attempt := _counting(matrix, start)) is not None and attempt.seconds is not None
    ]


def _counting(matrix: Matrix, start: str) -> Attempt | None:
    attempt = matrix.attempts.get(start)
    return attempt if attempt is not None and attempt.status == "ok" else None
