"""What validation finds, as data: violations with stable reason codes, and the verdict that follows from the worst of them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.errors import CampaignError

VALIDATION_SCHEMA = "ep-campaign/validation/1"


class Severity(StrEnum):
    """What a violation means for the summary.

    NOTE: a reader should know. PARTIAL: something is missing; the rest is summarised, stamped PARTIAL. REFUSE: inputs
    contradict each other or themselves; nothing is summarised.
    """

    NOTE = "note"
    PARTIAL = "partial"
    REFUSE = "refuse"


class State(StrEnum):
    """What a results folder is."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    REFUSED = "refused"


_RESTORE = "restore the file from a copy; if it was meant to differ, start a new campaign folder"


@dataclass(frozen=True, order=True)
class Violation:
    """One thing that is not as it should be.

    Attributes:
        severity: What it means.
        code: Stable reason code.
        file: File, relative to the results folder.
        field: Field inside it; empty where it is about the whole file.
        found: What is there.
        expected: What should be.
        action: What to do.
    """

    severity: Severity
    code: str
    file: str
    field: str
    found: str
    expected: str
    action: str

    def __str__(self) -> str:
        """One line: `refuse file: field: found ..., expected ...; action [code]`."""
        place = f"{self.file}: {self.field}" if self.field else self.file
        return (
            f"{self.severity.value} {place}: found {self.found}, expected {self.expected}; {self.action} [{self.code}]"
        )


def refusal(code: str, file: str, field: str, found: str, expected: str, action: str = _RESTORE) -> Violation:
    """A violation that stops the summary."""
    return Violation(Severity.REFUSE, code, file, field, found, expected, action)


def missing(code: str, file: str, field: str, found: str, expected: str, action: str) -> Violation:
    """A violation that leaves the summary partial."""
    return Violation(Severity.PARTIAL, code, file, field, found, expected, action)


def note(code: str, file: str, field: str, found: str, expected: str, action: str) -> Violation:
    """A violation that a reader should know of."""
    return Violation(Severity.NOTE, code, file, field, found, expected, action)


def unreadable(error: CampaignError, file: str) -> Iterator[Violation]:
    """What a reader refused, as violations of one file."""
    for item in error.refusals:
        _, _, field = item.where.partition(f"{file}: ")
        yield refusal(item.code, file, field, item.message, "a whole file of this version")


@dataclass(frozen=True)
class Validation:
    """What validation says of a results folder.

    Attributes:
        campaign: Name of the campaign.
        plan_digest: Digest of its plan.
        violations: Everything found, worst first, then by code and file.
        census: Counts that every report prints: attempts, failures, excluded rounds, late starts, teardowns.
    """

    campaign: str
    plan_digest: str
    violations: tuple[Violation, ...]
    census: dict[str, Any]

    @property
    def state(self) -> State:
        """Refused where anything contradicts, else partial where anything is missing, else complete."""
        found = {violation.severity for violation in self.violations}
        if Severity.REFUSE in found:
            return State.REFUSED
        return State.PARTIAL if Severity.PARTIAL in found else State.COMPLETE

    @property
    def codes(self) -> list[str]:
        """Reason codes, each once, sorted."""
        return sorted({violation.code for violation in self.violations})

    def of(self, severity: Severity) -> list[Violation]:
        """The violations of one severity."""
        return [violation for violation in self.violations if violation.severity is severity]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value; equal folders give equal values."""
        return {
            "schema": VALIDATION_SCHEMA,
            "campaign": self.campaign,
            "plan_digest": self.plan_digest,
            "state": self.state.value,
            "violations": [asdict(violation) for violation in self.violations],
            "census": self.census,
        }

    def text(self) -> str:
        """A listing for people: the state, then one line for each kind of violation: the first, and how many there are."""
        counts = ", ".join(f"{len(self.of(severity))} {severity.value}" for severity in reversed(Severity))
        lines = [f"{self.campaign}: {self.state.value} ({counts})"]
        kinds: dict[tuple[Severity, str], list[Violation]] = {}
        for violation in self.violations:
            kinds.setdefault((violation.severity, violation.code), []).append(violation)
        lines += [
            f"{found[0]} (the first of {len(found):,})" if len(found) > 1 else str(found[0]) for found in kinds.values()
        ]
        return "".join(f"{line}\n" for line in lines)


def sort_violations(violations: list[Violation]) -> tuple[Violation, ...]:
    """Worst first, then by code, file and field; equal ones once."""
    worst_first = list(reversed(Severity))
    return tuple(
        sorted(set(violations), key=lambda v: (worst_first.index(v.severity), v.code, v.file, v.field, v.found))
    )
