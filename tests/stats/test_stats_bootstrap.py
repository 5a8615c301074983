"""The bootstrap: exact for a median, seeded for the rest, labelled with what it covers."""

from __future__ import annotations

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from ep_campaign.stats.bootstrap import (
    ideal_bootstrap_interval,
    median_bootstrap_law,
    percentile_bootstrap,
    true_coverage_note,
    true_median_coverage,
)


class TestMedianLaw:
    @pytest.mark.parametrize("values", [[1, 2, 3], [0.5, 4, 9, 11], [3, 1, 4, 1, 5], [2, 7, 1, 8, 2, 9]])
    def test_equals_all_resamples(self, values: list[float]) -> None:
        """The closed form counts what enumerating all n^n resamples counts, with and without ties."""
        brute = Counter(float(np.median(draw)) for draw in itertools.product(values, repeat=len(values)))
        law = median_bootstrap_law(values)

        assert dict(zip(law.support, law.counts, strict=True)) == dict(brute)
        assert sum(law.counts) == law.total == len(values) ** len(values)

    def test_three_values(self) -> None:
        """Of 27 resamples of three values the median is the minimum 7 times, the middle 13, the maximum 7."""
        assert median_bootstrap_law([1, 2, 3]).counts == (7, 13, 7)

    @pytest.mark.parametrize(("n", "expected"), [(4, Fraction(13, 256)), (5, Fraction(181, 3125))])
    def test_probability_of_the_minimum(self, n: int, expected: Fraction) -> None:
        """P(median = minimum) is 13/256 at n = 4 and 181/3125 at n = 5: both above .025, hence [minimum, maximum]."""
        law = median_bootstrap_law(range(n))

        assert Fraction(law.counts[0], law.total) == expected

    def test_quantile_ends(self) -> None:
        """Quantiles beyond the outermost weights are the extremes; 0 and 1 are refused."""
        law = median_bootstrap_law([10, 20, 30])

        # Of 2 values the 4 resamples give the lower, the middle (twice) and the upper: a quarter lies at the lower.
        assert median_bootstrap_law([10, 20]).quantile(0.25) == 10
        assert median_bootstrap_law([10, 20]).weights == (0.25, 0.5, 0.25)
        assert (law.quantile(0.01), law.quantile(0.5), law.quantile(0.999999)) == (10, 20, 30)
        with pytest.raises(ValueError, match="probability is 1"):
            law.quantile(1)


class TestIdealInterval:
    @pytest.mark.parametrize(("n", "lo", "hi"), [(6, 1.5, 5.5), (7, 2, 6), (8, 2, 7), (9, 2, 8), (10, 3, 8)], ids=str)
    def test_interval_of_1_to_n(self, n: int, lo: float, hi: float) -> None:
        """The 95 % interval of 1..n, known from the closed form."""
        found = ideal_bootstrap_interval(range(1, n + 1))

        assert (found.lo, found.hi, found.center) == (lo, hi, (n + 1) / 2)

    @pytest.mark.parametrize("n", [1, 3, 5])
    def test_refused_below_six(self, n: int) -> None:
        """Under six it would be [minimum, maximum] whatever the data; the error says what that covers."""
        with pytest.raises(ValueError, match=f"n = {n}: a 95% bootstrap interval needs at least 6 starts"):
            ideal_bootstrap_interval(range(n))

    def test_label(self) -> None:
        """At n = 7 the interval is [X2, X6], which covers 1 - 2 (1 + 7)/128 = 87.5 %, and its note says so."""
        assert ideal_bootstrap_interval(range(7)).note == "ideal bootstrap of the median, true coverage 87.5%"


class TestCoverageNote:
    def test_exact_where_it_can_be(self) -> None:
        """[minimum, maximum] below 6: 1 - 2^(1-n); odd n: binomial. 9 -> [X2, X8]: 1 - 2 * 10/512."""
        assert [true_median_coverage(n) for n in (3, 4, 5)] == [(0.75, True), (0.875, True), (0.9375, True)]
        assert true_median_coverage(9) == (1 - 20 / 512, True)

    def test_about_where_it_is_simulated(self) -> None:
        """Even n carries its simulated value, an even n that was not simulated the range."""
        assert true_median_coverage(6) == (0.937, False)
        assert true_coverage_note(16) == "true coverage about 94.6%"
        assert true_coverage_note(22) == "true coverage about 93-95 %"
        assert true_coverage_note(1) == "true coverage 0.0%"


class TestPercentileBootstrap:
    def test_same_seed_same_interval(self) -> None:
        """The seed decides the interval, and another seed gives another one."""
        values = np.random.default_rng(1).lognormal(size=12)
        first = percentile_bootstrap(values, _mean, seed=7)

        assert percentile_bootstrap(values, _mean, seed=7) == first
        assert percentile_bootstrap(values, _mean, seed=8) != first
        assert first.lo < first.center < first.hi
        assert first.note == "percentile bootstrap, 10000 resamples, seed 7, true coverage about 91-95 %"

    def test_agrees_with_the_ideal_bootstrap(self) -> None:
        """For a median at odd n the seeded interval ends on the same order statistics as the closed form."""
        values = np.random.default_rng(3).lognormal(size=9)
        seeded = percentile_bootstrap(values, lambda x_BN: np.median(x_BN, axis=1), seed=1)
        ideal = ideal_bootstrap_interval(values)

        assert (seeded.lo, seeded.hi, seeded.center) == (ideal.lo, ideal.hi, ideal.center)

    def test_rows_stay_together(self) -> None:
        """Rounds of two columns are resampled whole: a ratio that is 2 in every round stays 2 in every resample."""
        rounds = np.column_stack([np.arange(1.0, 9.0), 2 * np.arange(1.0, 9.0)])
        found = percentile_bootstrap(rounds, lambda x_BNC: x_BNC[:, :, 1].sum(1) / x_BNC[:, :, 0].sum(1), seed=5)

        assert (found.lo, found.center, found.hi) == (2, 2, 2)

    @pytest.mark.parametrize(
        ("values", "statistic", "message"),
        [
            ([1, 2, 3, 4, 5], "mean", "n = 5: a 95% bootstrap interval needs at least 6"),
            ([1, 2, 3, 4, 5, np.nan], "mean", "not finite"),
            ([1, 2, 3, 4, 5, 6], "scalar", r"gave shape \(\) for 10000 resamples"),
        ],
    )
    def test_refusals(self, values: list[float], statistic: str, message: str) -> None:
        """Too few replicates, holes, and a statistic that is not vectorised are refused."""
        chosen = _mean if statistic == "mean" else np.mean
        with pytest.raises(ValueError, match=message):
            percentile_bootstrap(values, chosen, seed=1)


def _mean(x_BN: np.ndarray) -> np.ndarray:
    return np.asarray(x_BN.mean(axis=1))
