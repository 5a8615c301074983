"""The signed-rank test and its interval against enumeration, scipy and published examples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from ep_campaign.stats.ranks import Alternative, doubled_midranks
from ep_campaign.stats.signed_rank import (
    fair_sum_pmf,
    hodges_lehmann,
    signed_rank_interval,
    signed_rank_k,
    signed_rank_test,
    walsh_averages,
)

# R's ?wilcox.test example: depression scores of nine patients, before and after.
R_FIRST = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
R_SECOND = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])


def _brute_p(differences: list[float], alternative: Alternative) -> float:
    """p over all sign flips of the mid-ranks, zeros staying zero."""
    values = np.asarray(differences)
    ranks = doubled_midranks(np.abs(values))
    free = ranks[values != 0]
    observed = ranks[values > 0].sum()
    sums = np.array([sum(choice) for choice in itertools.product(*[(0, rank) for rank in free])])
    less, greater = (sums <= observed).mean(), (sums >= observed).mean()
    if alternative is Alternative.LESS:
        return float(less)
    return float(greater if alternative is Alternative.GREATER else min(1.0, 2 * min(less, greater)))


class TestCriticalRank:
    def test_k_at_95_percent(self) -> None:
        """k of the Walsh averages that bound a 95 % interval, from tables of the exact null."""
        found = {n: signed_rank_k(n) for n in (6, 7, 8, 9, 10, 12, 16, 20)}

        assert {n: k[0] for n, k in found.items() if k} == {6: 1, 7: 3, 8: 4, 9: 6, 10: 9, 12: 14, 16: 30, 20: 53}
        assert found[6] == (1, 1 - 2 / 64)  # k = 1: W = 0 has probability 1/64

    def test_none_under_six(self) -> None:
        """1 - 2^-4 = 93.75 % is all that five differences can give."""
        assert [signed_rank_k(n) for n in range(1, 6)] == [None] * 5
        assert signed_rank_k(5, 1 - 2.0**-4) == (1, 1 - 2.0**-4)  # asked for just that, five suffice

    @given(st.integers(6, 40))
    @settings(max_examples=30)
    def test_level_is_kept_and_tight(self, n: int) -> None:
        """The level is at least 95 %, and one Walsh average further in it is not."""
        found = signed_rank_k(n)
        pmf = fair_sum_pmf(range(1, n + 1))

        assert found is not None
        k, level = found
        assert level == pytest.approx(1 - 2 * pmf[:k].sum())
        assert level >= 0.95
        assert 1 - 2 * pmf[: k + 1].sum() < 0.95


class TestTest:
    def test_r_example(self) -> None:
        """R: V = 40, one-sided p = .01953 (= 10/512)."""
        found = signed_rank_test(R_FIRST - R_SECOND, Alternative.GREATER)

        assert found == (40, 10 / 512, 9)

    @pytest.mark.parametrize("n", [1, 3, 5, 6, 10, 18])
    def test_best_p(self, n: int) -> None:
        """All rounds in one direction give 2^(1-n)."""
        assert signed_rank_test(np.arange(1, n + 1)).p == min(1.0, 2.0 ** (1 - n))

    @pytest.mark.parametrize("alternative", list(Alternative))
    @pytest.mark.parametrize("n", [7, 12, 18])
    def test_agrees_with_scipy(self, n: int, alternative: Alternative) -> None:
        """Without ties and zeros scipy's exact p is the same."""
        values = np.random.default_rng(n).normal(0.4, 1, n)
        expected = scipy_stats.wilcoxon(values, alternative=alternative.value, method="exact")

        found = signed_rank_test(values, alternative)

        assert found.p == pytest.approx(expected.pvalue, rel=1e-12)
        rank_sums = (found.statistic, n * (n + 1) / 2 - found.statistic)
        assert expected.statistic == (min(rank_sums) if alternative is Alternative.TWO_SIDED else rank_sums[0])

    @given(st.lists(st.integers(-4, 4), min_size=1, max_size=9), st.sampled_from(list(Alternative)))
    @settings(max_examples=80)
    def test_ties_and_zeros_are_exact(self, differences: list[int], alternative: Alternative) -> None:
        """With ties and zeros p is that of flipping the signs of the mid-ranks, zeros ranked and flipped for no one."""
        expected = _brute_p([float(d) for d in differences], alternative)

        assert signed_rank_test(differences, alternative).p == pytest.approx(expected, abs=1e-14)

    def test_zeros_weaken(self) -> None:
        """Six rounds of which two are equal can give 2^(1-4) at best, not 2^(1-6)."""
        assert signed_rank_test([0, 0, 1, 2, 3, 4]) == (18, 0.125, 4)  # ranks 3 + 4 + 5 + 6 = 18
        assert signed_rank_test([0.0] * 6) == (0, 1.0, 0)

    def test_rounding_of_a_logarithm_is_no_difference(self) -> None:
        """Log ratios within 1e-12 of each other tie: -log(2), log(2) and log(2) + 1e-16 share one mid-rank."""
        noisy = [np.log(2), -np.log(2) - 2e-16, np.log(4) - np.log(2) + 1e-16, 3.0]

        assert signed_rank_test(noisy) == signed_rank_test([1, -1, 1, 3])

    def test_a_plain_string_is_understood(self) -> None:
        """An alternative read from a plan as text is not taken for two-sided; a wrong one is refused."""
        assert signed_rank_test([1, 2, 3], "greater").p == 0.125  # type: ignore[arg-type]  # what a caller might do
        with pytest.raises(ValueError, match="bigger"):
            signed_rank_test([1, 2, 3], "bigger")  # type: ignore[arg-type]  # as above


