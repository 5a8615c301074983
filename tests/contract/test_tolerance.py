"""The tolerance of the oracle: counted roundings, each of half a BF16 unit."""

from __future__ import annotations

import pytest

from ep_worker.contract.tolerance import most_roundings, tolerance


@pytest.mark.parametrize(
    ("hits", "accumulations", "alone", "expected"),
    [
        (1, 0, False, 1),  # one rank: its partial sum, nothing to add
        (2, 0, False, 2),  # two partial sums, one rounded float32 sum
        (8, 0, False, 2),  # a float32 sum rounds once, over however many ranks
        (4, 1, False, 4),  # a BF16 sum rounds at each of three additions
        (1, 1, False, 1),
        (2, 0, True, 3),  # a grouped FP8 row: the expert's output is rounded by itself
    ],
)
def test_roundings_on_the_longest_path(hits, accumulations, alone, expected):
    """Partial sums, the sum over ranks, and an expert's own output."""
    assert expected == most_roundings(hits, accumulations, expert_outputs_round=alone)


def test_tolerance_of_two_roundings():
    """(1 + 2^-8)^2 - 1 = 0.00782776, and 2^-16 = 0.00001526 for float32 arithmetic."""
    assert tolerance(2) == pytest.approx(0.00782776 + 0.00001526, abs=1e-8)
