"""Mid-ranks in integers, and p-values from the exact law of a sum of ranks."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ep_campaign.stats.arrays import FloatArray, IntArray


class Alternative(StrEnum):
    """Which departure from the null hypothesis a p-value counts."""

    TWO_SIDED = "two-sided"
    LESS = "less"
    GREATER = "greater"


class PMethod(StrEnum):
    """How a p-value was computed; printed beside it wherever it is not exact."""

    EXACT = "exact"
    PERMUTATION = "permutation"
    ASYMPTOTIC = "asymptotic"


def doubled_midranks(values: FloatArray) -> IntArray:
    """Twice the mid-rank of each value: integers, so that sums compare exactly also with ties."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    # A group of c equal values that ends at rank e has mid-rank e - (c - 1) / 2.
    doubled = 2 * np.cumsum(counts) - counts + 1
    return doubled[inverse].astype(np.int64)


def doubled_midranks_by_row(values_NK: FloatArray) -> IntArray:
    """`doubled_midranks` of each row of a table of N rows and K columns, by pairwise comparison (K is small)."""
    one_NKK, other_NKK = values_NK[:, :, np.newaxis], values_NK[:, np.newaxis, :]
    below_NK = (one_NKK > other_NKK).sum(axis=2)
    equal_NK = (one_NKK == other_NKK).sum(axis=2)  # itself included
    doubled_NK: IntArray = (2 * below_NK + equal_NK + 1).astype(np.int64)
    return doubled_NK


def tail_p(pmf: FloatArray, observed: int, alternative: Alternative) -> float:
    """p-value of an observed sum under `pmf`, where pmf[s] is the null probability of sum s.

    Two-sided doubles the smaller tail (at most 1), as R and scipy do.
    """
    alternative = Alternative(alternative)  # a plain string from a plan must not fall through to two-sided
    less = float(pmf[: observed + 1].sum())
    greater = float(pmf[observed:].sum())
    if alternative is Alternative.LESS:
        return min(1.0, less)
    if alternative is Alternative.GREATER:
        return min(1.0, greater)
    return min(1.0, 2 * min(less, greater))
