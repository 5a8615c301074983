"""Results in plain words: what a contrast shows, how a verdict reads, what a level may show."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ep_campaign.numbers import TimeUnit, change_text, level_text, listing, percent, plural, ratio_text, span
from ep_campaign.stats.verdict import Qualifier, Verdict
from ep_worker.contract.terms import Placement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ep_campaign.summary import Contrast, Family, Level

RESOLVED = (Verdict.FASTER, Verdict.SLOWER)

VETOES = (Qualifier.ORDER_EFFECT, Qualifier.DRIFT, Qualifier.UNSTABLE_STARTS, Qualifier.DEPENDS_ON_TEST)
"""Qualifiers that turn a direction into `not resolved`."""

PLACEMENT_WORDS = {
    Placement.NONE: "not needed",
    Placement.CALLER_OUTSIDE: "caller, outside the timer",
    Placement.CALLER_INSIDE: "caller, inside the timer",
    Placement.IN_KERNEL: "backend, inside its kernels",
}


def outcome(contrast: Contrast) -> str:
    """What a contrast shows, as one clause: `b is 12.3 % slower than a [10.1, 14.9]`."""
    if not contrast.rounds:
        return f"{contrast.arm}: {lost_rounds(contrast) or 'no complete round'}"
    if contrast.ratio is None or contrast.interval is None:
        return f"{contrast.arm}: {few_rounds(contrast)}"
    lo, hi = contrast.interval.lo, contrast.interval.hi
    if contrast.ruling is not None and contrast.ruling.verdict in RESOLVED:
        share, low, high = contrast.ratio - 1, lo - 1, hi - 1
        if contrast.ruling.verdict is Verdict.FASTER:
            share, low, high = -share, -high, -low
        size = (
            f"{percent(share)} % {contrast.ruling.verdict} than {contrast.reference} [{percent(low)}, {percent(high)}]"
        )
        return f"{contrast.arm} is {size}"
    return f"{contrast.arm} against {contrast.reference}: {change_text(contrast.ratio)} % [{change_text(lo)}, {change_text(hi)}]"


def few_rounds(contrast: Contrast) -> str:
    """What may be said below the rounds that an interval needs: each round's ratio, or their median and direction."""
    n = len(contrast.rounds)
    if contrast.ratio_of_medians is None:
        return f"ratio by round {', '.join(map(ratio_text, contrast.ratios))}"
    return f"ratio of medians {ratio_text(contrast.ratio_of_medians)}; faster in {contrast.num_faster} of {n} rounds"


def lost_rounds(contrast: Contrast) -> str:
    """What became of the rounds that do not count, status first: `INCORRECT in 6 of 6 rounds (wrong_output)`."""
    lost = Counter(
        (
            item.arm,
            "not measured" if item.status is None else item.status.value.upper().replace("_", " "),
            item.reason_code,
        )
        for item in contrast.excluded
    )
    told = []
    for (arm, status, code), number in sorted(
        lost.items(), key=lambda item: (-item[1], item[0][0] != contrast.arm, item[0])
    ):
        whose = f"{arm} " if arm != contrast.arm else ""
        told.append(f"{whose}{status} in {number} of {plural(contrast.num_rounds, 'round')}{code_text(code)}")
    return ", ".join(told)


def code_text(code: str) -> str:
    """A reason code in brackets; nothing where it is none of ours, for a broken rank may say anything."""
    return f" ({code})" if code.isascii() and code.isidentifier() else ""


def reservations(contrast: Contrast, family: Family) -> str:
    """Why a verdict is not more than it is: its qualifiers, or what is withheld at this number of rounds, in words."""
    qualifiers = contrast.ruling.qualifiers if contrast.ruling else ()
    clauses = [words for item in qualifiers if (words := _qualifier_words(item, family.practical_threshold))]
    if vetoes := [str(item) for item in qualifiers if item in VETOES]:
        clauses.append(_vetoed(contrast, ", ".join(vetoes), family.alpha))
    if contrast.ruling_without_late is not None:
        clauses.append(f"without late starts: {contrast.ruling_without_late}")
    if not contrast.rounds and contrast.excluded:
        clauses.append("nothing to compare: mend what failed, then run the same command")
    elif contrast.printable.sentence:
        clauses.append(contrast.printable.sentence)
    return "; ".join(clauses)


def _vetoed(contrast: Contrast, vetoes: str, alpha: float) -> str:
    """A veto took a direction only where there was one; then how one-sided the rounds were stands beside it."""
    if contrast.adjusted_p is None or contrast.adjusted_p > alpha:
        return f"no direction, and {vetoes}"
    faster = contrast.num_faster >= contrast.num_slower
    number, way = (contrast.num_faster, "faster") if faster else (contrast.num_slower, "slower")
    return f"{way} in {number} of {plural(len(contrast.rounds), 'round')}, vetoed: {vetoes}"


def _qualifier_words(qualifier: Qualifier, threshold: float) -> str:
    within = f"{percent(threshold, decimals=0)} %"
    words = {
        Qualifier.BELOW_THRESHOLD: f"real, but below the practical threshold of {within}",
        Qualifier.EQUIVALENT: f"equivalent: the whole interval lies within {within} of 1",
        Qualifier.LATE_STARTS: "late starts decide it",
    }
    return words.get(qualifier, "")


def true_levels(contrasts: Iterable[Contrast]) -> str:
    """The true level of exact intervals of ratios, by number of rounds; empty where none is shown."""
    levels = {len(item.rounds): item.interval.level for item in contrasts if item.interval is not None}
    if not levels:
        return ""
    listed = listing(f"{level_text(levels[n])} ({plural(n, 'round')})" for n in sorted(levels, reverse=True))
    return f"Intervals of ratios are exact; their true level is {listed}."


def median_cell(level: Level, unit: TimeUnit) -> str:
    """The median of a level; its values, marked as such, where they are too few for one; and how many are missing."""
    if not level.values_us:
        return "no ok start"
    if not level.printable.summary:
        return f"values {', '.join(map(unit.text, level.values_us))}"
    return unit.text(level.median_us)


def starts_cell(level: Level) -> str:
    """Starts with a value, of those planned."""
    return f"{len(level.values_us)} of {level.num_rounds}"


def rounds_words(rounds: Iterable[int]) -> str:
    """Rounds in words: round 3; rounds 3, 5-7."""
    numbers = list(rounds)
    return f"round{'s' * (len(numbers) != 1)} {span(numbers)}"
