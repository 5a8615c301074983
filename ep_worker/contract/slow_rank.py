"""Whether one rank makes the latency: which rank is the slowest how often, and by how much. Seen, not refused.

A rank that is late before the last exchange makes its peers wait, and nobody's own time then tells it apart; one that is late
after it is seen here.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARE = 0.9
RATIO = 1.1
REASON_CODE = "slow_rank"


@dataclass(frozen=True)
class RankSpread:
    """How the ranks of one series differ.

    Attributes:
        slowest_share: For each rank the share of samples in which it was the slowest; ties go to the lowest rank.
        median_ns: For each rank the median of its samples [ns].
    """

    slowest_share: tuple[float, ...]
    median_ns: tuple[float, ...]

    @property
    def slowest(self) -> int:
        """The rank that is the slowest most often."""
        return max(range(len(self.slowest_share)), key=self.slowest_share.__getitem__)

    @property
    def ratio(self) -> float:
        """Its median over the median of the other ranks' medians."""
        others = [value for rank, value in enumerate(self.median_ns) if rank != self.slowest]
        return self.median_ns[self.slowest] / median(others)

    @property
    def flagged(self) -> bool:
        """Whether one rank is the slowest in nearly every sample, and by more than a tenth."""
        return self.slowest_share[self.slowest] >= SHARE and self.ratio >= RATIO

    @property
    def sentence(self) -> str:
        """What is said where it is flagged."""
        share = self.slowest_share[self.slowest]
        return f"rank {self.slowest} is the slowest in {share:.0%} of samples, its median {self.ratio:.2f} times the others'"


def rank_spread(times_ns: Sequence[int], num_ranks: int, num_phases: int) -> RankSpread:
    """Of the last phase, which is the whole.

    Args:
        times_ns: [sample, rank, phase], flat [ns].
        num_ranks: Ranks; at least two.
        num_phases: Phases.
    """
    stride = num_ranks * num_phases
    by_rank = [times_ns[(rank + 1) * num_phases - 1 :: stride] for rank in range(num_ranks)]
    wins = [0] * num_ranks
    for sample in zip(*by_rank, strict=True):
        wins[sample.index(max(sample))] += 1
    num_samples = len(by_rank[0])
    return RankSpread(tuple(won / num_samples for won in wins), tuple(float(median(times)) for times in by_rank))
