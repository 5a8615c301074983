"""The answer: what each arm's verdicts are, in one sentence and in one table; and how to read them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ep_campaign.analysis.contrasts import UNJUDGED
from ep_campaign.numbers import MISSING, count, listing, p_text, percent, plural
from ep_campaign.report.document import Bullets, Paragraph, Quoted, Rank, Section, Strong, Table, Text
from ep_campaign.report.words import RESOLVED, code_text, outcome, reservations, true_levels
from ep_campaign.stats.verdict import Verdict
from ep_campaign.summary import Role, State
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ep_campaign.report.document import Block
    from ep_campaign.report.source import Source
    from ep_campaign.summary import Contrast, Family, Head, Summary


def verdict_section(source: Source) -> Section:
    """State, one sentence an arm, the table of the family, and what is described beside it."""
    summary, head = source.summary, source.summary.head
    family = summary.family
    described = [item for item in summary.contrasts if item.role is Role.DESCRIPTIVE]
    blocks: list[Block] = [state_paragraph(head)]
    if family:
        arms = [arm.name for arm in head.arms if any(item.arm == arm.name for item in family)]
        answers = [arm_answer([item for item in family if item.arm == arm], _failed(summary, arm)) for arm in arms]
        if failed := _failed(summary, head.reference):
            answers.insert(0, (Strong(head.reference), f", the reference: {failed}."))
        blocks.append(Bullets(tuple(answers)))
        blocks.append(_family_table(family, head.family))
    else:
        failing = {arm.name: failed for arm in head.arms if (failed := _failed(summary, arm.name))}
        if failing:
            blocks.append(Bullets(tuple((Strong(arm), f": {failed}.") for arm, failed in failing.items())))
        blocks.append(Paragraph("The campaign declares no family: every ratio is described, none is judged."))
    if described:
        blocks += _described_blocks(described)
    if levels := true_levels([*family, *described]):
        blocks.append(Paragraph(levels))
    blocks.append(Paragraph(("What was asked: ", Quoted(head.description))))
    return Section("verdict", "Verdict", Rank.ANSWER, tuple(blocks))


def state_paragraph(head: Head) -> Paragraph:
    """How far the campaign got."""
    where = f"at {head.primary_boundary.value}, {head.primary_mode.value}"
    compared = f"{plural(len(head.arms), 'arm')}, reference {head.reference}, {where}."
    if head.state is State.COMPLETE:
        return Paragraph((Strong("Complete."), f" {compared}"))
    stamp = "PARTIAL." if head.state is State.PARTIAL else f"{head.state.value.capitalize()}."
    kinds = plural(len(head.state_reasons), "reason")
    return Paragraph((Strong(stamp), f" {compared} {kinds}, listed under Exclusions."))


def _failed(summary: Summary, arm: str) -> str:
    """How an arm's starts failed, status first, over everything that it was asked at the primary boundary and mode."""
    planned: dict[tuple[int, str], int] = {}
    lost: dict[tuple[int, str, int], tuple[str, str]] = {}
    for level in summary.levels:
        if level.arm == arm and level.primary:
            planned[(level.ep_size, level.profile)] = level.num_rounds
            for item in level.missing:
                if item.status not in (None, Status.NOT_RUN):
                    lost[(level.ep_size, level.profile, item.round)] = (item.status.value.upper(), item.reason_code)
    total = plural(sum(planned.values()), "start")
    return listing(
        f"{status} in {number} of {total}{code_text(code)}"
        for (status, code), number in sorted(Counter(lost.values()).items())
    )


def arm_answer(contrasts: Sequence[Contrast], failed: str = "") -> Text:
    """One arm's failures, then its verdicts over all cells of the family, as one sentence."""
    first, total = contrasts[0], len(contrasts)
    noun = "cell" if len({item.loop for item in contrasts}) == 1 else "contrast"
    clauses = []
    for verdict in Verdict:
        found = [item for item in contrasts if item.ruling is not None and item.ruling.verdict is verdict]
        if not found:
            continue
        cells = f"in {len(found)} of {plural(total, noun)}"
        if verdict in RESOLVED:
            clauses.append(f"{verdict} than {first.reference} {cells} ({_range(found)})")
        else:
            empty = all(not item.rounds and item.excluded for item in found)
            clauses.append(f"{'nothing to compare' if empty else verdict} {cells}{_why(found)}")
    return (Strong(first.arm), f": {f'{failed}; ' if failed else ''}{listing(clauses)}.")


