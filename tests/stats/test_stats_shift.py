"""The shift of two unpaired samples: exact numbers, each with its arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from ep_campaign.stats.shift import shift, shift_ranks


def test_the_estimate_is_the_median_of_all_differences() -> None:
    """Of 1, 2 and 11, 13: differences 9, 10, 11, 12, median 10.5."""
    assert 10.5 == shift([1, 2], [11, 13]).estimate


@pytest.mark.parametrize(
    ("n", "m", "left_out", "level"),
    [
        # U <= 5 in 19 of C(12, 6) = 924 ways (1 + 1 + 2 + 3 + 5 + 7), 2.06 %: five differences are left out at either end.
        (6, 6, 5, 1 - 2 * 19 / 924),
        # U = 0 in 1 of C(8, 4) = 70 ways, 1.4 %: none is; U <= 1 would already be 2.9 %.
        (4, 4, 0, 1 - 2 / 70),
    ],
)
def test_ranks_and_level_follow_from_u(n: int, m: int, left_out: int, level: float) -> None:
    """The tail of U counts how many differences lie outside."""
    found = shift_ranks(n, m, 0.95)

    assert found is not None
    assert (left_out, pytest.approx(level)) == found


def test_too_few_values_have_no_interval() -> None:
    """Three against three: U = 0 in 1 of 20 ways, and 1 - 2 / 20 is 90 %."""
    assert shift_ranks(3, 3, 0.95) is None
    assert (None, None, None) == shift([1, 2, 3], [4, 5, 6])[1:]


def test_the_interval_covers_as_often_as_it_says() -> None:
    """Over 2,000 pairs of samples shifted by 1, 6 against 8: within three standard errors of its level."""
    draw = np.random.default_rng(5)
    held = 0
    for _ in range(2000):
        found = shift(draw.standard_normal(6), 1 + draw.standard_normal(8))
        assert found.lo is not None
        assert found.hi is not None
        held += found.lo <= 1 <= found.hi
    assert found.level is not None
    assert abs(held / 2000 - found.level) < 3 * np.sqrt(found.level * (1 - found.level) / 2000)
