"""The shift between two unpaired samples: Hodges-Lehmann estimate and exact interval, by the law of Mann and Whitney's U.

For starts of two campaigns, which share no rounds. Shapes: n values of the first sample, m of the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ep_campaign.stats.arrays import as_sample
from ep_campaign.stats.mann_whitney import rank_sum_pmf

if TYPE_CHECKING:
    import numpy.typing as npt


class Shift(NamedTuple):
    """Second sample less the first; `lo`, `hi` and `level` are None where no interval of the confidence exists."""

    estimate: float
    lo: float | None
    hi: float | None
    level: float | None


def shift(first: npt.ArrayLike, second: npt.ArrayLike, confidence: float = 0.95) -> Shift:
    """How much larger the second sample's values are.

    The interval runs between order statistics of the n x m differences; its level is exact without ties, and at least
    that with them.
    """
    x, y = as_sample(first, "first"), as_sample(second, "second")
    differences = np.sort((y[:, None] - x[None, :]).ravel())
    estimate = float(np.median(differences))
    found = shift_ranks(x.size, y.size, confidence)
    if found is None:
        return Shift(estimate, None, None, None)
    k, level = found
    return Shift(estimate, float(differences[k]), float(differences[-1 - k]), level)


def shift_ranks(n: int, m: int, confidence: float) -> tuple[int, float] | None:
    """How many differences to leave out at either end, and the level that this gives; None where even none is too few."""
    pmf = rank_sum_pmf([2 * rank for rank in range(1, n + m + 1)], n)[::2]
    tail = np.cumsum(pmf[n * (n + 1) // 2 :])
    allowed = (1 - confidence) / 2
    if tail[0] > allowed:
        return None
    k = int(np.flatnonzero(tail <= allowed)[-1])
    return k, float(1 - 2 * tail[k])
