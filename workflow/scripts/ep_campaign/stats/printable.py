"""What a report may print at n complete rounds, and the sentence that takes the place of what it may not."""

from __future__ import annotations

from dataclasses import dataclass

from ep_campaign.stats.family import ALPHA, largest_family, smallest_n
from ep_campaign.stats.median import smallest_sample
from ep_campaign.stats.sign import best_paired_p

SUMMARY_MIN_N = 3
BOOTSTRAP_MIN_N = 10


@dataclass(frozen=True, slots=True)
class Printable:
    """What n complete rounds of a family may show.

    Attributes:
        n: Complete rounds.
        family_size: Declared contrasts.
        values: Every start's value.
        summary: Minimum, median, maximum; ratio of medians; ratios per round; "faster in k of n rounds" with the best
            possible p.
        intervals: Exact intervals, the coefficient of variation, and the p, not adjusted, of the one primary contrast.
        verdicts: Holm-adjusted p and verdicts over the family.
        bootstrap: Percentile-bootstrap intervals, labelled, of what has no exact method.
        sentence: To print where something is withheld: why, and how many starts it needs. Empty where nothing is.
    """

    n: int
    family_size: int
    values: bool
    summary: bool
    intervals: bool
    verdicts: bool
    bootstrap: bool
    sentence: str


def printable(n: int, family_size: int, alpha: float = ALPHA) -> Printable:
    """What may be printed for `n` complete rounds and a family of `family_size` contrasts."""
    if n < 0:
        msg = f"{n} complete rounds; expected 0 or more"
        raise ValueError(msg)
    return Printable(
        n=n,
        family_size=family_size,
        values=n >= 1,
        summary=n >= SUMMARY_MIN_N,
        intervals=n >= smallest_sample(1 - alpha),
        verdicts=n >= smallest_n(family_size, alpha),
        bootstrap=n >= BOOTSTRAP_MIN_N,
        sentence=_sentence(n, family_size, alpha),
    )


def _sentence(n: int, family_size: int, alpha: float) -> str:
    for_interval, for_family = smallest_sample(1 - alpha), smallest_n(family_size, alpha)
    if n == 0:
        return "no complete round"
    if n < SUMMARY_MIN_N:
        return f"too few starts (n = {n}: values only; a median and a range need {SUMMARY_MIN_N})"
    if n < for_interval:
        return (
            f"too few starts (n = {n}; an exact {1 - alpha:.0%} interval needs {for_interval}; "
            f"best possible p = {best_paired_p(n):g})"
        )
    if n < for_family:
        decidable = largest_family(n, alpha)
        return (
            f"too few starts for the family (n = {n} can decide {decidable} contrast{'s' * (decidable != 1)}; "
            f"a family of {family_size} needs {for_family} starts)"
        )
    return ""
