"""Experts are shared evenly at every width, and as few as possible move."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ep_serve.placement import first_placement, moves, next_placement, shares

PATHS = st.integers(1, 40).flatmap(
    lambda experts: st.tuples(st.just(experts), st.lists(st.integers(1, experts), min_size=2, max_size=5))
)


@given(PATHS)
def test_every_width_is_balanced_and_moves_are_fewest(path: tuple[int, list[int]]) -> None:
    """Over any path of widths: shares differ by one at most, and only what a rank has too much, or loses, moves."""
    experts, widths = path
    owner = first_placement(experts, widths[0])
    for width in widths[1:]:
        new = next_placement(owner, width)
        low, high = shares(experts, width)
        loads = Counter(new)
        assert {loads[rank] for rank in range(width)} <= {low, high}
        held = sorted((Counter(owner)[rank] for rank in range(width)), reverse=True)
        quotas = [high] * (experts - low * width) + [low] * (width * (low + 1) - experts)
        stay = sum(min(have, quota) for have, quota in zip(held, quotas, strict=True))
        assert experts - stay == len(moves(owner, new))
        owner = new


@pytest.mark.parametrize(
    ("width", "expected", "num_moves"),
    [(2, (0, 0, 0, 0, 1, 1, 1, 1), 0), (4, (0, 0, 2, 3, 1, 1, 2, 3), 4), (1, (0,) * 8, 4)],
)
def test_from_two_ranks(width: int, expected: tuple[int, ...], num_moves: int) -> None:
    """Growing 2 to 4 moves half of each old rank's experts to the new ones, and none between the old."""
    old = first_placement(8, 2)
    new = next_placement(old, width)

    assert expected == new
    assert num_moves == len(moves(old, new))
    assert all(move.target >= 2 for move in moves(old, next_placement(old, 4)))


def test_there_and_back_is_as_before() -> None:
    """2 to 4 to 2 moves four experts out and four back."""
    wide = next_placement(first_placement(8, 2), 4)
    back = next_placement(wide, 2)
    assert 4 == len(moves(wide, back))
    assert {0: 4, 1: 4} == Counter(back)
