"""Axes that stay honest and readable: from zero, and cut with a note where a few starts would squash all others."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from ep_campaign.numbers import TimeUnit, time_unit

if TYPE_CHECKING:
    from collections.abc import Sequence

_FAR = 2.5
"""A start above so many times the largest median of its row of panels is cut off, and named."""
_ROOM, _ROOM_FOR_ARROWS = 1.2, 1.6


@dataclass(frozen=True)
class Axis:
    """The value axis that the panels of one row share.

    Attributes:
        unit: Its unit.
        lowest_us: Smallest value on it.
        highest_us: Largest value on it.
        cut_us: Values above it are drawn as arrows at the top, with their value; None where none is.
        top_us: Its upper end.
    """

    unit: TimeUnit
    lowest_us: float
    highest_us: float
    cut_us: float | None
    top_us: float

    def cuts(self, value_us: float) -> bool:
        """Whether a value lies above the axis."""
        return self.cut_us is not None and value_us > self.cut_us


def value_axis(groups_us: Sequence[Sequence[float]]) -> Axis:
    """The axis of some groups of values [us], none of them empty; without any group, an axis from 0 to 1."""
    if not groups_us:
        return Axis(TimeUnit.MICROSECONDS, 0.0, 1.0, None, 1.0)
    values = [value for group in groups_us for value in group]
    far = _FAR * max(median(group) for group in groups_us)
    within = [value for value in values if value <= far]
    if len(within) == len(values):
        return Axis(time_unit(values), min(values), max(values), None, _ROOM * max(values))
    return Axis(time_unit(within), min(within), max(within), max(within), _ROOM_FOR_ARROWS * max(within))
