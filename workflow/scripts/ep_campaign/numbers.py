"""How numbers are printed, in figures and reports alike: fixed formats, so that equal inputs give equal bytes."""

from __future__ import annotations

import math
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MISSING = "-"
"""Stands in a table where there is no number; the sentence that says why stands beside it."""

_MILLISECONDS_FROM_US = 10_000.0
_SMALLEST_P = 1e-4


class TimeUnit(Enum):
    """A unit of latency: its symbol, and its length [us]."""

    MICROSECONDS = ("µs", 1.0)
    MILLISECONDS = ("ms", 1000.0)

    @property
    def symbol(self) -> str:
        """As printed."""
        return self.value[0]

    def of(self, time_us: float) -> float:
        """A time [us] in this unit."""
        return time_us / self.value[1]

    def text(self, time_us: float | None) -> str:
        """A time [us] in this unit, without the symbol: four significant digits."""
        return MISSING if time_us is None else significant(self.of(time_us))


def time_unit(times_us: Iterable[float | None]) -> TimeUnit:
    """One unit for all numbers of a column or an axis: ms where any of them is 10 ms or more, else us."""
    longest = max((time for time in times_us if time is not None), default=0.0)
    return TimeUnit.MILLISECONDS if longest >= _MILLISECONDS_FROM_US else TimeUnit.MICROSECONDS


def significant(value: float | None, digits: int = 4) -> str:
    """A number in fixed notation with so many significant digits, thousands separated: 52.58, 1,026, 1,235,000."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


def ratio_text(ratio: float | None) -> str:
    """A ratio with three decimals: 1.123."""
    return MISSING if ratio is None else f"{ratio:.3f}"


def percent(share: float | None, *, decimals: int = 1) -> str:
    """A share in per cent, without sign or symbol: .1234 is 12.3."""
    return MISSING if share is None else f"{100 * share:.{decimals}f}"


def change_text(ratio: float) -> str:
    """A ratio as a signed change in per cent: 1.123 is +12.3, .98 is -2.0, and nothing is -0.0."""
    text = f"{100 * (ratio - 1):+.1f}"
    return "0.0" if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def p_text(p: float | None) -> str:
    """A p-value with two significant digits and no leading zero: .43, .0039; below .0001 only that it is."""
    if p is None:
        return MISSING
    if p < _SMALLEST_P:
        return "< .0001"
    text = significant(p, 2)
    return "1" if float(text) >= 1 else text.lstrip("0")


def level_text(level: float) -> str:
    """The true level of an interval in per cent: .9785 is 97.9 %."""
    return f"{100 * level:.1f} %"


def count(number: int | None) -> str:
    """A whole number, thousands separated."""
    return MISSING if number is None else f"{number:,}"


def plural(number: int, noun: str, many: str | None = None) -> str:
    """A number and its noun: 1 start, 12 starts."""
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def listing(names: Iterable[str], *, last: str = "and") -> str:
    """Names in a sentence: a, b and c."""
    items = list(names)
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def span(numbers: Iterable[int]) -> str:
    """Whole numbers with runs drawn together: 1-3, 5."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"
