"""Bootstrap intervals, for what has no exact method; always labelled with what they really cover.

The bootstrap of a median needs no random numbers: its law over all n^n resamples has a closed form (the ideal
bootstrap). It never reaches its nominal 95 % at the sizes of a campaign, and its coverage is not monotone in n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.stats.arrays import as_sample, check_probability
from ep_campaign.stats.median import smallest_sample

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from ep_campaign.stats.arrays import FloatArray

DEFAULT_RESAMPLES = 10_000

# Coverage of a nominal 95 % percentile bootstrap of a median; even sizes by simulation (lognormal starts, 20,000 data
# sets, Monte-Carlo error .004; `benchmarks/statistics_simulations.py` repeats it), odd sizes are exact.
_SIMULATED_MEDIAN_COVERAGE = {6: 0.937, 8: 0.930, 10: 0.946, 12: 0.933, 14: 0.936, 16: 0.946, 18: 0.950, 20: 0.936}


@dataclass(frozen=True, slots=True)
class BootstrapLaw:
    """The exact distribution of a bootstrapped median.

    Attributes:
        support: Possible medians, increasing, in the unit of the values.
        counts: How many of the n^n equally likely resamples give each.
        total: n^n.
    """

    support: tuple[float, ...]
    counts: tuple[int, ...]
    total: int

    @property
    def weights(self) -> tuple[float, ...]:
        """Probability of each value of the support."""
        return tuple(count / self.total for count in self.counts)

    def quantile(self, probability: float) -> float:
        """The smallest value of the support at or below which `probability` of the resamples lie."""
        check_probability(probability, "probability")
        cumulative = 0
        for value, count in zip(self.support, self.counts, strict=True):
            cumulative += count
            if cumulative >= probability * self.total:
                return value
        return self.support[-1]


@dataclass(frozen=True, slots=True)
class BootstrapInterval:
    """A percentile-bootstrap interval; `nominal` is what was asked for and `note` says what it really covers."""

    center: float
    lo: float
    hi: float
    nominal: float
    note: str


@lru_cache(maxsize=64)
def _median_counts(n: int) -> tuple[tuple[int, int, int], ...]:
    """Resamples whose two middle order statistics are values i and j (from 1, i <= j): (i, j, count) of n^n.

    An odd resample has one middle value, so i = j. Integer arithmetic throughout: the counts add up to n^n exactly.
    """

    def num_at_least(i: int, m: int) -> int:
        """Resamples in which at least m draws are among the i smallest values."""
        return sum(math.comb(n, c) * i**c * (n - i) ** (n - c) for c in range(m, n + 1))

    half = (n + 1) // 2
    rows = []
    for i in range(1, n + 1):
        left = num_at_least(i, half) - num_at_least(i - 1, half)  # the lower middle value is i
        if n % 2 == 0:
            for j in range(i + 1, n + 1):
                # Exactly half the draws are at most i (one equals i), the others at least j (one equals j).
                below = i**half - (i - 1) ** half
                above = (n - j + 1) ** half - (n - j) ** half
                count = math.comb(n, half) * below * above
                rows.append((i, j, count))
                left -= count
        rows.append((i, i, left))
    return tuple(rows)


def median_bootstrap_law(values: npt.ArrayLike) -> BootstrapLaw:
    """The law of the median over all n^n resamples of `values`, at any n (small n is for teaching, not for claims)."""
    ordered = np.sort(as_sample(values))
    counts: dict[float, int] = {}
    for i, j, count in _median_counts(ordered.size):
        middle = float((ordered[i - 1] + ordered[j - 1]) / 2)
        counts[middle] = counts.get(middle, 0) + count
    support = sorted(counts)
    return BootstrapLaw(tuple(support), tuple(counts[value] for value in support), ordered.size**ordered.size)


def ideal_bootstrap_interval(values: npt.ArrayLike, confidence: float = 0.95) -> BootstrapInterval:
    """Percentile interval of a median over all resamples: deterministic, no seed.

    Raises:
        ValueError: Too few values: the interval would be [minimum, maximum] whatever the data.
    """
    sample = as_sample(values)
    _require_size(sample.size, confidence)
    law = median_bootstrap_law(sample)
    tail = (1 - confidence) / 2
    return BootstrapInterval(
        center=float(np.median(sample)),
        lo=law.quantile(tail),
        hi=law.quantile(1 - tail),
        nominal=confidence,
        note=f"ideal bootstrap of the median, {true_coverage_note(sample.size)}",
    )


def percentile_bootstrap(
    values: npt.ArrayLike,
    statistic: Callable[[FloatArray], FloatArray],
    *,
    seed: int,
    resamples: int = DEFAULT_RESAMPLES,
    confidence: float = 0.95,
) -> BootstrapInterval:
    """Percentile bootstrap of any statistic over replicates.

    Args:
        values: [n] or [n, ...]: one row per replicate (a start, or a round with all that was measured in it).
        statistic: Maps resamples [b, n, ...] to [b] values, vectorised over b.
        seed: Of the resampling; the plan's.
        resamples: How many.
        confidence: Nominal level.

    Raises:
        ValueError: Too few replicates, values that are not finite, or a statistic of the wrong shape.
    """
    rows = np.asarray(values, dtype=np.float64)
    _require_size(rows.shape[0] if rows.ndim else 0, confidence)
    if not np.isfinite(rows).all():
        msg = "values hold a number that is not finite; drop incomplete rounds before resampling"
        raise ValueError(msg)
    n = rows.shape[0]
    index_BN = np.random.default_rng(seed).integers(0, n, size=(resamples, n))
    law = np.asarray(statistic(rows[index_BN]), dtype=np.float64)
    if law.shape != (resamples,):
        msg = f"the statistic gave shape {law.shape} for {resamples} resamples; expected ({resamples},)"
        raise ValueError(msg)
    tail = (1 - confidence) / 2
    lo, hi = np.quantile(law, [tail, 1 - tail])
    center = float(np.asarray(statistic(rows[np.newaxis]))[0])
    note = f"percentile bootstrap, {resamples} resamples, seed {seed}, {_derived_coverage_note(n)}"
    return BootstrapInterval(center, float(lo), float(hi), confidence, note)


def true_median_coverage(n: int) -> tuple[float, bool] | None:
    """What a nominal 95 % percentile bootstrap of a median over n starts covers: (coverage, whether it is exact).

    Returns:
        None for an even n that has not been simulated.
    """
    if n < smallest_sample(0.95):  # the interval is [minimum, maximum], whatever the data
        return max(0.0, 1 - 2.0 ** (1 - n)), True
    if n % 2:
        law = median_bootstrap_law(np.arange(1, n + 1))
        # Of an odd sample every bootstrap median is an order statistic, so its interval's level is binomial.
        below = int(law.quantile(0.025)) - 1
        return 1 - 2 * sum(math.comb(n, c) for c in range(below + 1)) / 2**n, True
    if n in _SIMULATED_MEDIAN_COVERAGE:
        return _SIMULATED_MEDIAN_COVERAGE[n], False
    return None


def true_coverage_note(n: int) -> str:
    """The label of a nominal 95 % percentile bootstrap over n starts: what it covers of a median."""
    known = true_median_coverage(n)
    if known is None:
        return "true coverage about 93-95 %"
    coverage, exact = known
    return f"true coverage {'' if exact else 'about '}{coverage:.1%}"


def _derived_coverage_note(n: int) -> str:
    """What a nominal 95 % covers for other statistics: between a mean of logs (the worst simulated) and a median."""
    return f"true coverage about {'91-95' if n >= 12 else '85-95'} %"


def _require_size(n: int, confidence: float) -> None:
    check_probability(confidence, "confidence")
    needed = smallest_sample(confidence)
    if n < needed:
        msg = (
            f"n = {n}: a {confidence:.0%} bootstrap interval needs at least {needed} starts; below that it is "
            f"[minimum, maximum] whatever the data (true coverage {max(0.0, 1 - 2.0 ** (1 - n)):.1%}). Print the values"
        )
        raise ValueError(msg)
