"""Percentiles that a start's iterations can support."""

from __future__ import annotations

import numpy as np
import pytest

from ep_campaign.stats.tails import early_stopping_total, iterations_for_bound, printable_quantiles, tail_bound_rank


@pytest.mark.parametrize(("quantile", "expected"), [(0.90, 29), (0.95, 59), (0.99, 299)])
def test_iterations_for_bound(quantile: float, expected: int) -> None:
    """q^m <= .05 first at 29, 59 and 299; one iteration fewer is not enough."""
    assert iterations_for_bound(quantile) == expected
    assert quantile**expected <= 0.05 < quantile ** (expected - 1)


@pytest.mark.parametrize(
    ("num_iterations", "expected"),
    [
        (1, (0.5,)),
        (28, (0.5,)),
        (29, (0.5, 0.9)),
        (59, (0.5, 0.9, 0.95)),
        (100, (0.5, 0.9, 0.95)),
        (298, (0.5, 0.9, 0.95)),
        (299, (0.5, 0.9, 0.95, 0.99)),
    ],
)
def test_printable_quantiles(num_iterations: int, expected: tuple[float, ...]) -> None:
    """A p99 needs 299 iterations; of 100 it would be the maximum."""
    assert printable_quantiles(num_iterations) == expected


def test_bound_rank() -> None:
    """Of 299 iterations the maximum bounds p99, of 298 nothing does; of 300 the 279th bounds p90."""
    assert tail_bound_rank(299, 0.99) == 299
    assert tail_bound_rank(298, 0.99) is None
    assert tail_bound_rank(300, 0.90) == 279


def test_bound_rank_covers() -> None:
    """In 4,000 simulated starts of 100 uniform iterations the bound lies above p90 in 95 % or a little more."""
    rank = tail_bound_rank(100, 0.9)
    assert rank is not None
    samples = np.sort(np.random.default_rng(1).random((4000, 100)), axis=1)
    share = (samples[:, rank - 1] >= 0.9).mean()

    assert 0.94 < share < 0.985  # rank 95 would cover P(Bin(100, .9) < 95) = .942, rank 96 covers .976


def test_mlperf_totals() -> None:
    """LoadGen's early-stopping totals at confidence .99."""
    assert [early_stopping_total(t, 0.90) for t in (0, 1, 2)] == [44, 64, 81]
    assert [early_stopping_total(t, 0.99) for t in (0, 1, 2)] == [459, 662, 838]


def test_exact_ties_of_the_rules() -> None:
    """A coin's median at confidence .5 is bounded by one iteration, exactly: .5 <= .5 counts."""
    assert iterations_for_bound(0.5, 0.5) == 1
    assert tail_bound_rank(1, 0.5, 0.5) == 1
    assert early_stopping_total(0, 0.5, 0.5) == 1


def test_refusals() -> None:
    """A quantile of 99 (percent) and a negative count are refused."""
    with pytest.raises(ValueError, match="quantile is 99"):
        iterations_for_bound(99)
    with pytest.raises(ValueError, match="-1 iterations over"):
        early_stopping_total(-1, 0.9)
