"""The ratio axis of the forest: logarithmic, symmetric about 1, wide enough for most and never so wide that 2 % vanishes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LEAST, _USUAL, _MOST = math.log(1.05), math.log(1.25), math.log(4.0)
_FAR = 4.0
"""Ratios farther from 1 than so many times the median distance (and than 25 %) are beyond the axis."""
_ROOM = 1.1
_TICKS = (
    (math.log(1.08), (0.94, 0.96, 0.98, 1.0, 1.02, 1.04, 1.06)),
    (math.log(1.2), (0.85, 0.9, 0.95, 1.0, 1.05, 1.1, 1.15)),
    (math.log(1.5), (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4)),
    (math.log(2.2), (0.5, 0.67, 0.8, 1.0, 1.25, 1.5, 2.0)),
    (math.inf, (0.25, 0.5, 1.0, 2.0, 4.0)),
)


@dataclass(frozen=True)
class RatioAxis:
    """The axis; positions on it are natural logarithms of ratios.

    Attributes:
        limit: Half its length.
    """

    limit: float

    def at(self, ratio: float) -> float:
        """Position of a ratio; one beyond an end lies on that end."""
        return max(-self.limit, min(self.limit, math.log(ratio)))

    def beyond(self, ratio: float) -> bool:
        """Whether a ratio lies beyond an end."""
        return abs(math.log(ratio)) > self.limit

    @property
    def ticks(self) -> list[float]:
        """Ratios to label."""
        candidates = next(ratios for reach, ratios in _TICKS if self.limit <= reach)
        return [ratio for ratio in candidates if not self.beyond(ratio)]


def ratio_axis(ratios: Iterable[float]) -> RatioAxis:
    """The axis of some ratios."""
    distances = [abs(math.log(ratio)) for ratio in ratios]
    if not distances:
        return RatioAxis(_LEAST)
    usual = max(_USUAL, _FAR * median(distances))
    return RatioAxis(max(_LEAST, min(_MOST, usual, _ROOM * max(distances))))
