"""What vetoes a verdict: order effect, drift, unstable starts, and two tests that disagree.

No start is dropped for its timing. A diagnostic that fires turns a direction into `not resolved` with the reason.
Shapes: N complete rounds, A arms = order positions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ep_campaign.stats.arrays import as_positive_sample
from ep_campaign.stats.family import ALPHA
from ep_campaign.stats.friedman import friedman
from ep_campaign.stats.ranks import doubled_midranks_by_row
from ep_campaign.stats.spearman import spearman

if TYPE_CHECKING:
    import numpy.typing as npt

    from ep_campaign.stats.contrast import PairedComparison
    from ep_campaign.stats.ranks import PMethod

VETO_P = 0.01
"""A diagnostic must be surer than a verdict: several run per contrast."""

DRIFT_RHO = 0.7
UNSTABLE_RATIO = 1.25
UNSTABLE_SHARE = 0.10
UNSTABLE_MIN_STARTS = 2


class OrderEffect(NamedTuple):
    """Whether the position in a round changes a start's value.

    Attributes:
        p: Friedman p over rounds x positions, on log values less their arm's median.
        method: How p was computed.
        mean_rank_by_position: Position 0 is the first arm of a round; ranks run from 1 (fastest) to A.
        veto: p < .01.
    """

    p: float
    method: PMethod
    mean_rank_by_position: tuple[float, ...]
    veto: bool


class Drift(NamedTuple):
    """Whether an arm's values rise or fall over rounds: exact Spearman; `veto` needs p < .01 and |rho| > .7."""

    rho: float
    p: float
    method: PMethod
    veto: bool


class UnstableStarts(NamedTuple):
    """Starts slower than 1.25 x the median of their arm.

    Attributes:
        starts: Their indices in the values given, to list them.
        n: All starts of the arm.
        veto: At least two of them and more than 10 % of the arm's starts.
    """

    starts: tuple[int, ...]
    n: int
    veto: bool


def order_effect(values_NA: npt.ArrayLike, positions_NA: npt.ArrayLike, *, seed: int = 0) -> OrderEffect:
    """Test for a position effect in the rounds that all arms completed.

    Centring each arm removes the difference between arms, which would otherwise fill every rank, and leaves the
    position: in a Williams design each arm meets each position equally often. It also takes one degree of freedom per
    arm, so that under the null the veto fires in 1-2 % of cells instead of at most 1 %.

    Args:
        values_NA: Start values (durations above zero).
        positions_NA: The position (0..A-1) that each arm really had in each round; every row is a permutation.
        seed: Used only where the exact law is too large.

    Raises:
        ValueError: Different shapes, a duration that is not positive, or a row that is not a permutation.
    """
    durations_NA = np.asarray(values_NA, dtype=np.float64)
    slots_NA = np.asarray(positions_NA)
    if durations_NA.ndim != 2 or durations_NA.shape != slots_NA.shape:
        msg = (
            f"values have shape {durations_NA.shape} and positions {slots_NA.shape}; expected two equal [rounds, arms]"
        )
        raise ValueError(msg)
    if not (np.sort(slots_NA, axis=1) == np.arange(slots_NA.shape[1])).all():
        msg = (
            f"positions of some round are not 0..{slots_NA.shape[1] - 1} once each; pass rounds complete over all arms"
        )
        raise ValueError(msg)
    as_positive_sample(durations_NA.ravel())
    logs_NA = np.log(durations_NA)
    centred_NA = logs_NA - np.median(logs_NA, axis=0)
    by_position_NP = np.take_along_axis(centred_NA, np.argsort(slots_NA, axis=1), axis=1)
    test = friedman(by_position_NP, seed=seed)
    mean_ranks = doubled_midranks_by_row(by_position_NP).mean(axis=0) / 2
    return OrderEffect(test.p, test.method, tuple(mean_ranks.tolist()), test.p < VETO_P)


def drift(values: npt.ArrayLike, rounds: npt.ArrayLike) -> Drift:
    """Test one arm for drift of its start values over the rounds it ran in.

    Both conditions matter only below 13 rounds. The exact probability of |rho| > .7 is .0576, .0268, .0129, .0093,
    .0067 and .0032 at n = 8, 10, 12, 13, 14 and 16, and falls from there: from 13 on |rho| > .7 alone implies p < .01,
    so that the approximate p used beyond 13 never decides.
    """
    test = spearman(rounds, as_positive_sample(values))
    return Drift(test.rho, test.p, test.method, test.p < VETO_P and abs(test.rho) > DRIFT_RHO)


def unstable_starts(values: npt.ArrayLike) -> UnstableStarts:
    """List the starts of one arm that lie above 1.25 x its median."""
    durations = as_positive_sample(values)
    starts = np.flatnonzero(durations > UNSTABLE_RATIO * np.median(durations))
    veto = starts.size >= UNSTABLE_MIN_STARTS and starts.size > UNSTABLE_SHARE * durations.size
    return UnstableStarts(tuple(starts.tolist()), durations.size, bool(veto))


def depends_on_test(comparison: PairedComparison, adjusted_p: float, alpha: float = ALPHA) -> bool:
    """Whether the declared test claims a direction that the other paired test does not bear out.

    It does not where the other test's p, not adjusted, exceeds alpha, or where most rounds point the other way. Where
    the declared test claims nothing there is nothing to contradict.
    """
    if adjusted_p > alpha:
        return False
    majority = comparison.num_slower - comparison.num_faster
    opposite = majority * (comparison.ratio - 1) < 0
    return opposite or comparison.other_p > alpha
