"""The verdict on one contrast: what may be said of an arm against the reference, and with which reservation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from ep_campaign.stats.arrays import check_probability
from ep_campaign.stats.diagnostics import depends_on_test
from ep_campaign.stats.family import ALPHA, smallest_n

if TYPE_CHECKING:
    from collections.abc import Collection

    from ep_campaign.stats.contrast import PairedComparison

PRACTICAL_THRESHOLD = 0.02
"""A ratio nearer to 1 than this is real at best, and of no use."""


class Verdict(StrEnum):
    """What a contrast shows. The arm is `faster` where t_arm / t_reference is below 1."""

    FASTER = "faster"
    SLOWER = "slower"
    NOT_RESOLVED = "not resolved"
    TOO_FEW_STARTS = "too few starts"


class Qualifier(StrEnum):
    """A reservation printed with the verdict."""

    BELOW_THRESHOLD = "below threshold"
    EQUIVALENT = "equivalent"
    ORDER_EFFECT = "order effect"
    DRIFT = "drift"
    UNSTABLE_STARTS = "unstable starts"
    DEPENDS_ON_TEST = "depends on test"
    LATE_STARTS = "late starts"


MEASURED_VETOES = frozenset({Qualifier.ORDER_EFFECT, Qualifier.DRIFT, Qualifier.UNSTABLE_STARTS})
"""Vetoes that the caller finds in the starts; `depends on test` follows from the comparison itself."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a plan declares about its verdicts.

    Attributes:
        alpha: Family-wise error rate.
        practical_threshold: Smallest |ratio - 1| of practical use (.02 is 2 %).
    """

    alpha: float = ALPHA
    practical_threshold: float = PRACTICAL_THRESHOLD

    def __post_init__(self) -> None:
        check_probability(self.alpha, "alpha")
        if not 0 <= self.practical_threshold < 1:
            msg = f"practical_threshold is {self.practical_threshold}; expected 0 or more and below 1 (.02 is 2 %)"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its qualifiers, in the order of `Qualifier`."""

    verdict: Verdict
    qualifiers: tuple[Qualifier, ...] = ()

    def __str__(self) -> str:
        """As printed: `not resolved (drift, unstable starts)`."""
        return f"{self.verdict} ({', '.join(self.qualifiers)})" if self.qualifiers else str(self.verdict)


def decide(
    comparison: PairedComparison,
    adjusted_p: float,
    family_size: int,
    vetoes: Collection[Qualifier] = (),
    rules: Rules | None = None,
) -> Decision:
    """Decide one contrast of a family.

    In this order: too few rounds for the family; a veto; a direction by the adjusted p, useful or below the practical
    threshold; an interval wholly within the threshold of 1; none of these.

    Args:
        comparison: The paired comparison of the complete rounds.
        adjusted_p: Its Holm-adjusted p over the declared family.
        family_size: Declared contrasts.
        vetoes: Which of `MEASURED_VETOES` fired for the two arms in this cell.
        rules: The plan's; default alpha .05 and threshold 2 %.

    Raises:
        ValueError: A qualifier among `vetoes` that is not a veto found in the starts, or an adjusted p below the raw p.
    """
    rules = rules or Rules()
    _check_evidence(comparison, adjusted_p, vetoes)
    if comparison.n < smallest_n(family_size, rules.alpha):
        return Decision(Verdict.TOO_FEW_STARTS)
    fired = set(vetoes)
    if depends_on_test(comparison, adjusted_p, rules.alpha):
        fired.add(Qualifier.DEPENDS_ON_TEST)
    if fired:
        return Decision(Verdict.NOT_RESOLVED, tuple(q for q in Qualifier if q in fired))
    distance = abs(comparison.ratio - 1)
    if adjusted_p <= rules.alpha and distance > 0:
        verdict = Verdict.FASTER if comparison.ratio < 1 else Verdict.SLOWER
        useful = distance >= rules.practical_threshold
        return Decision(verdict, () if useful else (Qualifier.BELOW_THRESHOLD,))
    return Decision(Verdict.NOT_RESOLVED, (Qualifier.EQUIVALENT,) if _equivalent(comparison, rules) else ())


def mark_late(with_late: Decision, without_late: Decision) -> Decision:
    """`with_late`, qualified by `late starts` where leaving them out changes the verdict."""
    if with_late.verdict is without_late.verdict:
        return with_late
    return replace(with_late, qualifiers=(*with_late.qualifiers, Qualifier.LATE_STARTS))


def _check_evidence(comparison: PairedComparison, adjusted_p: float, vetoes: Collection[Qualifier]) -> None:
    if not MEASURED_VETOES.issuperset(vetoes):
        wrong = ", ".join(sorted(set(vetoes) - MEASURED_VETOES))
        msg = f"vetoes hold {wrong}; expected only {', '.join(sorted(MEASURED_VETOES))}"
        raise ValueError(msg)
    if not comparison.p <= adjusted_p <= 1:
        msg = f"adjusted p is {adjusted_p}; expected between the raw p {comparison.p} and 1"
        raise ValueError(msg)


def _equivalent(comparison: PairedComparison, rules: Rules) -> bool:
    if comparison.lo is None or comparison.hi is None:
        return False
    return 1 - rules.practical_threshold < comparison.lo and comparison.hi < 1 + rules.practical_threshold
