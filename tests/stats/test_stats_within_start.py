"""Flags inside one start: halves that differ, spikes of the system and of one rank."""

from __future__ import annotations

import numpy as np
import pytest

from ep_campaign.stats.within_start import within_start


def test_steady_start_has_no_flag() -> None:
    """Constant iterations: ratio 1, no spikes."""
    found = within_start(np.full((10, 4), 100.0))

    assert found == (100.0, 1.0, False, (), (), (0, 0, 0, 0))


@pytest.mark.parametrize(("second_half", "unsteady"), [(104.0, False), (106.0, True), (94.0, True)])
def test_unsteady(second_half: float, unsteady: bool) -> None:
    """Halves whose medians differ by more than 5 % are flagged, whichever is slower."""
    samples_IR = np.full((20, 2), 100.0)
    samples_IR[10:] = second_half

    found = within_start(samples_IR)

    assert found.unsteady is unsteady
    assert found.half_ratio == pytest.approx(second_half / 100)


def test_odd_count_leaves_the_middle_out() -> None:
    """Of five iterations the halves are the first two and the last two."""
    assert within_start([[1.0], [1.0], [9.0], [2.0], [4.0]]).half_ratio == 3.0


def test_halves_are_halves() -> None:
    """1, 2, 2 against 4, 4, 8: medians 2 and 4; two iterations are the fewest that have halves."""
    assert within_start([[1.0], [2.0], [2.0], [4.0], [4.0], [8.0]]).half_ratio == 2.0
    assert within_start([[2.0], [3.0]]).half_ratio == 1.5


def test_a_rank_at_its_limit_is_not_slow() -> None:
    """Rank 1 at exactly 1.5 x its own median does not make rank 0's spike the system's."""
    samples_IR = np.full((10, 2), 100.0)
    samples_IR[4] = [160.0, 150.0]

    found = within_start(samples_IR)

    assert (found.system_wide_spikes, found.single_rank_spikes, found.spikes_by_rank) == ((), (4,), (1, 0))


def test_spikes_are_split() -> None:
    """A spike of three of four ranks is the system's; of one or two of four it is theirs, and they are named."""
    samples_IR = np.full((40, 4), 100.0)
    samples_IR[3, :3] = 200.0
    samples_IR[7, 2] = 151.0
    samples_IR[9, [2, 3]] = 300.0
    samples_IR[12, 1] = 150.0  # exactly 1.5 x: no spike

    found = within_start(samples_IR)

    assert found.system_wide_spikes == (3,)
    assert found.single_rank_spikes == (7, 9)
    assert found.spikes_by_rank == (0, 0, 2, 1)


def test_start_value_is_the_median_of_the_slowest_rank() -> None:
    """Slowest ranks 3, 5, 4: median 4; a rank's own median (2 or 4) is not it."""
    assert within_start([[1.0, 3.0], [2.0, 5.0], [4.0, 4.0]]).median == 4.0


@pytest.mark.parametrize("samples", [[1.0, 2.0], [[1.0, 2.0]], [[1.0], [0.0]], [[1.0], [np.nan]], np.ones((3, 0))])
def test_refusals(samples: object) -> None:
    """One dimension, one iteration, no rank, and what is no duration are refused."""
    with pytest.raises(ValueError, match="samples h"):
        within_start(samples)  # type: ignore[arg-type]  # lists of floats are accepted at run time


def test_a_rank_that_is_always_slow_has_no_spikes() -> None:
    """Each rank is held against its own median: 400 is four times the other rank's, and 1.0 times its own."""
    found = within_start(np.tile([100.0, 400.0], (10, 1)))

    assert ((), ()) == found[3:5]
