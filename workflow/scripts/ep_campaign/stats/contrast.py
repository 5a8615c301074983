"""One contrast: an arm against the reference in one cell, within rounds, on log ratios.

Sign convention, for the whole project: ratio = t_arm / t_reference. A ratio below 1 means that the arm is faster.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.stats.arrays import as_positive_sample, as_sample
from ep_campaign.stats.median import median_interval, smallest_sample
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.sign import best_paired_p, sign_p
from ep_campaign.stats.signed_rank import hodges_lehmann, signed_rank_interval, signed_rank_test

if TYPE_CHECKING:
    import numpy.typing as npt

    from ep_campaign.stats.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class PairedComparison:
    """What n complete rounds say about an arm against the reference.

    Attributes:
        n: Complete rounds.
        test: The declared test; it decides the estimate, the interval and `p`.
        ratio: t_arm / t_reference: exp of the Hodges-Lehmann estimate (signed-rank) or of the median (sign).
        lo: Lower end of the interval of the ratio; None below 6 rounds at 95 %.
        hi: Upper end.
        level: True level of [lo, hi].
        signed_rank_p: Exact two-sided p of the signed-rank test, not adjusted.
        sign_p: Exact two-sided p of the sign test, not adjusted.
        num_faster: Rounds in which the arm was faster than the reference.
        num_slower: Rounds in which it was slower.
        num_equal: Rounds in which both took the same time.
        best_p: The smallest p that n rounds can give.
        warnings: What is missing and what would mend it.
    """

    n: int
    test: PairedTest
    ratio: float
    lo: float | None
    hi: float | None
    level: float | None
    signed_rank_p: float
    sign_p: float
    num_faster: int
    num_slower: int
    num_equal: int
    best_p: float
    warnings: tuple[str, ...] = ()

    @property
    def p(self) -> float:
        """Two-sided p of the declared test, not adjusted."""
        return self.signed_rank_p if self.test is PairedTest.SIGNED_RANK else self.sign_p

    @property
    def other_p(self) -> float:
        """Two-sided p of the test that was not declared."""
        return self.sign_p if self.test is PairedTest.SIGNED_RANK else self.signed_rank_p


def log_ratios(arm: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
    """log(t_arm / t_reference) of each round.

    Differences of logarithms, so that swapping the arms changes signs and nothing else.

    Raises:
        ValueError: Different lengths, or a duration that is not finite and positive.
    """
    arm_times = as_positive_sample(arm, "arm")
    reference_times = as_positive_sample(reference, "reference")
    if arm_times.size != reference_times.size:
        msg = f"{arm_times.size} starts of the arm, {reference_times.size} of the reference; pass complete rounds only"
        raise ValueError(msg)
    return np.log(arm_times) - np.log(reference_times)


def compare(
    differences: npt.ArrayLike, *, confidence: float = 0.95, test: PairedTest = PairedTest.SIGNED_RANK
) -> PairedComparison:
    """Compare an arm with the reference from the log ratios of complete rounds.

    Args:
        differences: log(t_arm / t_reference), one per complete round; see `log_ratios`.
        confidence: Least level of the interval.
        test: The declared test.
    """
    sample = as_sample(differences, "log ratios")
    n = sample.size
    ranked = signed_rank_test(sample)
    num_faster, num_slower = int((sample < 0).sum()), int((sample > 0).sum())
    if test is PairedTest.SIGNED_RANK:
        center = hodges_lehmann(sample)
        interval = signed_rank_interval(sample, confidence)
        lo, hi, level = interval or (None, None, None)
    else:
        middle = median_interval(sample, confidence)
        center, lo, hi, level = middle.center, middle.lo, middle.hi, middle.level
    return PairedComparison(
        n=n,
        test=test,
        ratio=math.exp(center),
        lo=None if lo is None else math.exp(lo),
        hi=None if hi is None else math.exp(hi),
        level=level,
        signed_rank_p=ranked.p,
        sign_p=sign_p(num_faster, num_slower),
        num_faster=num_faster,
        num_slower=num_slower,
        num_equal=n - num_faster - num_slower,
        best_p=best_paired_p(n),
        warnings=_warnings(n, ranked.num_nonzero, confidence),
    )


def _warnings(n: int, num_nonzero: int, confidence: float) -> tuple[str, ...]:
    found = []
    needed = smallest_sample(confidence)
    if n < needed:
        found.append(f"n = {n}: an exact {confidence:.0%} interval of a ratio needs {needed} complete rounds")
    if num_nonzero < n:
        found.append(f"{n - num_nonzero} of {n} rounds have a ratio of exactly 1; they count in the ranks, for no side")
    return tuple(found)