def _why(contrasts: Sequence[Contrast]) -> str:
    """How many of some undecided contrasts have which qualifier, in brackets; empty where none has one."""
    counts = Counter(str(item) for contrast in contrasts if contrast.ruling for item in contrast.ruling.qualifiers)
    return f" ({', '.join(f'{name} in {number}' for name, number in counts.items())})" if counts else ""


def _range(contrasts: Sequence[Contrast]) -> str:
    shares = sorted(abs(item.ratio - 1) for item in contrasts if item.ratio is not None)
    if len(shares) == 1:
        return f"by {percent(shares[0])} %"
    return f"by {percent(shares[0])} % to {percent(shares[-1])} %"


def _family_table(family: Sequence[Contrast], declared: Family) -> Table:
    rows: list[tuple[Text, ...]] = []
    for item in family:
        verdict = str(item.ruling.verdict) if item.ruling else MISSING
        resolved = item.ruling is not None and item.ruling.verdict in RESOLVED
        rows.append(
            (
                item.place,
                outcome(item),
                Strong(verdict) if resolved else verdict,
                p_text(item.adjusted_p if item.printable.verdicts else None),
                f"{len(item.rounds)} of {item.num_rounds}",
                reservations(item, declared) or MISSING,
            )
        )
    head = ("cell", "what was found", "verdict", "adjusted p", "rounds", "reservation")
    return Table("Verdicts of the declared family", head, tuple(rows), frozenset({"adjusted p"}))


def _described_blocks(described: Sequence[Contrast]) -> list[Block]:
    """The table of what is described, and what the number of rounds withholds: once, where it is the same for all."""
    sentences = {item.printable.sentence for item in described}
    alike = len(sentences) == 1
    rows: list[tuple[Text, ...]] = []
    for item in described:
        verdict = str(item.ruling) if item.ruling else "described"
        row = (item.place, outcome(item), verdict, f"{len(item.rounds)} of {item.num_rounds}")
        rows.append(row if alike else (*row, item.printable.sentence or MISSING))
    head = ("cell", "what was found", "verdict", "rounds", *(() if alike else ("what the rounds allow",)))
    table = Table("Described, not judged: primary contrasts outside the family", head, tuple(rows))
    only = next(iter(sentences)) if alike else ""
    if only == UNJUDGED:  # the caption says it
        return [table]
    return [table, Paragraph(f"Every row of this table: {only}.")] if only else [table]


def reading_section(source: Source) -> Section:
    """What the words of the verdicts mean, in a few lines."""
    head = source.summary.head
    family = head.family
    within = f"{percent(family.practical_threshold, decimals=0)} %"
    primary = (level.iterations for level in source.summary.levels if level.primary)
    iterations = listing(dict.fromkeys(map(count, primary)), last="or")
    unit = (
        f"The unit is a start: one launch of one arm. Its value is the median over {iterations} iterations of the slowest rank, "
        f"at {head.primary_boundary.value}, {head.primary_mode.value}."
    )
    change = (
        f"x % slower means x % more time than {head.reference} in the same round; x % faster means x % less. In brackets: the "
        "exact interval."
    )
    items: list[Text] = [unit, change]
    if family.num_contrasts:
        test = family.test.value.replace("_", "-")
        items.append(
            f"A direction needs p of at most {family.alpha:g} after Holm's adjustment over "
            f"{plural(family.num_contrasts, 'contrast')} ({test} test over rounds); below {within} it is of no practical use."
        )
        items.append(
            f"Not resolved is not equal. Equivalent says more: the whole interval lies within {within}. Order effect, drift, "
            "unstable starts and depends on test are vetoes: the data contradict a clean reading."
        )
    else:
        items.append(
            "Nothing here is a verdict: the campaign was declared to describe. Too few starts says what is missing."
        )
    items.append("A result holds for its EP size, shape, route, dtype, boundary, mode and machine, and for no other.")
    return Section("reading", "How to read it", Rank.ANSWER, (Bullets(tuple(items)),))
