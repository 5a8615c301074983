"""Friedman, Spearman and Mann-Whitney against enumeration, scipy and published examples."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from ep_campaign.stats import friedman as friedman_module
from ep_campaign.stats.friedman import friedman
from ep_campaign.stats.mann_whitney import mann_whitney
from ep_campaign.stats.ranks import Alternative, PMethod, doubled_midranks
from ep_campaign.stats.spearman import EXACT_MAX_N, spearman


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
@settings(max_examples=50)
def test_doubled_midranks_are_twice_scipys(values: list[int]) -> None:
    """Mid-ranks agree with scipy's average ranks."""
    expected = (2 * scipy_stats.rankdata(values)).tolist()

    assert doubled_midranks(np.array(values, dtype=float)).tolist() == expected


class TestFriedman:
    @pytest.mark.parametrize(("n", "expected"), [(2, 1 / 6), (3, 1 / 36), (4, 1 / 216)])
    def test_smallest_p(self, n: int, expected: float) -> None:
        """Identical rankings of three arms in n rounds have p = 6^(1-n)."""
        found = friedman([[10, 20, 30]] * n)

        assert found.p == pytest.approx(expected, rel=1e-12)
        assert found.method is PMethod.EXACT
        assert found.statistic == 2 * n  # n (K - 1): the largest possible

    @pytest.mark.parametrize("ties", [False, True])
    def test_equals_enumeration(self, ties: bool) -> None:
        """p is the share of all within-row permutations with a statistic at least as large: 6^4 = 1,296 of them."""
        rows = (
            np.array([[1, 1, 2], [3, 1, 2], [1, 1, 1], [1, 2, 2]]) if ties else np.array([[1, 2, 3]] * 3 + [[2, 1, 3]])
        )
        orders = itertools.product(*[itertools.permutations(row) for row in rows.tolist()])
        scores = [_spread(np.array(order)) for order in orders]
        expected = np.mean(np.array(scores) >= _spread(rows) - 1e-9)

        assert friedman(rows).p == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize(("n", "k"), [(12, 3), (10, 4), (12, 6)])
    def test_statistic_is_scipys(self, n: int, k: int) -> None:
        """The chi-square statistic agrees with scipy, with ties as well."""
        blocks = np.random.default_rng(n * k).integers(0, 6, (n, k))

        assert friedman(blocks).statistic == pytest.approx(scipy_stats.friedmanchisquare(*blocks.T).statistic)

    def test_large_law_falls_back_to_permutations(self) -> None:
        """Six arms in 12 rounds are permuted, seeded, said to be so, and near the chi-square limit."""
        blocks = np.random.default_rng(4).normal(size=(12, 6)) + np.arange(6) * 0.15
        found = friedman(blocks, seed=1)

        assert found.method is PMethod.PERMUTATION
        assert found == friedman(blocks, seed=1)
        expected = scipy_stats.friedmanchisquare(*blocks.T).pvalue
        assert found.p == pytest.approx(expected, abs=0.02)  # 3 s.e. of 9,999 permutations: .015

    def test_permutations_agree_with_the_exact_law(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On a case that both can do, 9,999 permutations come within three standard errors of the exact p."""
        blocks = np.random.default_rng(9).normal(size=(8, 3)) + np.array([0, 0.3, 0.6])
        exact = friedman(blocks)
        monkeypatch.setattr(friedman_module, "_EXACT_BUDGET", 0)
        sampled = friedman(blocks, seed=2)

        assert (exact.method, sampled.method) == (PMethod.EXACT, PMethod.PERMUTATION)
        assert abs(sampled.p - exact.p) < 3 * (exact.p * (1 - exact.p) / 9999) ** 0.5

    @pytest.mark.parametrize(("n", "method"), [(7, PMethod.EXACT), (8, PMethod.PERMUTATION)])
    def test_where_the_exact_law_ends(self, n: int, method: PMethod) -> None:
        """Five arms: 29^4 states x 5! x 7 = .59e9 updates are made, 33^4 x 5! x 8 = 1.14e9 are not."""
        assert friedman(np.random.default_rng(n).normal(size=(n, 5))).method is method

    def test_ties_need_a_larger_table(self) -> None:
        """With ties sums move in halves: 18 rounds of four arms have 109^3 x 4! x 18 = .56e9, 21 have 1.03e9."""
        blocks = np.random.default_rng(1).integers(0, 3, (21, 4))

        assert friedman(blocks[:18]).method is PMethod.EXACT
        assert friedman(blocks).method is PMethod.PERMUTATION

    def test_one_block(self) -> None:
        """A single round ranks its arms somehow: p = 1."""
        assert friedman([[1, 2, 3]]).p == pytest.approx(1.0)

    def test_no_variation(self) -> None:
        """Rows that are all ties say nothing."""
        assert friedman([[1, 1], [2, 2]]) == (0.0, 1.0, PMethod.EXACT)

    @pytest.mark.parametrize("blocks", [[[1.0]], [1.0, 2.0], np.empty((0, 3)), [[1.0, np.nan]]])
    def test_refusals(self, blocks: object) -> None:
        """One treatment, one dimension, no block and holes are refused."""
        with pytest.raises(ValueError, match="expected \\[blocks >= 1, treatments >= 2\\]"):
            friedman(blocks)  # type: ignore[arg-type]  # one case is no array on purpose


class TestSpearman:
    @pytest.mark.parametrize("n", [2, 4, 6, 7])
    def test_equals_enumeration(self, n: int) -> None:
        """The exact p is the share of all n! orders with |rho| at least as large, ties included."""
        y = np.random.default_rng(n).integers(0, 4, n)
        x_ranks, y_ranks = np.arange(n) - (n - 1) / 2, scipy_stats.rankdata(y) - (n + 1) / 2
        observed = abs(x_ranks @ y_ranks)
        shares = [abs(x_ranks @ np.array(order)) >= observed - 1e-9 for order in itertools.permutations(y_ranks)]

        found = spearman(range(n), y)

        assert found.p == pytest.approx(np.mean(shares), rel=1e-12)
        assert found.method is PMethod.EXACT

    @pytest.mark.parametrize("n", [9, 13, 18])
    def test_rho_is_scipys(self, n: int) -> None:
        """rho agrees with scipy with ties on both sides."""
        rng = np.random.default_rng(n)
        x, y = rng.integers(0, 6, n), rng.integers(0, 6, n)

        assert spearman(x, y).rho == pytest.approx(scipy_stats.spearmanr(x, y).statistic)

    @pytest.mark.parametrize(("n", "below", "above"), [(8, 0.05, 0.06), (12, 0.0125, 0.0135), (13, 0.009, 0.0095)])
    def test_probability_beyond_the_drift_threshold(self, n: int, below: float, above: float) -> None:
        """The smallest |rho| above .7 has p .0576, .0129 and .0093 at n = 8, 12 and 13, as the drift rule relies on."""
        values = _order_with_rho_just_above(n, 0.7)
        found = spearman(range(n), values)

        assert 0.7 < found.rho < 0.72
        assert below < found.p < above

    def test_asymptotic_beyond_13(self) -> None:
        """From 14 on p is Fisher's z, labelled; at |rho| = .7011, n = 14 it is .0051 (exact: .0067)."""
        values = _order_with_rho_just_above(EXACT_MAX_N + 1, 0.7)
        found = spearman(range(14), values)

        assert found.method is PMethod.ASYMPTOTIC
        assert found.p == pytest.approx(0.0051, abs=5e-5)
        assert spearman(range(20), range(20)) == (1.0, 0.0, PMethod.ASYMPTOTIC)

    def test_constant_side(self) -> None:
        """Values that do not vary have no trend."""
        assert spearman([1, 2, 3], [5, 5, 5]) == (0.0, 1.0, PMethod.EXACT)

    def test_lengths_must_agree(self) -> None:
        """A value without its round is refused."""
        with pytest.raises(ValueError, match="samples of 2 and 3 values"):
            spearman([1, 2], [1, 2, 3])


class TestMannWhitney:
    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            ([-1] * 3, [1] * 3, 2 / 20),  # 2 / C(6, 3)
            ([-1] * 4, [1] * 4, 2 / 70),
            ([1, -1, -1, -1], [-1, 1, 1, 1], 34 / 70),  # 2 (1 + 16) / C(8, 4)
        ],
    )
    def test_golang_benchmath_values(self, first: list[int], second: list[int], expected: float) -> None:
        """Exact two-sided p with ties, as golang/perf's benchmath tests state it."""
        assert mann_whitney(first, second).p == pytest.approx(expected, rel=1e-12)

    def test_r_example(self) -> None:
        """R's ?wilcox.test permeability example: W = 35, one-sided p = .1272."""
        x = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46]
        y = [1.15, 0.88, 0.90, 0.74, 1.21]
        found = mann_whitney(x, y, Alternative.GREATER)

        assert found.statistic == 35
        assert found.p == pytest.approx(0.1272, abs=5e-5)

    @pytest.mark.parametrize("alternative", list(Alternative))
    def test_agrees_with_scipy(self, alternative: Alternative) -> None:
        """Without ties scipy's exact p is the same."""
        rng = np.random.default_rng(2)
        x, y = rng.normal(size=12), rng.normal(0.5, 1, 9)
        expected = scipy_stats.mannwhitneyu(x, y, alternative=alternative.value, method="exact")

        assert mann_whitney(x, y, alternative) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-12)

    @given(st.lists(st.integers(0, 3), min_size=1, max_size=5), st.lists(st.integers(0, 3), min_size=1, max_size=5))
    @settings(max_examples=50)
    def test_ties_are_exact(self, first: list[int], second: list[int]) -> None:
        """With ties p is the share of all splits of the pooled ranks."""
        ranks = doubled_midranks(np.array(first + second, dtype=float))
        sums = np.array([sum(choice) for choice in itertools.combinations(ranks.tolist(), len(first))])
        observed = ranks[: len(first)].sum()
        expected = min(1.0, 2 * min((sums <= observed).mean(), (sums >= observed).mean()))

        assert mann_whitney(first, second).p == pytest.approx(expected, rel=1e-12)


def _spread(rows: np.ndarray) -> float:
    sums = scipy_stats.rankdata(rows, axis=1).sum(axis=0)
    return float(((sums - sums.mean()) ** 2).sum())


def _order_with_rho_just_above(n: int, threshold: float) -> list[int]:
    """A permutation whose rho is the smallest value above `threshold` that n ranks can give (in even steps of S)."""
    # rho = 1 - 6 S / (n^3 - n) with S even; descend from the identity by adjacent swaps (each raises S by 2).
    wanted = int((1 - threshold) * (n**3 - n) / 6)
    wanted -= wanted % 2
    rng = np.random.default_rng(0)
    order = list(range(n))
    while (s := sum((i - v) ** 2 for i, v in enumerate(order))) != wanted:
        i, j = rng.choice(n, 2, replace=False)
        order[i], order[j] = order[j], order[i]
        new = sum((k - v) ** 2 for k, v in enumerate(order))
        if abs(new - wanted) > abs(s - wanted):
            order[i], order[j] = order[j], order[i]
    return order
