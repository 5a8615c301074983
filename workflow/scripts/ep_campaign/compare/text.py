"""A comparison as Markdown, which a terminal shows as well, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ep_campaign.compare.judge import Change
from ep_campaign.numbers import MISSING, p_text, plural, ratio_text, significant
from ep_campaign.report.document import Bullets, Document, Paragraph, Quoted, Rank, Section, Strong, Table
from ep_campaign.report.markdown import render_markdown

if TYPE_CHECKING:
    from ep_campaign.compare.judge import Comparison, Pair
    from ep_campaign.compare.side import Side
    from ep_campaign.report.document import Block, Text

COMPARE_SCHEMA = "ep-campaign/compare/1"
CAUTION = (
    "The starts of two campaigns share no round: whatever differs between their sittings (machine, neighbours, heat, build) is in "
    "each ratio. A change is a fact of these two runs; only arms within one campaign tell causes apart."
)


def as_markdown(found: Comparison) -> str:
    """The whole text."""
    first, second = found.first.label, found.second.label
    sections = (_sides(found), _differences(found), _levels(found), _rankings(found))
    return render_markdown(Document(f"{second} against {first}", "", sections))


def as_json(found: Comparison) -> dict[str, Any]:
    """Plain JSON value."""
    return {
        "schema": COMPARE_SCHEMA,
        "first": {"label": found.first.label, "source": found.first.source, **found.first.identity},
        "second": {"label": found.second.label, "source": found.second.source, **found.second.identity},
        "differences": [dict(zip(("name", "first", "second"), row, strict=True)) for row in found.differences.rows],
        "pairs": [{**asdict(pair), "key": pair.key._asdict()} for pair in found.pairs],
        "rankings": [
            {
                "key": item.key._asdict(),
                "first": asdict(item.first),
                "second": asdict(item.second),
                "agreement": item.agreement,
            }
            for item in found.rankings
        ],
        "only_first": found.only[0],
        "only_second": found.only[1],
    }


def _sides(found: Comparison) -> Section:
    items: list[Text] = [_identity(side) for side in (found.first, found.second)]
    both = plural(len(found.pairs), "place")
    items.append(
        f"{both} measured by both; {found.only[0]} by {found.first.label} alone, {found.only[1]} by {found.second.label} alone."
    )
    return Section("sides", "What is compared", Rank.ANSWER, (Bullets(tuple(items)), Paragraph(CAUTION)))


def _identity(side: Side) -> Text:
    rest = "; ".join(f"{name} {value}" for name, value in side.identity.items())
    return (Strong(side.label), f" ({side.source}): ", Quoted(rest))


def _differences(found: Comparison) -> Section:
    rows = tuple((name, Quoted(mine), Quoted(theirs)) for name, mine, theirs in found.differences.rows)
    same = f"{plural(found.differences.num_equal, 'fact')} agree."
    if not rows:
        return Section("differences", "What differs", Rank.ANSWER, (Paragraph(f"Nothing that is recorded. {same}"),))
    table = Table("Recorded facts that differ", ("fact", found.first.label, found.second.label), rows)
    return Section("differences", "What differs", Rank.ANSWER, (Paragraph(same), table))


def _levels(found: Comparison) -> Section:
    blocks: list[Block] = []
    for change in Change:
        pairs = [pair for pair in found.pairs if pair.change is change]
        if pairs:
            head = ("arm", "place", "starts", "medians [us]", "ratio [interval]", "adjusted p")
            described = change is Change.DESCRIBED
            rows = tuple(_row(pair, described=described) for pair in pairs)
            title = f"{found.second.label} {change.value}" if change in (Change.SLOWER, Change.FASTER) else change.value
            blocks.append(Table(title.capitalize(), (*head, *(("why",) if described else ())), rows))
    if not blocks:
        blocks.append(
            Paragraph("No place was measured by both: shapes, routes, boundaries, modes or names of arms differ.")
        )
    return Section("levels", "Cell by cell", Rank.ANSWER, tuple(blocks))


def _row(pair: Pair, *, described: bool) -> tuple[Text, ...]:
    interval = "" if pair.lo is None else f" [{ratio_text(pair.lo)}, {ratio_text(pair.hi)}]"
    row: tuple[Text, ...] = (
        pair.key.arm,
        pair.key.text,
        f"{pair.numbers[0]} and {pair.numbers[1]}",
        f"{significant(pair.medians_us[0])} and {significant(pair.medians_us[1])}",
        f"{ratio_text(pair.ratio)}{interval}",
        MISSING if pair.adjusted_p is None else p_text(pair.adjusted_p),
    )
    return (*row, pair.why_not) if described else row


def _rankings(found: Comparison) -> Section:
    rows: tuple[tuple[Text, ...], ...] = tuple(
        (
            item.key.arm,
            item.key.text,
            *(
                f"{ratio_text(one.ratio)} [{ratio_text(one.lo)}, {ratio_text(one.hi)}]"
                for one in (item.first, item.second)
            ),
            item.agreement,
        )
        for item in found.rankings
    )
    if not rows:
        text = "No contrast with an interval was made by both against the same reference."
        return Section("rankings", "Do both rank the arms alike?", Rank.ANSWER, (Paragraph(text),))
    head = ("arm", "place", f"ratio in {found.first.label}", f"ratio in {found.second.label}", "agreement")
    return Section(
        "rankings", "Do both rank the arms alike?", Rank.ANSWER, (Table("Arm / reference, within each", head, rows),)
    )
