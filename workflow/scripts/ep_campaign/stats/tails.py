"""Tail latencies of one start: which percentile the measured iterations can support.

Distribution-free: the r-th smallest of m iterations lies above the q-quantile with probability P(Bin(m, q) < r).
Percentiles belong to one start and are never computed from pooled starts.
"""

from __future__ import annotations

from functools import lru_cache

from scipy.stats import binom

from ep_campaign.stats.arrays import check_probability

REPORTED_QUANTILES = (0.5, 0.9, 0.95, 0.99)


@lru_cache(maxsize=256)
def tail_bound_rank(num_iterations: int, quantile: float, confidence: float = 0.95) -> int | None:
    """Rank (from 1) of the iteration that bounds the quantile from above with this confidence; None if none does."""
    check_probability(quantile, "quantile")
    check_probability(confidence, "confidence")
    if 1 - quantile**num_iterations < confidence:
        return None
    # binom.ppf gives the smallest r - 1 with P(Bin <= r - 1) >= confidence.
    return int(binom.ppf(confidence, num_iterations, quantile)) + 1


@lru_cache(maxsize=256)
def iterations_for_bound(quantile: float, confidence: float = 0.95) -> int:
    """The fewest iterations whose maximum bounds the quantile from above: 29, 59 and 299 for p90, p95 and p99."""
    check_probability(quantile, "quantile")
    check_probability(confidence, "confidence")
    num_iterations = 1
    while quantile**num_iterations > 1 - confidence:
        num_iterations += 1
    return num_iterations


def printable_quantiles(num_iterations: int, confidence: float = 0.95) -> tuple[float, ...]:
    """Those of p50, p90, p95 and p99 that a start of this many iterations may print.

    The median always; a tail percentile only where the iterations bound it (a "p99" of 100 iterations is the maximum).
    """
    return tuple(
        quantile
        for quantile in REPORTED_QUANTILES
        if quantile == REPORTED_QUANTILES[0] or num_iterations >= iterations_for_bound(quantile, confidence)
    )


@lru_cache(maxsize=256)
def early_stopping_total(num_over: int, quantile: float, confidence: float = 0.99) -> int:
    """Iterations needed to claim that a quantile meets a limit when `num_over` of them exceed it.

    MLPerf LoadGen's early-stopping rule: the smallest total at which so few exceedances would have probability at most
    1 - confidence if the quantile were at the limit.
    """
    check_probability(quantile, "quantile")
    check_probability(confidence, "confidence")
    if num_over < 0:
        msg = f"{num_over} iterations over the limit; expected 0 or more"
        raise ValueError(msg)
    total = num_over + 1
    while float(binom.cdf(num_over, total, 1 - quantile)) > 1 - confidence:
        total += 1
    return total
