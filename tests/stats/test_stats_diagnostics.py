"""Order effect, drift, unstable starts, tests that disagree: each fires when planted and not on clean data."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from ep_campaign.stats.contrast import compare
from ep_campaign.stats.diagnostics import depends_on_test, drift, order_effect, unstable_starts
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.ranks import PMethod

ORDERS = np.array(list(itertools.permutations(range(3))))
POSITIONS_12 = np.argsort(np.vstack([ORDERS, ORDERS]), axis=1)  # 12 rounds of the Williams set of three arms


def _values(position_effect: float, positions_NA: np.ndarray) -> np.ndarray:
    """Arms at 500, 800 and 1,200 us, 1 % noise, `position_effect` slower for each position later."""
    noise_NA = np.random.default_rng(11).normal(0, 0.01, positions_NA.shape)
    return np.array([500.0, 800.0, 1200.0]) * np.exp(noise_NA + position_effect * positions_NA)


class TestOrderEffect:
    def test_planted(self) -> None:
        """5 % per position in 12 rounds is found although the arms differ by far more."""
        found = order_effect(_values(0.05, POSITIONS_12), POSITIONS_12)

        assert found.veto
        assert found.method is PMethod.EXACT
        assert found.p < 1e-6
        assert found.mean_rank_by_position == pytest.approx((1, 2, 3), abs=0.2)

    def test_absent(self) -> None:
        """Clean rounds do not fire, though in raw values the slowest arm would fill the last rank of every round."""
        found = order_effect(_values(0.0, POSITIONS_12), POSITIONS_12)

        assert not found.veto
        assert found.p > 0.05

    def test_exact_p_of_identical_rounds(self) -> None:
        """Residuals ranked by position alone in 3 rounds have p = 6^-2: not enough for a veto."""
        positions_NA = np.array([[0, 1, 2], [1, 2, 0], [2, 0, 1]])
        values_NA = np.exp(0.1 * positions_NA)  # every arm's median log is .1

        found = order_effect(values_NA, positions_NA)

        assert found.p == pytest.approx(1 / 36)
        assert not found.veto
        assert found.mean_rank_by_position == (1, 2, 3)

    def test_positions_are_the_actual_ones(self) -> None:
        """The same values under other positions show no effect: the test follows what was run, not the columns."""
        values_NA = _values(0.05, POSITIONS_12)
        other_NA = np.roll(POSITIONS_12, 3, axis=0)

        assert not order_effect(values_NA, other_NA).veto

    @pytest.mark.parametrize(
        ("values", "positions", "message"),
        [
            (np.ones((2, 3)), np.zeros((2, 2), int), "values have shape"),
            (np.ones((2, 2)), np.array([[0, 1], [1, 1]]), "not 0..1 once each"),
            (np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0, 1], [1, 0]]), "expected durations above zero"),
        ],
    )
    def test_refusals(self, values: np.ndarray, positions: np.ndarray, message: str) -> None:
        """Shapes that differ, rows that are no order, and values that are no durations are refused."""
        with pytest.raises(ValueError, match=message):
            order_effect(values, positions)


class TestDrift:
    def test_planted(self) -> None:
        """A steady rise over 12 rounds has rho = 1 and p = 2/12!."""
        found = drift(np.linspace(500, 520, 12), np.arange(12))

        assert (found.rho, found.veto) == (1.0, True)
        assert found.p == pytest.approx(2 / 479_001_600)

    def test_large_rho_at_few_rounds_is_no_drift(self) -> None:
        """Five rounds in order have rho = 1 but p = 2/5! = .0167: no veto."""
        found = drift([1, 2, 3, 4, 5], range(5))

        assert (found.rho, found.veto) == (1.0, False)
        assert found.p == pytest.approx(2 / 120)

    def test_significant_but_weak_is_no_drift(self) -> None:
        """60 rounds with rho = .5 have p < .01 and no veto: what is left is small."""
        rounds = np.arange(60)
        noise = np.random.default_rng(4).permutation(60)
        found = drift(1000.0 + rounds + 1.2 * noise, rounds)

        assert found.p < 0.01
        assert 0.4 < found.rho < 0.7
        assert not found.veto

    @pytest.mark.parametrize(
        ("values", "rho", "p", "veto"),
        [
            ([1, 5, 3, 9, 4, 6, 7, 8, 2, 10, 11, 12], 0.7063, 0.01292, False),  # strong, not sure enough
            ([7, 2, 4, 3, 1, 6, 5, 9, 13, 12, 11, 10, 8], 0.7033, 0.00932, True),
            ([1, 2, 12, 4, 5, 3, 10, 16, 9, 7, 8, 6, 13, 14, 15, 17, 11, 18], 0.7379, 0.00037, True),
        ],
        ids=["12 rounds", "13 rounds", "18 rounds"],
    )
    def test_just_above_the_threshold(self, values: list[float], rho: float, p: float, veto: bool) -> None:
        """|rho| just above .7 is no veto at 12 rounds (p = .0129) and is one from 13 on."""
        found = drift(values, range(len(values)))

        assert found.rho == pytest.approx(rho, abs=5e-5)
        assert found.p == pytest.approx(p, abs=5e-6)
        assert found.veto is veto

    def test_rounds_may_have_gaps(self) -> None:
        """Only the order of the rounds matters, so that missing rounds change nothing."""
        values = [5.0, 3.0, 4.0, 9.0, 7.0, 8.0]

        assert drift(values, [0, 1, 2, 3, 4, 5]) == drift(values, [0, 2, 3, 7, 8, 11])


class TestUnstableStarts:
    @pytest.mark.parametrize(
        ("n", "num_slow", "veto"),
        [
            (6, 1, False),  # 17 %, but a single start
            (6, 2, True),
            (18, 1, False),
            (18, 2, True),  # 11.1 %
            (20, 2, False),  # exactly 10 %
            (20, 3, True),
        ],
    )
    def test_two_and_more_than_ten_percent(self, n: int, num_slow: int, veto: bool) -> None:
        """A veto needs at least two slow starts and more than 10 % of the arm's starts; all are listed."""
        values = np.full(n, 100.0)
        values[:num_slow] = 126.0

        found = unstable_starts(values)

        assert found == (tuple(range(num_slow)), n, veto)

    def test_boundary(self) -> None:
        """Exactly 1.25 x the median is not above it."""
        assert unstable_starts([100.0, 100, 100, 125.0, 125.0]).starts == ()


