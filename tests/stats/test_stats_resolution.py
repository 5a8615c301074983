"""What n rounds can resolve, held against simulation with the real test."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_campaign.stats.family import smallest_n
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.resolution import (
    MAX_ROUNDS,
    _power,
    _signed_rank_moments,
    power_of,
    resolvable_effect_percent,
    rounds_for_effect,
)
from ep_campaign.stats.signed_rank import fair_sum_pmf

START_SD = 0.03
NUM_SETS = 8000


def _simulated_power(effect_percent: float, n: int, family_size: int, test: PairedTest) -> float:
    """Share of campaigns whose p is at most .05 / family_size in the true direction."""
    rng = np.random.default_rng(n * 100 + family_size)
    logs = rng.normal(0, START_SD, (2, NUM_SETS, n))
    d_SN = math.log1p(effect_percent / 100) + logs[0] - logs[1]
    weight_SN = np.argsort(np.argsort(np.abs(d_SN), axis=1), axis=1) + 1 if test is PairedTest.SIGNED_RANK else 1
    score_S = (weight_SN * (d_SN > 0)).sum(axis=1)
    weights = range(1, n + 1) if test is PairedTest.SIGNED_RANK else [1] * n
    upper = np.cumsum(fair_sum_pmf(weights)[::-1])[::-1]  # P(score >= s)
    return float((2 * upper[score_S] <= 0.05 / family_size).mean())


@pytest.mark.parametrize("test", list(PairedTest))
@pytest.mark.parametrize(
    ("n", "family_size"), [(6, 1), (10, 1), (10, 24), (12, 12), (12, 48), (18, 8), (18, 24), (24, 48)]
)
def test_power_is_kept(n: int, family_size: int, test: PairedTest) -> None:
    """At the effect promised at power .8 the real test's power is .8 to .9: never promised and missed."""
    effect = resolvable_effect_percent(n, family_size, START_SD, test=test)
    assert effect is not None
    found = _simulated_power(effect, n, family_size, test)

    assert 0.8 - 3 * math.sqrt(0.16 / NUM_SETS) < found < 0.9


def test_all_rounds_must_agree() -> None:
    """n = 10 decides 24 contrasts only if all ten agree: power is P(d > 0)^10 = Phi(log 1.1 / (sqrt 2 x .03))^10 = .883."""
    one = NormalDist().cdf(math.log(1.1) / (math.sqrt(2) * 0.03))

    assert power_of(10, 10, 24, START_SD) == pytest.approx(one**10)
    assert power_of(10, 10, 24, START_SD) == pytest.approx(0.883, abs=5e-4)


def test_moments_without_a_shift() -> None:
    """Under the null the sum of positive ranks has mean n (n + 1)/4 and variance n (n + 1)(2 n + 1)/24."""
    mean, variance = _signed_rank_moments(0.0, 12)

    assert [mean, variance] == pytest.approx([39.0, 162.5])  # 12 x 13/4; 12 x 13 x 25/24
    # .05/12 two-sided leaves W four below its maximum of 78: P(W >= 74) by the normal law with half a rank.
    assert _power(0.0, 12, 0.05 / 12, PairedTest.SIGNED_RANK) == pytest.approx(
        NormalDist().cdf((39 - 74 + 0.5) / math.sqrt(162.5))
    )


@pytest.mark.parametrize("shift", [0.4, 1.0])
def test_moments_with_a_shift(shift: float) -> None:
    """Mean and variance agree with 200,000 simulated sums (errors: about .05 % and 1 %)."""
    d_SN = np.random.default_rng(3).normal(shift, 1, (200_000, 8))
    ranks_SN = np.argsort(np.argsort(np.abs(d_SN), axis=1), axis=1) + 1
    sums_S = (ranks_SN * (d_SN > 0)).sum(axis=1)

    mean, variance = _signed_rank_moments(shift, 8)

    assert mean == pytest.approx(sums_S.mean(), rel=0.003)
    assert variance == pytest.approx(sums_S.var(), rel=0.02)


def test_too_few_rounds_resolve_nothing() -> None:
    """Nine rounds cannot decide a family of 24, however large the effect."""
    assert resolvable_effect_percent(9, 24, START_SD) is None
    assert power_of(1000, 9, 24, START_SD) == 0.0


def test_rounds_for_effect_is_the_inverse() -> None:
    """The rounds found have the power, one order set fewer does not; a multiple of six is returned for three arms."""
    n = rounds_for_effect(5, 24, START_SD, order_set_size=6)

    assert n == 18
    assert power_of(5, 18, 24, START_SD) >= 0.8 > power_of(5, 12, 24, START_SD)
    assert rounds_for_effect(0.01, 24, START_SD) is None  # far beyond MAX_ROUNDS


def test_sign_test_needs_more_rounds_on_clean_data() -> None:
    """On log-normal starts the sign test is the weaker one: 24 rounds where the signed ranks need 18."""
    assert rounds_for_effect(5, 24, START_SD, order_set_size=6, test=PairedTest.SIGN) == 24


@given(st.integers(6, 40), st.sampled_from([1, 8, 24]), st.sampled_from([0.005, 0.03, 0.1]))
@settings(max_examples=40, deadline=None)
def test_scale_and_feasibility(n: int, family_size: int, start_sd: float) -> None:
    """An effect exists exactly where the family is decidable, is met with the power, and scales with the spread."""
    effect = resolvable_effect_percent(n, family_size, start_sd)

    assert (effect is None) == (n < smallest_n(family_size))
    if effect is not None:
        assert power_of(effect, n, family_size, start_sd) == pytest.approx(0.8, abs=1e-6)
        double = resolvable_effect_percent(n, family_size, 2 * start_sd)
        assert double is not None
        assert math.log1p(double / 100) == pytest.approx(2 * math.log1p(effect / 100), rel=1e-6)


def test_longest_campaign() -> None:
    """The search reaches MAX_ROUNDS: an effect that just that many resolve is found."""
    effect = resolvable_effect_percent(MAX_ROUNDS, 24, START_SD)
    assert effect is not None

    found = rounds_for_effect(effect + 1e-6, 24, START_SD)

    assert found is not None
    assert MAX_ROUNDS - 3 <= found <= MAX_ROUNDS


def test_refusals() -> None:
    """No spread, no effect, no order set, and a power of 80 (percent) are refused."""
    with pytest.raises(ValueError, match="expected both above 0"):
        power_of(0, 12, 1, START_SD)
    with pytest.raises(ValueError, match="start_sd is 0"):
        resolvable_effect_percent(12, 1, 0)
    with pytest.raises(ValueError, match="order_set_size is 0"):
        rounds_for_effect(5, 1, START_SD, order_set_size=0)
    with pytest.raises(ValueError, match="power is 80"):
        rounds_for_effect(5, 1, START_SD, power=80)
