"""Spearman's rank correlation with its exact p-value."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ep_campaign.stats.arrays import as_sample
from ep_campaign.stats.ranks import PMethod, doubled_midranks

if TYPE_CHECKING:
    import numpy.typing as npt

    from ep_campaign.stats.arrays import FloatArray, IntArray

EXACT_MAX_N = 13
"""Longest sample whose law is enumerated (13! orders, by subsets, a fraction of a second)."""


class SpearmanTest(NamedTuple):
    """rho, two-sided p of |rho|, and how p was computed; rho = 0 and p = 1 where one side does not vary."""

    rho: float
    p: float
    method: PMethod


def spearman(first: npt.ArrayLike, second: npt.ArrayLike) -> SpearmanTest:
    """Spearman's rho of two equally long samples, conditional on ties.

    Exact to n = 13; beyond that a Fisher z approximation, labelled `asymptotic`.

    Raises:
        ValueError: Different lengths or values that are not finite.
    """
    x, y = as_sample(first, "first"), as_sample(second, "second")
    if x.size != y.size:
        msg = f"samples of {x.size} and {y.size} values; expected equally many"
        raise ValueError(msg)
    n = x.size
    x_ranks, y_ranks = _smallest_integers(doubled_midranks(x)), _smallest_integers(doubled_midranks(y))
    # n * S - (sum x)(sum y) is the covariance in integers; its size orders outcomes without rounding.
    centre = int(x_ranks.sum()) * int(y_ranks.sum())
    covariance = n * int(x_ranks @ y_ranks) - centre
    spread = _integer_spread(x_ranks) * _integer_spread(y_ranks)
    if spread == 0:
        return SpearmanTest(0.0, 1.0, PMethod.EXACT)
    rho = covariance / math.sqrt(spread)
    if n > EXACT_MAX_N:
        return SpearmanTest(rho, _asymptotic_p(rho, n), PMethod.ASYMPTOTIC)
    law = _product_sum_pmf(tuple(sorted(x_ranks.tolist())), tuple(sorted(y_ranks.tolist())))
    extreme = np.abs(n * np.arange(law.size) - centre) >= abs(covariance)
    return SpearmanTest(rho, min(1.0, float(law[extreme].sum())), PMethod.EXACT)


def _smallest_integers(doubled: IntArray) -> IntArray:
    """Plain ranks where there are no ties: a smaller table for the same answer."""
    return doubled if (doubled % 2).any() else doubled // 2


def _integer_spread(ranks: IntArray) -> int:
    return int(ranks.size * (ranks**2).sum() - ranks.sum() ** 2)


def _asymptotic_p(rho: float, n: int) -> float:
    """Two-sided p from Fisher's z with variance 1.06 / (n - 3), the correction for ranks (Fieller et al. 1957)."""
    if abs(rho) >= 1:
        return 0.0
    z = math.atanh(abs(rho)) * math.sqrt((n - 3) / 1.06)
    return math.erfc(z / math.sqrt(2))


@lru_cache(maxsize=16)
def _product_sum_pmf(x_ranks: tuple[int, ...], y_ranks: tuple[int, ...]) -> FloatArray:
    """Law of sum x_i y_pi(i) over all n! equally likely pi; index = the sum.

    Positions are filled in order. A state is the set of y already used (a bit mask), its value the counts of each
    partial sum: n 2^(n-1) shifted additions instead of n! orders. All sets of one size are one array.
    """
    n = len(x_ranks)
    size = sum(x * y for x, y in zip(x_ranks, y_ranks, strict=True)) + 1  # both sorted: the largest sum
    masks = np.arange(2**n)
    num_used = sum((masks >> bit) & 1 for bit in range(n))
    row_of = np.zeros(2**n, dtype=np.int64)
    counts_SV = np.zeros((1, size))
    counts_SV[0, 0] = 1  # S sets of this size, V partial sums
    for position, x in enumerate(x_ranks):
        used = masks[num_used == position]
        row_of[masks[num_used == position + 1]] = np.arange(math.comb(n, position + 1))
        grown_SV = np.zeros((math.comb(n, position + 1), size))
        for bit, y in enumerate(y_ranks):
            free = (used >> bit) & 1 == 0
            shift = x * y
            grown_SV[row_of[used[free] | (1 << bit)], shift:] += counts_SV[free, : size - shift]
        counts_SV = grown_SV
    law: FloatArray = counts_SV[0] / math.factorial(n)
    return law
