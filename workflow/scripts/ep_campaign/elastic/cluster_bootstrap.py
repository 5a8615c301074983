"""A bootstrap that draws whole requests: the gaps of one request are not independent of each other.

It describes the spread within the runs that were made. How runs differ is for the repeats: it is no interval over starts.

Shapes: B resamples, R requests, V values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.stats.arrays import check_probability

if TYPE_CHECKING:
    from collections.abc import Sequence

NUM_RESAMPLES = 1000
MIN_REQUESTS = 6
_BATCH = 100


@dataclass(frozen=True)
class ClusterInterval:
    """A percentile interval and what it is made of."""

    lo: float
    hi: float
    num_requests: int
    num_values: int


def cluster_quantile_interval(
    values_by_request: Sequence[Sequence[float]],
    share: float,
    *,
    seed: int,
    confidence: float = 0.95,
    num_resamples: int = NUM_RESAMPLES,
) -> ClusterInterval | None:
    """Interval of a quantile of pooled values, requests being what is drawn; None below six requests with values.

    Args:
        values_by_request: The values of each request.
        share: Which quantile, by nearest rank.
        seed: Of the resampling; the plan's.
        confidence: Nominal level.
        num_resamples: How many.
    """
    check_probability(share, "share")
    check_probability(confidence, "confidence")
    clusters = [values for values in values_by_request if values]
    if len(clusters) < MIN_REQUESTS:
        return None
    owners_V = np.repeat(np.arange(len(clusters)), [len(values) for values in clusters])
    values_V = np.concatenate([np.asarray(values, dtype=np.float64) for values in clusters])
    order_V = np.argsort(values_V, kind="stable")
    owners_V, values_V = owners_V[order_V], values_V[order_V]
    generator = np.random.default_rng(seed)
    drawn = []
    for first in range(0, num_resamples, _BATCH):
        size = min(_BATCH, num_resamples - first)
        counts_BR = generator.multinomial(len(clusters), np.full(len(clusters), 1 / len(clusters)), size=size)
        reached_BV = np.cumsum(counts_BR[:, owners_V], axis=1)
        # Nearest rank: the first value at or below which the share of the drawn values lies.
        needed_B = np.ceil(share * reached_BV[:, -1])
        drawn.append(values_V[np.argmax(reached_BV >= needed_B[:, None], axis=1)])
    tail = (1 - confidence) / 2
    lo, hi = np.quantile(np.concatenate(drawn), [tail, 1 - tail], method="nearest")
    return ClusterInterval(float(lo), float(hi), len(clusters), len(values_V))
