"""Friedman's test: do K treatments differ, ranked within n blocks.

Shapes: N blocks, K treatments, B permutations.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ep_campaign.stats.ranks import PMethod, doubled_midranks_by_row

if TYPE_CHECKING:
    import numpy.typing as npt

    from ep_campaign.stats.arrays import FloatArray, IntArray

_EXACT_BUDGET = 1_000_000_000
"""Array updates an exact law may cost (a fraction of a second): K = 3 to 200 blocks, K = 4 to 34, K = 5 to 7."""

_PERMUTATIONS = 9_999


class FriedmanTest(NamedTuple):
    """Result of the test.

    Attributes:
        statistic: Friedman's chi-square, corrected for ties (0 where nothing varies).
        p: Upper-tail p, conditional on the ranks within blocks.
        method: `exact` (every permutation of every block) or `permutation` (9,999 of them, seeded).
    """

    statistic: float
    p: float
    method: PMethod


def friedman(blocks: npt.ArrayLike, *, seed: int = 0) -> FriedmanTest:
    """Test that the columns of `blocks` [N, K] are exchangeable within each row.

    Exact wherever the law costs at most `_EXACT_BUDGET` array updates, by permutation otherwise; the result says which.

    Args:
        blocks: One row per block, one column per treatment.
        seed: Of the permutations; unused where the law is exact.

    Raises:
        ValueError: Fewer than two columns, no row, or a value that is not finite.
    """
    values_NK = np.asarray(blocks, dtype=np.float64)
    if values_NK.ndim != 2 or values_NK.shape[0] < 1 or values_NK.shape[1] < 2 or not np.isfinite(values_NK).all():
        msg = f"blocks have shape {values_NK.shape}; expected [blocks >= 1, treatments >= 2] of finite numbers"
        raise ValueError(msg)
    doubled_NK = doubled_midranks_by_row(values_NK)
    statistic = _chi_square(doubled_NK)
    num_blocks, num_treatments = values_NK.shape
    observed = int((doubled_NK.sum(axis=0) ** 2).sum())
    if (np.sort(doubled_NK, axis=1) == 2 * np.arange(1, num_treatments + 1)).all():
        if _cost(num_blocks, num_treatments, step=1) <= _EXACT_BUDGET:
            row = tuple(range(1, num_treatments + 1))
            return FriedmanTest(statistic, _exact_tail((row,) * num_blocks, observed // 4), PMethod.EXACT)
    elif _cost(num_blocks, num_treatments, step=2) <= _EXACT_BUDGET:
        rows = tuple(sorted(tuple(sorted(row)) for row in doubled_NK.tolist()))
        return FriedmanTest(statistic, _exact_tail(rows, observed), PMethod.EXACT)
    return FriedmanTest(statistic, _permutation_tail(doubled_NK, observed, seed), PMethod.PERMUTATION)


def _chi_square(doubled_NK: IntArray) -> float:
    num_blocks, num_treatments = doubled_NK.shape
    mean = num_treatments + 1  # of doubled ranks
    within = int(((doubled_NK - mean) ** 2).sum())
    between = int(((doubled_NK.sum(axis=0) - num_blocks * mean) ** 2).sum())
    return (num_treatments - 1) * between / within if within else 0.0


def _cost(num_blocks: int, num_treatments: int, step: int) -> int:
    states: int = (step * num_blocks * (num_treatments - 1) + 1) ** (num_treatments - 1)
    return states * math.factorial(num_treatments) * num_blocks


@lru_cache(maxsize=64)
def _exact_law(rows: tuple[tuple[int, ...], ...]) -> tuple[IntArray, FloatArray]:
    """Every possible sum of squared column sums and its probability, each row permuted with equal chances.

    The state is the vector of the first K - 1 column sums (the last follows), held as an array that each row shifts.
    """
    num_free = len(rows[0]) - 1
    law = np.ones((1,) * num_free)
    base = 0
    for row in rows:
        low, span = min(row), max(row) - min(row)
        grown = np.zeros([size + span for size in law.shape])
        for order in itertools.permutations(row):
            window = tuple(slice(r - low, r - low + size) for r, size in zip(order, law.shape, strict=False))
            grown[window] += law
        law = grown / math.factorial(len(row))
        base += low
    sums = np.indices(law.shape) + base
    last = sum(map(sum, rows)) - sums.sum(axis=0)
    squares = (sums**2).sum(axis=0) + last**2
    values, inverse = np.unique(squares.ravel(), return_inverse=True)
    return values.astype(np.int64), np.bincount(inverse, weights=law.ravel()).astype(np.float64)


def _exact_tail(rows: tuple[tuple[int, ...], ...], observed: int) -> float:
    values, probabilities = _exact_law(rows)
    return min(1.0, float(probabilities[values >= observed].sum()))


def _permutation_tail(doubled_NK: IntArray, observed: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    at_least = 0
    for _ in range(9):  # chunks of 1,111 keep memory small at any N and K
        shuffled_BNK = rng.permuted(np.broadcast_to(doubled_NK, (_PERMUTATIONS // 9, *doubled_NK.shape)), axis=2)
        at_least += int(((shuffled_BNK.sum(axis=1) ** 2).sum(axis=1) >= observed).sum())
    return (1 + at_least) / (1 + _PERMUTATIONS)  # the observed arrangement is one of them
