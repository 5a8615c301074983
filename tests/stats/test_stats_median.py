"""The median of starts, its exact interval, and the coefficient of variation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_campaign.stats.arrays import as_positive_sample
from ep_campaign.stats.median import cv, median_interval, order_statistic_ranks, smallest_sample


class TestOrderStatisticRanks:
    @pytest.mark.parametrize(
        ("n", "expected"),
        # Level: 1 - 2 P(Bin(n, 1/2) < lo). n = 7: 1 - 2/128; n = 10: 1 - 2 (1 + 10)/1024; n = 16: 1 - 2 * 697/65536.
        [
            (6, (1, 6, 1 - 2 / 64)),
            (7, (1, 7, 1 - 2 / 128)),
            (10, (2, 9, 1 - 22 / 1024)),
            (16, (4, 13, 1 - 1394 / 65536)),
        ],
    )
    def test_ranks_and_level(self, n: int, expected: tuple[int, int, float]) -> None:
        """The ranks are the innermost symmetric pair that keeps 95 %, with the binomial level."""
        found = order_statistic_ranks(n)

        assert found is not None
        assert found == pytest.approx(expected)

    @pytest.mark.parametrize("n", range(6))
    def test_none_under_six(self, n: int) -> None:
        """[minimum, maximum] of 5 covers 1 - 2^-4 = 93.75 %: no 95 % interval."""
        assert order_statistic_ranks(n) is None

    def test_smallest_sample(self) -> None:
        """A 95 % interval needs 6 values (1 - 2^-5 = .969), a 99 % interval 8 (1 - 2^-7 = .992; 7 give .984)."""
        assert (smallest_sample(0.95), smallest_sample(0.99)) == (6, 8)
        assert order_statistic_ranks(7, 0.99) is None
        assert smallest_sample() == 6
        assert order_statistic_ranks(8, 0.99) == (1, 8, 1 - 2 / 256)

    def test_a_level_asked_for_exactly_is_enough(self) -> None:
        """1 - 2^-5 is the level of six and 1 - 2^-4 of five: asked for just that, they suffice."""
        assert order_statistic_ranks(6, 1 - 2.0**-5) == (1, 6, 1 - 2.0**-5)
        assert smallest_sample(1 - 2.0**-4) == 5

    @given(st.integers(6, 60), st.floats(0.5, 0.96))
    @settings(max_examples=60)
    def test_level_is_kept_and_tight(self, n: int, confidence: float) -> None:
        """The level is at least the confidence, and the next pair inwards falls below it."""
        found = order_statistic_ranks(n, confidence)

        assert found is not None
        assert found.lo + found.hi == n + 1
        assert found.level >= confidence
        inner = 1 - 2 * sum(math.comb(n, c) for c in range(found.lo + 1)) / 2**n
        assert inner < confidence or found.lo + 1 > n // 2


class TestMedianInterval:
    def test_known_sample(self) -> None:
        """Six values: median (3 + 4)/2, interval [minimum, maximum], level 1 - 2/64."""
        found = median_interval([2, 6, -10, 4, 3, 5])

        assert (found.center, found.lo, found.hi, found.level) == (3.5, -10, 6, 0.96875)
        assert found.warnings == ()

    def test_five_values_have_a_warning_instead(self) -> None:
        """Under six there is no interval; the warning says how many it needs."""
        found = median_interval([3, 1, 2, 5, 4])

        assert (found.center, found.minimum, found.maximum) == (3, 1, 5)
        assert (found.lo, found.hi, found.level) == (None, None, None)
        assert found.warnings == ("n = 5: an exact 95% interval of a median needs 6 starts",)

    @given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=40))
    @settings(max_examples=60)
    def test_interval_holds_the_median_and_lies_in_the_data(self, values: list[float]) -> None:
        """minimum <= lo <= median <= hi <= maximum, whatever the order of the values."""
        found = median_interval(values)

        assert found.lo is not None
        assert found.hi is not None
        assert found.minimum <= found.lo <= found.center <= found.hi <= found.maximum
        assert median_interval(values[::-1]) == found

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ([], "holds 0 values; expected at least 1"),
            ([1.0, math.nan], r"values\[1\] is nan"),
            ([[1.0, 2.0]], "has 2 dimensions"),
        ],
    )
    def test_refuses_what_is_no_sample(self, values: list[float], message: str) -> None:
        """No values, values that are not finite and tables are refused."""
        with pytest.raises(ValueError, match=message):
            median_interval(values)


def test_confidence_must_be_a_probability() -> None:
    """A confidence of 95 (percent) is refused."""
    with pytest.raises(ValueError, match="confidence is 95"):
        order_statistic_ranks(10, 95)


def test_durations_must_be_positive() -> None:
    """A duration of zero has no logarithm."""
    with pytest.raises(ValueError, match=r"values\[1\] is 0.0; expected durations above zero"):
        as_positive_sample(np.array([1.0, 0.0]))


class TestCv:
    def test_known_value(self) -> None:
        """1, 2, 3: sample standard deviation 1 over mean 2."""
        assert cv([1, 2, 3]) == 0.5

    @pytest.mark.parametrize(
        ("values", "message"), [([1.0], "holds 1 values"), ([-1.0, 1.0], "mean of the values is 0")]
    )
    def test_refusals(self, values: list[float], message: str) -> None:
        """One value has no spread, and a mean of zero no ratio."""
        with pytest.raises(ValueError, match=message):
            cv(values)
