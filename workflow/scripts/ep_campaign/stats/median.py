"""The level of one arm: the median of its starts with its distribution-free interval.

The interval runs between two order statistics. It needs no assumption on the distribution of starts, and its level is
known exactly from the binomial law: the median lies outside [X(k), X(n+1-k)] when fewer than k starts fall on one side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.stats import binom

from ep_campaign.stats.arrays import as_sample, check_probability

if TYPE_CHECKING:
    import numpy.typing as npt


class RankInterval(NamedTuple):
    """Order statistics that enclose a median.

    Attributes:
        lo: Rank of the lower end, from 1.
        hi: Rank of the upper end; lo + hi = n + 1.
        level: Probability that the interval covers the median; at least what was asked for.
    """

    lo: int
    hi: int
    level: float


@dataclass(frozen=True, slots=True)
class MedianInterval:
    """A median and what is known about it, in the unit of the values.

    Attributes:
        n: Number of values.
        center: The median.
        minimum: Smallest value.
        maximum: Largest value.
        lo: Lower end of the interval; None where n allows none.
        hi: Upper end; None where n allows none.
        level: True level of [lo, hi]; None where n allows none.
        warnings: What is missing and what would mend it.
    """

    n: int
    center: float
    minimum: float
    maximum: float
    lo: float | None
    hi: float | None
    level: float | None
    warnings: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def order_statistic_ranks(n: int, confidence: float = 0.95) -> RankInterval | None:
    """The narrowest symmetric order-statistic interval of a median with at least this confidence.

    Returns:
        None where even [minimum, maximum], of level 1 - 2^(1-n), falls short: below 6 values at 95 %, 8 at 99 %.
    """
    check_probability(confidence, "confidence")
    best = None
    for k in range(1, n // 2 + 1):
        level = 1 - 2 * float(binom.cdf(k - 1, n, 0.5))
        if level < confidence:
            break
        best = RankInterval(k, n + 1 - k, level)
    return best


def smallest_sample(confidence: float = 0.95) -> int:
    """The fewest values whose [minimum, maximum] covers the median at this confidence (6 at 95 %)."""
    check_probability(confidence, "confidence")
    n = 2
    while 1 - 2.0 ** (1 - n) < confidence:
        n += 1
    return n


def median_interval(values: npt.ArrayLike, confidence: float = 0.95) -> MedianInterval:
    """Median of `values` with its exact order-statistic interval, or without one and with a warning."""
    ordered = np.sort(as_sample(values))
    n = ordered.size
    ranks = order_statistic_ranks(n, confidence)
    warnings: tuple[str, ...] = ()
    if ranks is None:
        needed = smallest_sample(confidence)
        warnings = (f"n = {n}: an exact {confidence:.0%} interval of a median needs {needed} starts",)
    return MedianInterval(
        n=n,
        center=float(np.median(ordered)),
        minimum=float(ordered[0]),
        maximum=float(ordered[-1]),
        lo=float(ordered[ranks.lo - 1]) if ranks else None,
        hi=float(ordered[ranks.hi - 1]) if ranks else None,
        level=ranks.level if ranks else None,
        warnings=warnings,
    )


def cv(values: npt.ArrayLike) -> float:
    """Coefficient of variation [dimensionless]: sample standard deviation (n - 1) over the mean.

    Raises:
        ValueError: Fewer than two values, or a mean of zero.
    """
    sample = as_sample(values, min_size=2)
    mean = float(sample.mean())
    if mean == 0:
        msg = "the mean of the values is 0; a coefficient of variation needs a mean other than 0"
        raise ValueError(msg)
    return float(sample.std(ddof=1)) / mean
