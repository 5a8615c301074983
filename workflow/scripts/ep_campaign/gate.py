"""Whether a build may pass: regression, no regression, or neither shown, from the verdicts of a sealed campaign.

A contrast is *clean* where the whole exact interval of its ratio lies below 1 + threshold: that is a statement, not the absence
of one. All contrasts of a gate must be clean for it to open, so that each may be held at its own level: the chance of opening
while some arm is slower than the threshold is at most half of alpha.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ep_campaign.errors import refuse
from ep_campaign.numbers import listing, ratio_text
from ep_campaign.stats.verdict import Verdict
from ep_campaign.summary import Role, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ep_campaign.summary import Contrast, Summary

EXIT_REGRESSION = 10
EXIT_NOT_RESOLVED = 11
EXIT_INCOMPLETE = 12
GATE_SCHEMA = "ep-campaign/gate/1"


class Passing(StrEnum):
    """What a gate says of one contrast.

    REGRESSION: judged slower, by more than the threshold. CLEAN: shown not to be slower by as much. OPEN: neither.
    """

    REGRESSION = "regression"
    CLEAN = "clean"
    OPEN = "not resolved"


@dataclass(frozen=True)
class Row:
    """One contrast at the gate; `ratio` and its ends are arm over reference, None where no interval may be shown."""

    place: str
    arm: str
    passing: Passing
    ratio: float | None
    lo: float | None
    hi: float | None
    verdict: str


@dataclass(frozen=True)
class Gate:
    """A gate's answer.

    Attributes:
        campaign: Campaign.
        plan_digest: Digest of its plan.
        reference: The arm that stands for the old behaviour.
        threshold: Relative slowdown that is tolerated.
        state: How far the campaign got.
        rows: Contrasts of the family that were asked for.
    """

    campaign: str
    plan_digest: str
    reference: str
    threshold: float
    state: State
    rows: tuple[Row, ...]

    @property
    def exit_status(self) -> int:
        """0 where every row is clean; a regression goes before everything else, an unfinished campaign before an open row."""
        found = {row.passing for row in self.rows}
        if Passing.REGRESSION in found:
            return EXIT_REGRESSION
        if self.state is State.PARTIAL:
            return EXIT_INCOMPLETE
        return EXIT_NOT_RESOLVED if Passing.OPEN in found else 0

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return {**asdict(self), "schema": GATE_SCHEMA, "exit_status": self.exit_status}

    def text(self) -> str:
        """The answer in a terminal, the rows that decide it first."""
        words = {
            EXIT_REGRESSION: "REGRESSION",
            EXIT_INCOMPLETE: "INCOMPLETE: the campaign is PARTIAL, run it again",
            EXIT_NOT_RESOLVED: "NOT RESOLVED: neither a regression nor its absence is shown; more rounds would decide",
            0: "no regression",
        }
        order = [Passing.REGRESSION, Passing.OPEN, Passing.CLEAN]
        rows = sorted(self.rows, key=lambda row: order.index(row.passing))
        lines = [f"  {row.passing.value:<12}  {row.arm}  {row.place}  {_ratio(row)}  {row.verdict}" for row in rows]
        head = f"{self.campaign} ({self.plan_digest[:12]}) against {self.reference}, threshold {self.threshold:.1%}"
        return "\n".join([f"{head}: {words[self.exit_status]}", *lines])


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return "no interval"
    return f"{ratio_text(row.ratio)} [{ratio_text(row.lo)}, {ratio_text(row.hi)}]"


def open_gate(
    summary: Summary,
    *,
    threshold: float | None = None,
    arms: Sequence[str] = (),
    loops: Sequence[str] = (),
    profiles: Sequence[str] = (),
) -> Gate:
    """The gate of a campaign's declared family, or of a part of it.

    Args:
        summary: What `statistics.json` holds.
        threshold: Slowdown that is tolerated, as a share; None for the campaign's practical threshold.
        arms: Arms that must pass; none for all.
        loops: `roundtrip`, `dispatch`, `combine`; none for all that the family judges.
        profiles: Profiles; none for all.

    Raises:
        CampaignError: The threshold is no share (`bad_threshold`); a name is unknown (`unknown_name`); no contrast of the
            family is left (`nothing_to_gate`).
    """
    family = [item for item in summary.contrasts if item.role is Role.FAMILY]
    limit = summary.head.family.practical_threshold if threshold is None else threshold
    if not 0 <= limit < 1:
        raise refuse("bad_threshold", f"found {limit:g}, expected a share from 0 up to 1, such as 0.05", "--threshold")
    asked = (("--arm", arms, "arm"), ("--loop", loops, "loop"), ("--profile", profiles, "profile"))
    for option, names, field in asked:
        known = sorted({str(getattr(item, field)) for item in family})
        unknown = sorted(set(names) - set(known))
        if unknown:
            message = f"{listing(unknown)} stands in no contrast of the family; expected {listing(known, last='or')}"
            raise refuse("unknown_name", message, option)
        family = [item for item in family if not names or str(getattr(item, field)) in names]
    if not family:
        message = f"{summary.head.campaign} declares no family: nothing in it is judged, and nothing can be gated"
        raise refuse("nothing_to_gate", message)
    head = summary.head
    rows = tuple(_row(item, limit) for item in family)
    return Gate(head.campaign, head.plan_digest, head.reference, limit, head.state, rows)


def _row(item: Contrast, limit: float) -> Row:
    slower = item.ruling is not None and item.ruling.verdict is Verdict.SLOWER
    passing = Passing.OPEN
    if slower and item.ratio is not None and item.ratio > 1 + limit:
        passing = Passing.REGRESSION
    elif item.interval is not None and item.interval.hi < 1 + limit:
        passing = Passing.CLEAN
    lo, hi = (item.interval.lo, item.interval.hi) if item.interval is not None else (None, None)
    return Row(item.place, item.arm, passing, item.ratio, lo, hi, str(item.ruling) if item.ruling else "")