class TestInterval:
    def test_r_example(self) -> None:
        """R: estimate .46, interval [.010, .786], level .9609 with k = 6 of 45 Walsh averages."""
        interval = signed_rank_interval(R_FIRST - R_SECOND)

        assert interval is not None
        assert hodges_lehmann(R_FIRST - R_SECOND) == pytest.approx(0.46, abs=1e-12)
        assert interval == pytest.approx((0.010, 0.786, 0.9609375), abs=1e-12)

    def test_walsh_averages(self) -> None:
        """1, 3, 8 have the averages 1, 2, 3, 4.5, 5.5, 8; their median is 3.75."""
        assert walsh_averages([8, 1, 3]).tolist() == [1, 2, 3, 4.5, 5.5, 8]
        assert hodges_lehmann([8, 1, 3]) == 3.75

    def test_none_under_six(self) -> None:
        """Five differences have an estimate and no interval."""
        assert signed_rank_interval([1, 2, 3, 4, 5]) is None

    @given(st.lists(st.integers(-1000, 1000), min_size=6, max_size=14, unique_by=abs).filter(lambda v: 0 not in v))
    @settings(max_examples=60)
    def test_interval_inverts_the_test(self, differences: list[int]) -> None:
        """The interval excludes 0 exactly where the test rejects at 1 - its level."""
        interval = signed_rank_interval(differences)
        found = signed_rank_k(len(differences))

        assert interval is not None
        assert found is not None
        excludes = interval.lo > 0 or interval.hi < 0
        assert excludes == (signed_rank_test(differences).p <= 1 - found[1] + 1e-15) or 0 in (interval.lo, interval.hi)

    @given(st.lists(st.floats(-5, 5), min_size=6, max_size=20))
    @settings(max_examples=60)
    def test_nested_in_confidence(self, differences: list[float]) -> None:
        """A higher confidence never gives a narrower interval, and the estimate lies inside."""
        narrow, wide = signed_rank_interval(differences, 0.8), signed_rank_interval(differences, 0.95)

        assert narrow is not None
        assert wide is not None
        assert wide.lo <= narrow.lo <= hodges_lehmann(differences) <= narrow.hi <= wide.hi
