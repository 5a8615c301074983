"""Holm's procedure and the rounds a family needs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_campaign.stats.family import holm, largest_family, smallest_n

PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


class TestHolm:
    @pytest.mark.parametrize(
        ("raw", "expected"),
        [
            # 5 x .01, 4 x .02, 3 x .03, then the running maximum.
            ([0.01, 0.02, 0.03, 0.04, 0.05], [0.05, 0.08, 0.09, 0.09, 0.09]),
            ([0.001, 0.01, 0.02, 0.04], [0.004, 0.03, 0.04, 0.04]),
            ([0.04, 0.001], [0.04, 0.002]),  # the order given is kept
            ([0.6, 0.7], [1.0, 1.0]),
        ],
    )
    def test_by_hand(self, raw: list[float], expected: list[float]) -> None:
        """Adjusted p-values computed by hand."""
        assert holm(raw) == pytest.approx(expected)

    def test_a_missing_contrast_counts(self) -> None:
        """A declared contrast without a p counts as p = 1: one p of a family of four is multiplied by 4."""
        assert holm([0.01, 0.02], family_size=4) == pytest.approx((0.04, 0.06))
        assert holm([], family_size=3) == ()

    @given(PROBABILITIES)
    @settings(max_examples=60)
    def test_monotone_and_bounded(self, raw: list[float]) -> None:
        """Adjustment keeps the order of the p-values, never lowers one, and lies between p and Bonferroni's m p."""
        adjusted = holm(raw)

        for p, q in zip(raw, adjusted, strict=True):
            assert p <= q <= min(1.0, p * len(raw)) or q == max(adjusted)
            assert q <= 1
        ranked = [q for _, q in sorted(zip(raw, adjusted, strict=True))]
        assert ranked == sorted(ranked)

    @given(PROBABILITIES, st.floats(0.001, 0.2))
    @settings(max_examples=60)
    def test_equals_the_step_down_procedure(self, raw: list[float], alpha: float) -> None:
        """adjusted <= alpha exactly where stepping down through the sorted p-values rejects."""
        rejected: set[int] = set()
        for step, index in enumerate(sorted(range(len(raw)), key=raw.__getitem__)):
            if raw[index] * (len(raw) - step) > alpha:
                break
            rejected.add(index)

        assert {i for i, q in enumerate(holm(raw)) if q <= alpha} == rejected

    @pytest.mark.parametrize(
        ("raw", "size", "message"),
        [([1.2], None, "expected 0 to 1"), ([-0.1], None, "expected 0 to 1"), ([0.1, 0.2], 1, "a family of 1")],
    )
    def test_refusals(self, raw: list[float], size: int | None, message: str) -> None:
        """A number that is no probability and a family smaller than its p-values are refused."""
        with pytest.raises(ValueError, match=message):
            holm(raw, size)


class TestSmallestN:
    def test_table(self) -> None:
        """1 + ceil(log2(m / .05)) for the family sizes of the design table."""
        sizes = (1, 2, 4, 8, 12, 16, 24, 36, 48, 72)

        assert [smallest_n(m) for m in sizes] == [6, 7, 8, 9, 9, 10, 10, 11, 11, 12]

    @given(st.integers(1, 5000), st.floats(0.001, 0.2))
    @settings(max_examples=60)
    def test_formula_and_inverse(self, family_size: int, alpha: float) -> None:
        """n is 1 + ceil(log2(m / alpha)), decides the family, and n - 1 does not."""
        n = smallest_n(family_size, alpha)

        assert n == 1 + math.ceil(math.log2(family_size / alpha)) or family_size / alpha == 2.0 ** (n - 1)
        assert largest_family(n, alpha) >= family_size > largest_family(n - 1, alpha)

    @pytest.mark.parametrize(("family_size", "alpha"), [(0, 0.05), (1, 0.0), (1, 1.0)])
    def test_refusals(self, family_size: int, alpha: float) -> None:
        """An empty family and an alpha that is no probability are refused."""
        with pytest.raises(ValueError, match="expected"):
            smallest_n(family_size, alpha)
