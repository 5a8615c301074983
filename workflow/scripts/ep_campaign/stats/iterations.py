"""How many iterations a start should measure, from a campaign's own variances. Advice, never a veto.

Minimises (c_start + m c_iteration) (s_start^2 + (pi / 2) s_iteration^2 / m), the cost of a given standard error when a
start's value is the median of m iterations (pi / 2 is the variance of a median over that of a mean).

Shapes: N starts, I iterations.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ep_campaign.stats.arrays import as_positive_sample, as_sample

if TYPE_CHECKING:
    import numpy.typing as npt

_MEDIAN_FACTOR = math.pi / 2


class VarianceComponents(NamedTuple):
    """Standard deviations of log durations.

    Attributes:
        start_sd: Between starts, with the iterations' share taken out; 0 where that share explains all of it.
        iteration_sd: Between the iterations of one start.
    """

    start_sd: float
    iteration_sd: float


def variance_components(samples_NI: npt.ArrayLike) -> VarianceComponents:
    """Split the variance of one arm's slowest-rank durations [starts >= 2, iterations >= 2] (any unit, above zero)."""
    durations_NI = np.asarray(samples_NI, dtype=np.float64)
    if durations_NI.ndim != 2 or min(durations_NI.shape) < 2:
        msg = f"samples have shape {durations_NI.shape}; expected [starts >= 2, iterations >= 2]"
        raise ValueError(msg)
    if not (np.isfinite(durations_NI).all() and (durations_NI > 0).all()):
        msg = "samples hold a duration that is not finite and above zero"
        raise ValueError(msg)
    logs_NI = np.log(durations_NI)
    medians_N = np.exp(np.median(logs_NI, axis=1))
    return components_of_starts(medians_N, logs_NI.std(axis=1, ddof=1), durations_NI.shape[1])


def components_of_starts(
    medians: npt.ArrayLike, iteration_sds: npt.ArrayLike, num_iterations: int
) -> VarianceComponents:
    """The same split where a start has been reduced to its median and the standard deviation of its log durations.

    Args:
        medians: One for each start (any unit, above zero).
        iteration_sds: Likewise, dimensionless.
        num_iterations: Iterations of a start.
    """
    medians_N = as_positive_sample(medians, "medians", min_size=2)
    sds_N = as_sample(iteration_sds, "iteration_sds", min_size=2)
    if medians_N.size != sds_N.size or num_iterations < 2 or (sds_N < 0).any():
        msg = (
            f"{medians_N.size} medians, {sds_N.size} standard deviations from {sds_N.min()}, {num_iterations} iterations; "
            f"expected equally many, none below 0, of at least 2 iterations"
        )
        raise ValueError(msg)
    iteration_variance = float((sds_N**2).mean())
    of_medians = float(np.log(medians_N).var(ddof=1))
    start_variance = max(0.0, of_medians - _MEDIAN_FACTOR * iteration_variance / num_iterations)
    return VarianceComponents(math.sqrt(start_variance), math.sqrt(iteration_variance))


def advised_iterations(start_cost_s: float, iteration_cost_s: float, components: VarianceComponents) -> int | None:
    """The number of iterations that gives a standard error at least cost, rounded; at least 1.

    Returns:
        None where starts do not differ beyond their iterations: then more iterations are always worth it.
    """
    _check_costs(start_cost_s, iteration_cost_s)
    if components.start_sd == 0:
        return None
    ratio = components.iteration_sd / components.start_sd
    return max(1, round(math.sqrt(start_cost_s / iteration_cost_s * _MEDIAN_FACTOR) * ratio))


def standard_error_penalty(
    num_iterations: int, start_cost_s: float, iteration_cost_s: float, components: VarianceComponents
) -> float:
    """By what factor `num_iterations` raises the standard error over the advised number, for equal machine time."""
    advised = advised_iterations(start_cost_s, iteration_cost_s, components)
    if num_iterations < 1 or advised is None:
        msg = f"{num_iterations} iterations, start_sd {components.start_sd}; expected at least 1 and above 0"
        raise ValueError(msg)

    def cost(m: int) -> float:
        variance = components.start_sd**2 + _MEDIAN_FACTOR * components.iteration_sd**2 / m
        return (start_cost_s + m * iteration_cost_s) * variance

    return math.sqrt(cost(num_iterations) / cost(advised))


def _check_costs(start_cost_s: float, iteration_cost_s: float) -> None:
    if min(start_cost_s, iteration_cost_s) <= 0:
        msg = f"a start costs {start_cost_s} s and an iteration {iteration_cost_s} s; expected both above 0"
        raise ValueError(msg)
