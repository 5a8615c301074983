"""One contrast: the sign convention, both paired tests, and what is missing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_campaign.stats.contrast import compare, log_ratios
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.sign import best_paired_p, sign_p


class TestSignP:
    @pytest.mark.parametrize(
        ("low", "high", "expected"),
        # 2 P(Bin(12, 1/2) <= 2) = 2 (1 + 12 + 66)/4096; an even split doubles past 1.
        [(6, 0, 2 / 64), (0, 6, 2 / 64), (2, 10, 158 / 4096), (5, 5, 1.0), (0, 0, 1.0)],
    )
    def test_known_values(self, low: int, high: int, expected: float) -> None:
        """Twice the binomial tail of the smaller side, at most 1."""
        assert sign_p(low, high) == pytest.approx(expected, rel=1e-12)

    def test_negative_counts_are_refused(self) -> None:
        """A count below zero is a programming error upstream."""
        with pytest.raises(ValueError, match="-1 and 3"):
            sign_p(-1, 3)

    def test_best_p(self) -> None:
        """2^(1-n): .25, .125, .0625 at n = 3, 4, 5."""
        assert [best_paired_p(n) for n in (0, 1, 3, 4, 5)] == [1, 1, 0.25, 0.125, 0.0625]


class TestCompare:
    def test_arm_that_is_faster_has_a_ratio_below_one(self) -> None:
        """ratio = t_arm / t_reference: an arm at 90 % of the reference's time has .9 and is faster in all rounds."""
        reference = np.array([100.0, 103, 99, 108, 97, 101])
        found = compare(log_ratios(0.9 * reference, reference))

        assert found.ratio == pytest.approx(0.9)
        assert (found.num_faster, found.num_slower, found.num_equal) == (6, 0, 0)
        assert found.lo == pytest.approx(0.9)
        assert found.level == 0.96875
        assert found.sign_p == found.best_p == 2 / 64
        assert found.warnings == ()

    def test_sign_test_may_be_declared(self) -> None:
        """The sign test takes the median ratio and its order-statistic interval; the other p stays beside it."""
        differences = np.log([0.5, 0.8, 0.9, 0.95, 1.01, 0.97])
        found = compare(differences, test=PairedTest.SIGN)

        # Sorted: .5 .8 .9 .95 .97 1.01. Median of logs: sqrt(.9 * .95). One of six slower, with the smallest rank:
        # sign p = 2 (1 + 6)/64, signed-rank p = 2 * 2/64.
        assert found.ratio == pytest.approx(math.sqrt(0.9 * 0.95))
        assert [found.lo, found.hi] == pytest.approx([0.5, 1.01])
        assert [found.sign_p, found.signed_rank_p] == pytest.approx([14 / 64, 4 / 64])
        assert (found.p, found.other_p) == (found.sign_p, found.signed_rank_p)
        assert compare(differences).p == found.signed_rank_p

    def test_few_rounds_and_equal_rounds_warn(self) -> None:
        """Under six rounds there is no interval; rounds with a ratio of 1 are counted and said."""
        found = compare([0.0, 0.1, -0.2])

        assert (found.lo, found.hi, found.level, found.num_equal) == (None, None, None, 1)
        assert found.warnings == (
            "n = 3: an exact 95% interval of a ratio needs 6 complete rounds",
            "1 of 3 rounds have a ratio of exactly 1; they count in the ranks, for no side",
        )

    @given(st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(0.1, 1e4)), min_size=6, max_size=18))
    @settings(max_examples=60)
    def test_swapping_the_arms_inverts_the_ratio(self, pairs: list[tuple[float, float]]) -> None:
        """Arm against reference and reference against arm have reciprocal ratios and intervals, and the same p."""
        arm, reference = np.array(pairs).T
        one, other = compare(log_ratios(arm, reference)), compare(log_ratios(reference, arm))

        assert one.ratio == pytest.approx(1 / other.ratio)
        assert one.lo is not None
        assert other.hi is not None
        assert one.lo == pytest.approx(1 / other.hi)
        assert (one.signed_rank_p, one.sign_p, one.num_faster) == (other.signed_rank_p, other.sign_p, other.num_slower)

    @given(st.lists(st.floats(0.5, 2.0), min_size=6, max_size=12), st.floats(0.01, 100))
    @settings(max_examples=40)
    def test_units_do_not_matter(self, times: list[float], scale: float) -> None:
        """Microseconds and milliseconds give the same contrast."""
        arm, reference = np.array(times), np.linspace(1, 1.1, len(times))
        one, other = compare(log_ratios(arm, reference)), compare(log_ratios(scale * arm, scale * reference))

        assert other.ratio == pytest.approx(one.ratio)
        assert (other.num_faster, other.num_slower) == (one.num_faster, one.num_slower) or one.num_equal

    @pytest.mark.parametrize(
        ("arm", "reference", "message"),
        [
            ([1.0, 2.0], [1.0], "2 starts of the arm, 1 of the reference"),
            ([0.0], [1.0], r"arm\[0\] is 0.0; expected durations above zero"),
            ([1.0], [math.inf], r"reference\[0\] is inf"),
        ],
    )
    def test_refusals(self, arm: list[float], reference: list[float], message: str) -> None:
        """Incomplete rounds and values that are no durations are refused."""
        with pytest.raises(ValueError, match=message):
            log_ratios(arm, reference)
