"""What two campaigns say of each other: agreement or change for each matched cell, and why where nothing may be said.

The starts of two campaigns share no round: the test is Mann and Whitney's, exact, with Holm's adjustment over what is judged.
A change is a fact of these two sittings; what caused it (build, machine, neighbours, heat) is not told apart by it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.errors import refuse
from ep_campaign.stats.family import ALPHA, holm
from ep_campaign.stats.mann_whitney import mann_whitney
from ep_campaign.stats.median import smallest_sample
from ep_campaign.stats.shift import shift

if TYPE_CHECKING:
    from ep_campaign.compare.side import Key, Level, Ranking, Side

MIN_STARTS = smallest_sample(1 - ALPHA)
"""As within a campaign: below, no interval and no verdict."""


class Change(StrEnum):
    """What is said of one matched place."""

    SLOWER = "slower"
    FASTER = "faster"
    AGREES = "agrees"
    NOT_RESOLVED = "not resolved"
    DESCRIBED = "described, not judged"


@dataclass(frozen=True)
class Pair:
    """One place that both campaigns measured; ratio is second over first.

    Attributes:
        key: What was measured.
        numbers: Starts of either.
        medians_us: Their medians [us].
        ratio: exp of the Hodges-Lehmann shift of logarithms.
        lo: Lower end of its exact interval; None where starts are too few for one.
        hi: Upper end.
        level: The interval's true level.
        p: Exact two-sided p; None where nothing is judged.
        adjusted_p: After Holm over everything judged.
        change: What is said.
        why_not: Why it is not judged; empty where it is.
    """

    key: Key
    numbers: tuple[int, int]
    medians_us: tuple[float, float]
    ratio: float
    lo: float | None
    hi: float | None
    level: float | None
    p: float | None
    adjusted_p: float | None
    change: Change
    why_not: str


@dataclass(frozen=True)
class RankPair:
    """One contrast that both campaigns made."""

    key: Key
    first: Ranking
    second: Ranking

    @property
    def agreement(self) -> str:
        """Whether both rank the arm alike: by the sides of 1 on which their whole intervals lie."""
        sides = [-1 if item.hi < 1 else 1 if item.lo > 1 else 0 for item in (self.first, self.second)]
        if 0 in sides:
            return "neither resolves it" if not any(sides) else "one resolves it"
        return "both rank it alike" if sides[0] == sides[1] else "they contradict each other"


@dataclass(frozen=True)
class Differences:
    """What differs between two campaigns, and what only one of them says."""

    rows: tuple[tuple[str, str, str], ...]
    num_equal: int


@dataclass(frozen=True)
class Comparison:
    """Two campaigns side by side.

    Attributes:
        first: One.
        second: The other; ratios are its times over the first's.
        differences: Of provenance.
        pairs: Places that both measured.
        rankings: Contrasts that both made.
        only: Number of places that only the first, and only the second, measured.
    """

    first: Side
    second: Side
    differences: Differences
    pairs: tuple[Pair, ...]
    rankings: tuple[RankPair, ...]
    only: tuple[int, int]


def compare_sides(first: Side, second: Side) -> Comparison:
    """Everything that may be said of two campaigns.

    Raises:
        CampaignError: Both are one (`same_campaign`): its starts would be compared with themselves.
    """
    if first.identity == second.identity:
        raise refuse("same_campaign", "is both sides: name another campaign", first.label)
    shared = [key for key in first.levels if key in second.levels]
    alpha, threshold = min(first.alpha, second.alpha), max(first.threshold, second.threshold)
    described = {key: _why_not(first, second, key) for key in shared}
    judged = [key for key in shared if not described[key]]
    raw = [mann_whitney(first.levels[key].values_us, second.levels[key].values_us).p for key in judged]
    adjusted = dict(zip(judged, holm(raw), strict=True)) if judged else {}
    p = dict(zip(judged, raw, strict=True))
    pairs = tuple(
        _pair(
            key, first.levels[key], second.levels[key], p.get(key), adjusted.get(key), described[key], alpha, threshold
        )
        for key in shared
    )
    rankings = tuple(
        RankPair(key, ranking, second.rankings[key])
        for key, ranking in first.rankings.items()
        if key in second.rankings and ranking.reference == second.rankings[key].reference
    )
    only = len(first.levels) - len(shared), len(second.levels) - len(shared)
    return Comparison(first, second, differences(first, second), pairs, rankings, only)


def differences(first: Side, second: Side) -> Differences:
    """Facts and machines that differ, in the first campaign's order; `-` where one does not say."""
    mine, theirs = {**first.machine, **first.facts}, {**second.machine, **second.facts}
    names = [*mine, *(name for name in theirs if name not in mine)]
    rows = tuple(
        (name, mine.get(name, "-"), theirs.get(name, "-")) for name in names if mine.get(name) != theirs.get(name)
    )
    return Differences(rows, len(names) - len(rows))


def _why_not(first: Side, second: Side, key: Key) -> str:
    """Why times of one place may not be judged against each other; empty where they may."""
    mine, theirs = first.levels[key], second.levels[key]
    if not first.machine or not second.machine:
        return "a published campaign does not say on which machine each start ran as ours do"
    concerned = [name for name in first.machine if not name.startswith("placement of EP")]
    concerned.append(f"placement of EP {key.ep_size}")
    for name in concerned:
        if first.machine.get(name) != second.machine.get(name):
            return f"{name} differs: {first.machine.get(name, '-')} and {second.machine.get(name, '-')}"
    if key.ep_size in first.shared_sizes | second.shared_sizes:
        return "ranks shared a GPU: their times say nothing"
    if (mine.backend, mine.api_mode) != (theirs.backend, theirs.api_mode):
        return (
            f"the arm is {mine.backend} ({mine.api_mode}) in one and {theirs.backend} ({theirs.api_mode}) in the other"
        )
    fewest = min(len(mine.values_us), len(theirs.values_us))
    return f"too few starts: {fewest}, and an interval needs {MIN_STARTS}" if fewest < MIN_STARTS else ""


def _pair(
    key: Key,
    mine: Level,
    theirs: Level,
    p: float | None,
    adjusted_p: float | None,
    why_not: str,
    alpha: float,
    threshold: float,
) -> Pair:
    found = shift(np.log(mine.values_us), np.log(theirs.values_us), 1 - alpha)
    ratio = math.exp(found.estimate)
    few = min(len(mine.values_us), len(theirs.values_us)) < MIN_STARTS
    lo = None if found.lo is None or few else math.exp(found.lo)
    hi = None if found.hi is None or few else math.exp(found.hi)
    change = Change.DESCRIBED
    if not why_not:
        change = Change.NOT_RESOLVED
        if adjusted_p is not None and adjusted_p <= alpha and abs(ratio - 1) > threshold:
            change = Change.SLOWER if ratio > 1 else Change.FASTER
        elif lo is not None and hi is not None and 1 - threshold < lo and hi < 1 + threshold:
            change = Change.AGREES
    return Pair(
        key=key,
        numbers=(len(mine.values_us), len(theirs.values_us)),
        medians_us=(float(np.median(mine.values_us)), float(np.median(theirs.values_us))),
        ratio=ratio,
        lo=lo,
        hi=hi,
        level=None if lo is None else found.level,
        p=p,
        adjusted_p=adjusted_p,
        change=change,
        why_not=why_not,
    )
