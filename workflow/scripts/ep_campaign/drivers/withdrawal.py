"""How long something was not there, from polls: an interval between what is certain and what is possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Withdrawal:
    """One absence.

    Attributes:
        after_ns: Last poll that found it there; None where the first poll found it gone.
        first_ns: First poll that found it gone.
        last_ns: Last poll in a row that found it gone.
        before_ns: First poll that found it there again; None where none did.
    """

    after_ns: int | None
    first_ns: int
    last_ns: int
    before_ns: int | None

    @property
    def at_least_ns(self) -> int:
        """It was gone for this long, at least."""
        return self.last_ns - self.first_ns

    @property
    def at_most_ns(self) -> int | None:
        """It was gone for less than this; None where nothing bounds it."""
        return None if self.after_ns is None or self.before_ns is None else self.before_ns - self.after_ns


def withdrawals(polls: Sequence[tuple[int, bool]]) -> tuple[Withdrawal, ...]:
    """Every absence in a series of polls (time, whether it was there), in their order."""
    found: list[Withdrawal] = []
    there_ns: int | None = None
    first_ns: int | None = None
    last_ns = 0
    for at_ns, there in polls:
        if there:
            if first_ns is not None:
                found.append(Withdrawal(there_ns, first_ns, last_ns, at_ns))
            there_ns, first_ns = at_ns, None
        else:
            first_ns = at_ns if first_ns is None else first_ns
            last_ns = at_ns
    if first_ns is not None:
        found.append(Withdrawal(there_ns, first_ns, last_ns, None))
    return tuple(found)
