"""Orders: balanced for position and carry-over, dealt by the seed alone."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from ep_campaign.order import deal, published, shuffled, spread, williams


@pytest.mark.parametrize(("arms", "size"), [(1, 1), (2, 2), (3, 6), (4, 4), (5, 10), (6, 6), (7, 14)])
def test_williams_sets_are_balanced(arms, size):
    """Every arm stands equally often in each position and follows every other equally often."""
    orders = williams(arms)
    positions = Counter((place, arm) for row in orders for place, arm in enumerate(row))
    follows = Counter(pair for row in orders for pair in itertools.pairwise(row))

    assert size == len(set(orders)) == len(orders)
    assert {size // arms} == set(positions.values())
    assert arms * (arms - 1) == len(follows)
    assert len(set(follows.values())) <= 1


@pytest.mark.parametrize("rounds", [6, 12, 18])
def test_whole_sets_are_dealt_equally_often(rounds):
    """Each of the six orders of three arms stands in rounds / 6 rounds, whatever the seed."""
    for seed in range(20):
        assert {rounds // 6} == set(Counter(deal(3, rounds, seed, purpose=1)).values())


def test_a_deal_follows_seed_and_purpose():
    """The same seed and purpose repeat; another seed or purpose gives another sequence."""
    assert deal(3, 12, 1, 1) == deal(3, 12, 1, 1)
    assert len({deal(3, 12, seed, purpose) for seed in range(5) for purpose in range(5)}) == 25


def test_shuffles_are_permutations_without_favourites():
    """Over 600 seeds each of 3 items comes first 200 +- 5 sd times (sd = sqrt(600 * 2/9) = 11.5)."""
    first = Counter(shuffled(3, seed, purpose=0)[0] for seed in range(600))

    assert sorted(shuffled(9, 4, 0)) == list(range(9))
    assert all(abs(count - 200) < 58 for count in first.values())


def test_published_rotation_needs_three_arms():
    """The published order is defined for three arms only."""
    assert ((0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 1, 2)) == published(3, 4)
    with pytest.raises(ValueError, match="rotates 3 arms, this campaign has 4"):
        published(4, 4)


def test_fewer_rounds_are_spread_over_the_campaign():
    """Two of twelve rounds fall on the first and the seventh."""
    assert [0, 6] == spread(2, 12)
    assert [0, 3, 6, 9] == spread(4, 12)
    assert list(range(12)) == spread(12, 12)