class TestDependsOnTest:
    def test_directions_differ(self) -> None:
        """Ranks say slower, most rounds say faster: the claim depends on the test."""
        comparison = compare([-0.001] * 7 + [0.2, 0.3, 0.4, 0.5, 0.6])

        assert (comparison.num_faster, comparison.num_slower) == (7, 5)
        assert comparison.ratio > 1
        assert depends_on_test(comparison, adjusted_p=0.04)
        assert not depends_on_test(comparison, adjusted_p=0.06)  # nothing is claimed, nothing contradicted

    def test_sign_p_too_large(self) -> None:
        """9 of 12 rounds slower: sign p = 2 (1 + 12 + 66 + 220)/4096 = .146 does not bear out a claim by ranks."""
        comparison = compare([-0.001, -0.002, -0.003] + [0.01 * k for k in range(1, 10)])

        assert comparison.sign_p == pytest.approx(598 / 4096)
        assert comparison.signed_rank_p < 0.05
        assert depends_on_test(comparison, adjusted_p=0.03)
        assert depends_on_test(comparison, adjusted_p=0.05)  # alpha itself is a claim
        assert not depends_on_test(replace(comparison, sign_p=0.05), adjusted_p=0.03)  # and bears one out

    def test_a_significant_majority_the_other_way(self) -> None:
        """A sign p of .039 does not help where it speaks for the other direction."""
        comparison = replace(compare([0.01 * k for k in range(1, 13)]), num_faster=10, num_slower=2, sign_p=0.039)
        mirrored = replace(comparison, ratio=1 / comparison.ratio, num_faster=2, num_slower=10)

        assert depends_on_test(comparison, adjusted_p=0.04)
        assert depends_on_test(mirrored, adjusted_p=0.04)

    def test_agreement(self) -> None:
        """11 of 12 rounds slower: sign p = 2 * 13/4096 = .0063 agrees."""
        slower = [-0.001] + [0.01 * k for k in range(1, 12)]

        assert not depends_on_test(compare(slower), adjusted_p=0.03)
        assert not depends_on_test(compare([-d for d in slower]), adjusted_p=0.03)

    def test_declared_sign_test_is_held_against_the_ranks(self) -> None:
        """With the sign test declared, a signed-rank p above alpha contradicts it: two huge rounds the other way."""
        differences = [0.001 * k for k in range(1, 11)] + [-0.5, -0.6]
        comparison = compare(differences, test=PairedTest.SIGN)

        assert comparison.sign_p == pytest.approx(158 / 4096)  # 10 of 12
        assert comparison.signed_rank_p > 0.05
        assert depends_on_test(comparison, adjusted_p=0.04)
