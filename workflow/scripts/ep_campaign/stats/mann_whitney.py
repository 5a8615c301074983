"""The Mann-Whitney test of two unpaired samples, exact also with ties.

For starts that share no rounds (two imported campaigns). Within a campaign contrasts are paired: see `contrast`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ep_campaign.stats.arrays import as_sample
from ep_campaign.stats.ranks import Alternative, doubled_midranks, tail_p

if TYPE_CHECKING:
    import numpy.typing as npt

    from ep_campaign.stats.arrays import FloatArray


class MannWhitneyTest(NamedTuple):
    """U of the first sample (R's W: pairs in which it is larger, ties a half) and its exact p, given the ties."""

    statistic: float
    p: float


def mann_whitney(
    first: npt.ArrayLike, second: npt.ArrayLike, alternative: Alternative = Alternative.TWO_SIDED
) -> MannWhitneyTest:
    """Test that both samples come from one distribution; `greater` means that the first is larger."""
    x, y = as_sample(first, "first"), as_sample(second, "second")
    doubled = doubled_midranks(np.concatenate([x, y]))
    observed = int(doubled[: x.size].sum())
    p = tail_p(rank_sum_pmf(doubled.tolist(), x.size), observed, alternative)
    return MannWhitneyTest((observed - x.size * (x.size + 1)) / 2, p)


def rank_sum_pmf(doubled_ranks: list[int], num_chosen: int) -> FloatArray:
    """Law of the sum of `num_chosen` of the ranks, all choices equally likely; index = the sum.

    One pass per rank over a table of (how many chosen, their sum).
    """
    counts = np.zeros((num_chosen + 1, sum(doubled_ranks) + 1))
    counts[0, 0] = 1
    for rank in doubled_ranks:
        counts[1:, rank:] += counts[:-1, : counts.shape[1] - rank].copy()
    law: FloatArray = counts[num_chosen] / counts[num_chosen].sum()
    return law
