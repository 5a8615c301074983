"""Builds against each other over a sweep: at which token counts, in which phase, and what the control shows."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ep_campaign.numbers import MISSING, count, listing, p_text, ratio_text, significant
from ep_campaign.published_series import PUBLISHED, read_series
from ep_campaign.report.document import Bullets, Paragraph, Quoted, Rank, Section, Strong, Table
from ep_campaign.stats.verdict import Qualifier, Verdict
from ep_campaign.summary import Role
from ep_worker.contract.terms import Loop

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ep_campaign.published_series import PublishedSeries
    from ep_campaign.report.document import Block, Text
    from ep_campaign.report.source import Source
    from ep_campaign.summary import Contrast

PHASES = {Loop.ROUNDTRIP: "round-trip", Loop.DISPATCH: "dispatch alone", Loop.COMBINE: "combine alone"}
_HEAD = ("tokens/rank", "reference [us]", "build [us]", "ratio [interval]", "adjusted p", "verdict")


def builds_section(source: Source) -> Section | None:
    """The section of a campaign with a sweep whose family judges it; None for any other."""
    plan = source.plan
    contrasts = [item for item in source.summary.contrasts if item.role is not Role.SECONDARY]
    if not plan.sweep or not contrasts:
        return None
    tokens = {profile.name: profile.tokens_per_rank for profile in source.summary.head.profiles}
    blocks: list[Block] = [Bullets(tuple(_answers(source, contrasts, tokens)))]
    published = read_series(PUBLISHED / f"{plan.published}.json") if plan.published else None
    for (arm, loop, ep_size, route, dtype), group in groupby(sorted(contrasts, key=_curve), key=_curve):
        rows = sorted(group, key=lambda item: tokens[item.profile])
        phase = list(PHASES.values())[loop]
        caption = f"{arm} against {source.summary.head.reference}: {phase}, EP {ep_size}, route {route}, {dtype}"
        blocks.append(_table(caption, rows, tokens, published))
    if published is not None:
        blocks += [Paragraph(text) for text in _provenance(published)]
    return Section("builds", "Where builds differ", Rank.ANSWER, tuple(blocks))


def _curve(item: Contrast) -> tuple[str, int, int, str, str]:
    return item.arm, list(PHASES).index(item.loop), item.ep_size, item.route, item.dtype.value


def _answers(source: Source, contrasts: Sequence[Contrast], tokens: dict[str, int]) -> list[Text]:
    """One sentence an arm and phase; then what the control shows."""
    head = source.summary.head
    answers: list[Text] = []
    for arm in (arm.name for arm in head.arms if arm.name != head.reference):
        for loop, phase in PHASES.items():
            found = [item for item in contrasts if (item.arm, item.loop) == (arm, loop)]
            if found:
                answers.append((Strong(arm), f", {phase}: {_where(found, tokens, head.reference)}."))
    if source.plan.control:
        answers.append(_control(source.plan.control, [c for c in contrasts if c.arm == source.plan.control], tokens))
    return answers


def _where(found: Sequence[Contrast], tokens: dict[str, int], reference: str) -> str:
    clauses = []
    for verdict, word in ((Verdict.SLOWER, "slower"), (Verdict.FASTER, "faster")):
        mine = [item for item in found if item.ruling is not None and item.ruling.verdict is verdict]
        if mine:
            first = min(mine, key=lambda item: tokens[item.profile])
            ratios = sorted(item.ratio for item in mine if item.ratio is not None)
            spread = (
                ratio_text(ratios[0]) if len(ratios) == 1 else f"{ratio_text(ratios[0])} to {ratio_text(ratios[-1])}"
            )
            counts = listing(_counts(mine, tokens))
            clauses.append(
                f"{word} than {reference} at {counts} tokens/rank (first at {count(tokens[first.profile])}), ratio {spread}"
            )
    rest = [
        item for item in found if item.ruling is None or item.ruling.verdict not in (Verdict.SLOWER, Verdict.FASTER)
    ]
    equal = [item for item in rest if item.ruling is not None and Qualifier.EQUIVALENT in item.ruling.qualifiers]
    if equal:
        clauses.append(f"equivalent at {listing(_counts(equal, tokens))} tokens/rank")
    if open_ := [item for item in rest if item not in equal]:
        clauses.append(f"undecided at {listing(_counts(open_, tokens))} tokens/rank")
    return "; ".join(clauses)


def _counts(found: Sequence[Contrast], tokens: dict[str, int]) -> list[str]:
    return [count(number) for number in sorted({tokens[item.profile] for item in found})]


def _control(arm: str, found: Sequence[Contrast], tokens: dict[str, int]) -> Text:
    """Whether the old behaviour is restored: nowhere slower, and said to be so rather than not shown."""
    slower = [item for item in found if item.ruling is not None and item.ruling.verdict is Verdict.SLOWER]
    shown = [item for item in found if _not_slower(item)]
    if slower:
        text = f": does not restore the old behaviour; it is slower at {listing(_counts(slower, tokens))} tokens/rank."
    elif len(shown) == len(found):
        text = ": restores the old behaviour in every contrast of the family: faster, or equivalent."
    else:
        text = f": restores it in {len(shown)} of {len(found)} contrasts; the others are not resolved either way."
    return (Strong(f"{arm} (the control)"), text)


def _not_slower(item: Contrast) -> bool:
    if item.ruling is None:
        return False
    return item.ruling.verdict is Verdict.FASTER or Qualifier.EQUIVALENT in item.ruling.qualifiers


def _table(caption: str, rows: Sequence[Contrast], tokens: dict[str, int], published: PublishedSeries | None) -> Table:
    beside = published.values(rows[0].arm, rows[0].loop.value, "us") if published else {}
    lines: list[tuple[Text, ...]] = []
    for item in rows:
        line: tuple[Text, ...] = (
            count(tokens[item.profile]),
            significant(item.reference_median_us),
            significant(item.arm_median_us),
            _ratio(item),
            p_text(item.adjusted_p if item.printable.verdicts else None),
            str(item.ruling) if item.ruling else "described",
        )
        lines.append((*line, significant(beside.get(tokens[item.profile]))) if beside else line)
    head = (*_HEAD, *(("published [us], not comparable",) if beside else ()))
    return Table(caption, head, tuple(lines), frozenset(head) - {"verdict", "ratio [interval]"})


def _ratio(item: Contrast) -> str:
    if item.ratio is not None and item.interval is not None:
        return f"{ratio_text(item.ratio)} [{ratio_text(item.interval.lo)}, {ratio_text(item.interval.hi)}]"
    return ", ".join(map(ratio_text, item.ratios)) or MISSING


def _provenance(published: PublishedSeries) -> list[Text]:
    series = "; ".join(
        f"{one.arm}, {one.phase}, {one.quantity} [{one.unit}]: {', '.join(map(significant, one.values))}"
        for one in published.series
    )
    where = f"Published series ({published.machine}) at {listing(map(count, published.tokens_per_rank))} tokens/rank: {series}."
    return [
        (where, " Source: ", Quoted(published.source), "."),
        f"They are {published.measures}: shown beside ours, never joined. {published.note}",
    ]
