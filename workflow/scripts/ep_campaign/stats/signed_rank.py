"""Wilcoxon's signed-rank test and the Hodges-Lehmann interval that inverts it, exact at every n in use.

Zeros: a difference of exactly zero takes part in the ranking and then in neither sum (Pratt's rule), so that rounds
without a difference weaken the evidence as they should. Ties: the p-value is conditional on the mid-ranks.
The interval uses the law without ties; with ties its level is at least the one stated.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ep_campaign.stats.arrays import as_sample, check_probability
from ep_campaign.stats.ranks import Alternative, doubled_midranks, tail_p

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from ep_campaign.stats.arrays import FloatArray

_TIE_DECIMALS = 12
"""Log ratios closer than 1e-12 are one value: rounding in a logarithm must not break or make a tie."""


class SignedRankTest(NamedTuple):
    """Result of the test: V (sum of the mid-ranks of positive differences), its exact p, rounds that differ."""

    statistic: float
    p: float
    num_nonzero: int


class SignedRankInterval(NamedTuple):
    """Hodges-Lehmann interval and its true level."""

    lo: float
    hi: float
    level: float


def fair_sum_pmf(weights: Iterable[int]) -> FloatArray:
    """Law of the sum of those `weights` whose fair coin falls heads; pmf[s] is the probability of sum s.

    One pass per weight. Probabilities are dyadic, so float64 holds them exactly up to 53 weights.
    """
    pmf = np.ones(1)
    for weight in weights:
        grown = np.zeros(pmf.size + weight)
        grown[: pmf.size] = pmf
        grown[weight:] += pmf
        pmf = grown / 2
    return pmf


@lru_cache(maxsize=256)
def _null_pmf(n: int) -> FloatArray:
    """Null law of V without ties: ranks 1..n."""
    pmf = fair_sum_pmf(range(1, n + 1))
    pmf.flags.writeable = False
    return pmf


@lru_cache(maxsize=1024)
def signed_rank_k(n: int, confidence: float = 0.95) -> tuple[int, float] | None:
    """Which Walsh average bounds the interval: (k, level), the k-th smallest and the k-th largest.

    Returns:
        None where even k = 1, of level 1 - 2^(1-n), falls short of `confidence`.
    """
    check_probability(confidence, "confidence")
    lower_tail = np.cumsum(_null_pmf(n))
    levels = 1 - 2 * lower_tail[: lower_tail.size // 2]  # levels[k - 1] belongs to k
    k = int(np.count_nonzero(levels >= confidence))
    return (k, float(levels[k - 1])) if k else None


def walsh_averages(differences: npt.ArrayLike) -> FloatArray:
    """All n (n + 1) / 2 means of two differences (each also with itself), sorted."""
    sample = as_sample(differences)
    first, second = np.triu_indices(sample.size)
    return np.sort((sample[first] + sample[second]) / 2)


def hodges_lehmann(differences: npt.ArrayLike) -> float:
    """Median of the Walsh averages."""
    return float(np.median(walsh_averages(differences)))


def signed_rank_interval(differences: npt.ArrayLike, confidence: float = 0.95) -> SignedRankInterval | None:
    """The exact interval of the centre of symmetry of `differences`; None where n is too small."""
    averages = walsh_averages(differences)
    found = signed_rank_k(np.size(differences), confidence)
    if found is None:
        return None
    k, level = found
    return SignedRankInterval(float(averages[k - 1]), float(averages[-k]), level)


def signed_rank_test(differences: npt.ArrayLike, alternative: Alternative = Alternative.TWO_SIDED) -> SignedRankTest:
    """Exact test that `differences` are symmetric about zero, conditional on ties; p = 1 where all are zero."""
    sample = np.round(as_sample(differences), _TIE_DECIMALS)
    doubled = doubled_midranks(np.abs(sample))
    nonzero = sample != 0
    observed = int(doubled[sample > 0].sum())
    num_nonzero = int(nonzero.sum())
    if num_nonzero == sample.size and np.unique(doubled).size == sample.size:
        p = tail_p(_null_pmf(sample.size), observed // 2, alternative)
    else:
        p = tail_p(fair_sum_pmf(doubled[nonzero].tolist()), observed, alternative)
    return SignedRankTest(observed / 2, p, num_nonzero)
