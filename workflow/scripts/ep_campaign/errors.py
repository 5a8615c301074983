"""Refusals: what a user did, or a file holds, that this system will not act on.

A refusal is a reason code (stable, for scripts and tests) and a message (found, expected, where, what to do).
Stages collect every refusal that they can see before they raise, so that a user mends a file once and not line by line.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_REFUSED = 2
"""Exit status of a command that refused its input; 1 stays what Python and Snakemake use for a fault of their own."""


@dataclass(frozen=True)
class Refusal:
    """One reason not to go on.

    Attributes:
        code: Stable reason code, lower_snake_case.
        message: What was found, what was expected, and what to do.
        where: File and field (or line) that it is about; empty where there is none.
    """

    code: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        """One line: `where: message [code]`."""
        prefix = f"{self.where}: " if self.where else ""
        return f"{prefix}{self.message} [{self.code}]"


class CampaignError(Exception):
    """Raised with every refusal that a stage found; prints one line each and never a traceback at the top level."""

    exit_status = EXIT_REFUSED

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        if not refusals:
            msg = "a CampaignError needs at least one refusal"
            raise ValueError(msg)
        self.refusals = tuple(refusals)
        super().__init__("\n".join(str(refusal) for refusal in self.refusals))

    @property
    def codes(self) -> tuple[str, ...]:
        """Reason codes, in the order found."""
        return tuple(refusal.code for refusal in self.refusals)


def refuse(code: str, message: str, where: str = "") -> CampaignError:
    """A `CampaignError` of a single refusal."""
    return CampaignError([Refusal(code, message, where)])
