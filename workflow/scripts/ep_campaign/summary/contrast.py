"""One arm against the reference in one cell: what was found, what may be said of it, and what speaks against it.

Ratio = t_arm / t_reference; below 1 the arm is faster.
"""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel

from ep_campaign.stats.printable import Printable
from ep_campaign.stats.ranks import PMethod
from ep_campaign.stats.verdict import Qualifier, Verdict
from ep_campaign.summary.base import CLOSED, Interval
from ep_worker.contract.terms import Boundary, Dtype, Loop, Mode, Status


class Role(StrEnum):
    """What a contrast is for.

    FAMILY: declared, at the primary boundary and mode; it carries a verdict. DESCRIPTIVE: at the primary boundary and mode,
    outside the family. SECONDARY: another boundary, mode or loop. The last two are described, never judged.
    """

    FAMILY = "family"
    DESCRIPTIVE = "descriptive"
    SECONDARY = "secondary"


def place_text(cell: str, loop: Loop) -> str:
    """A cell, and the phase where one phase alone was timed: `ep2/t1024/uniform/bf16, dispatch alone`."""
    return cell if loop is Loop.ROUNDTRIP else f"{cell}, {loop.value} alone"


class ExcludedRound(BaseModel):
    """An arm without an `ok` record in a round, which therefore does not count for a contrast.

    A round that lacks both arms stands twice, once for each.

    Attributes:
        round: Round.
        arm: The arm without a record.
        status: What became of its start; None where no job of the start has ended.
        reason_code: Stable code.
        reason: One sentence.
    """

    model_config = CLOSED

    round: int
    arm: str
    status: Status | None
    reason_code: str
    reason: str


class Ruling(BaseModel):
    """A verdict with its qualifiers."""

    model_config = CLOSED

    verdict: Verdict
    qualifiers: tuple[Qualifier, ...]

    def __str__(self) -> str:
        """As printed: `not resolved (drift, unstable starts)`."""
        return f"{self.verdict} ({', '.join(self.qualifiers)})" if self.qualifiers else str(self.verdict)


class Contrast(BaseModel):
    """One arm against the reference.

    Attributes:
        cell: Cell id.
        ep_size: Ranks.
        profile: Profile.
        route: Route.
        dtype: Dispatch dtype.
        boundary: Boundary.
        mode: Mode.
        loop: Whole round-trips, or one phase alone.
        arm: Compared with the reference.
        reference: The reference arm.
        role: Whether it is judged.
        num_rounds: Planned rounds.
        rounds: Complete rounds, rising; n is their number.
        excluded: Why each other planned round does not count.
        ratios: One for each of `rounds`.
        arm_median_us: Median of the arm's start values over the complete rounds; None without one.
        reference_median_us: Likewise.
        ratio_of_medians: The first over the second; None below three rounds.
        ratio: Hodges-Lehmann (or, for the sign test, median) ratio; None where no interval may be shown.
        interval: Its exact interval.
        ratio_sd_log: Standard deviation of the log ratios; None where no interval may be shown.
        resolvable_percent: Smallest effect [%: how much slower the slower arm is] that as many rounds show with a power
            of .8 at this spread; family only, and None where as many can decide nothing or all ratios are equal.
        p: Exact two-sided p of the declared test, not adjusted; family only, and None where no interval may be shown.
        adjusted_p: Holm-adjusted over the family; family only, and None below the rounds that the family needs.
        sign_p: Exact two-sided p of the sign test; as `p`.
        best_p: Smallest p that as many rounds can give.
        num_faster: Complete rounds in which the arm was faster.
        num_slower: In which it was slower.
        num_equal: In which both took the same time.
        ruling: Verdict; where nothing is judged, `too few starts` below the rounds that an interval needs, else None.
        ruling_without_late: The same without late starts; None where the family has none.
        printable: What may be shown at this number of rounds, with the sentence that replaces what may not.
        warnings: What is missing and what would mend it.
    """

    model_config = CLOSED

    cell: str
    ep_size: int
    profile: str
    route: str
    dtype: Dtype
    boundary: Boundary
    mode: Mode
    loop: Loop
    arm: str
    reference: str
    role: Role
    num_rounds: int
    rounds: tuple[int, ...]
    excluded: tuple[ExcludedRound, ...]
    ratios: tuple[float, ...]
    arm_median_us: float | None
    reference_median_us: float | None
    ratio_of_medians: float | None
    ratio: float | None
    interval: Interval | None
    ratio_sd_log: float | None
    resolvable_percent: float | None
    p: float | None
    adjusted_p: float | None
    sign_p: float | None
    best_p: float | None
    num_faster: int
    num_slower: int
    num_equal: int
    ruling: Ruling | None
    ruling_without_late: Ruling | None
    printable: Printable
    warnings: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where it was made, as shown: the cell, and the phase where one phase alone is compared."""
        return place_text(self.cell, self.loop)


class Order(BaseModel):
    """Whether the place in a round changes a start's value.

    Attributes:
        num_rounds: Rounds that every arm completed in time.
        p: Friedman p on log values less their arm's median.
        method: How p was computed.
        mean_ranks: By place, the first arm of a round first; rank 1 is fastest.
        veto: Whether it takes the verdicts of the cell away (p < .01).
    """

    model_config = CLOSED

    num_rounds: int
    p: float
    method: PMethod
    mean_ranks: tuple[float, ...]
    veto: bool


class ArmDiagnostics(BaseModel):
    """Drift and unstable starts of one arm in one cell.

    Attributes:
        arm: Arm.
        num_starts: Starts with a value.
        start_sd_log: Standard deviation of log start values (about their CV); None below the starts an interval needs.
        rho: Spearman correlation of value and round, late starts left out; None with fewer than two starts.
        drift_p: Its p.
        drift_method: How that p was computed.
        drift_veto: p < .01 and |rho| > .7.
        unstable_rounds: Rounds whose start is above 1.25 x the arm's median.
        unstable_veto: At least two of them, and more than 10 %.
    """

    model_config = CLOSED

    arm: str
    num_starts: int
    start_sd_log: float | None
    rho: float | None
    drift_p: float | None
    drift_method: PMethod | None
    drift_veto: bool
    unstable_rounds: tuple[int, ...]
    unstable_veto: bool


class Diagnostics(BaseModel):
    """What speaks against the starts of one cell, in one loop that the family judges, at the primary boundary and mode.

    Attributes:
        cell: Cell id.
        loop: Whole round-trips, or one phase alone.
        order: None where fewer than two rounds are complete over all arms that have a start.
        arms: Arms with at least one start, in the plan's order.
    """

    model_config = CLOSED

    cell: str
    loop: Loop
    order: Order | None
    arms: tuple[ArmDiagnostics, ...]

    @property
    def place(self) -> str:
        """As `Contrast.place`."""
        return place_text(self.cell, self.loop)
