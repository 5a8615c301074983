"""Requests are drawn whole: gaps of one request move together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_campaign.elastic.cluster_bootstrap import cluster_quantile_interval


def test_too_few_requests_have_no_interval() -> None:
    """Five requests with values, however many values, give none; empty ones do not count."""
    assert cluster_quantile_interval([[1.0] * 100] * 5 + [[]], 0.5, seed=1) is None
    found = cluster_quantile_interval([[1.0] * 100] * 6, 0.5, seed=1)
    assert found is not None
    assert (1.0, 1.0, 6, 600) == (found.lo, found.hi, found.num_requests, found.num_values)


def test_clusters_widen_the_interval() -> None:
    """Ten requests whose twenty gaps are equal within each know no more than ten values do."""
    values = [float(i) for i in range(10)]
    whole = cluster_quantile_interval([[value] * 20 for value in values], 0.5, seed=3)
    single = cluster_quantile_interval([[value] for value in values], 0.5, seed=3)
    apart = cluster_quantile_interval([[value] for value in values for _ in range(20)], 0.5, seed=3)
    assert whole is not None
    assert single is not None
    assert apart is not None
    assert (single.lo, single.hi) == (whole.lo, whole.hi)
    assert whole.hi - whole.lo > 2 * (apart.hi - apart.lo)


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.floats(0, 1e6), min_size=1, max_size=4), min_size=6, max_size=10), st.sampled_from([0.5, 0.99])
)
def test_ends_are_values_and_hold_for_any_order(values: list[list[float]], share: float) -> None:
    """Both ends are observed values, in order; the seed fixes them."""
    found = cluster_quantile_interval(values, share, seed=5, num_resamples=200)
    assert found is not None
    pooled = {value for own in values for value in own}
    assert {found.lo, found.hi} <= pooled
    assert found.lo <= found.hi
    assert found == cluster_quantile_interval(values, share, seed=5, num_resamples=200)


def test_the_level_is_near_its_name() -> None:
    """Of 120 samples of 40 requests, the 95 % interval of the median of pooled gaps holds the true one in 90 to 100 %."""
    generator = np.random.default_rng(11)
    held = 0
    for _ in range(120):
        levels = generator.normal(10.0, 2.0, size=40)
        values = [list(level + generator.normal(0.0, 0.5, size=5)) for level in levels]
        found = cluster_quantile_interval(values, 0.5, seed=1, num_resamples=200)
        assert found is not None
        held += found.lo <= 10.0 <= found.hi
    assert 0.90 <= held / 120 <= 1.0


@pytest.mark.parametrize("fields", [{"share": 0.0}, {"share": 1.5}])
def test_shares_that_are_none(fields: dict[str, float]) -> None:
    """A share lies between 0 and 1."""
    with pytest.raises(ValueError, match="share"):
        cluster_quantile_interval([[1.0]] * 6, seed=1, **fields)
