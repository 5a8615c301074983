"""What the campaign does not say, what a reader should know, and how to do it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.numbers import listing, plural
from ep_campaign.report.document import Bullets, Commands, Paragraph, Quoted, Rank, Section, Table, Text
from ep_campaign.summary import State
from ep_worker.contract.terms import Device, Mode

if TYPE_CHECKING:
    from ep_campaign.report.document import Block
    from ep_campaign.report.source import Source
    from ep_campaign.summary import Head


_PAIR = 2


def limits_section(source: Source) -> Section:
    """Limits that follow from this plan and these records."""
    head = source.summary.head
    items: list[Text] = [_sizes(head), *_sharing(head), _shapes(head), _machines(source), _mode(head)]
    if head.device is Device.CPU:
        items.append("Ranks computed on CPUs: the ranking of portable arms there says nothing of any GPU backend.")
    if not head.family.num_contrasts:
        items.append("No family was declared: no claim is made, whatever the ratios look like.")
    routes = {cell.route_kind for cell in head.cells}
    if len(routes) == 1:
        items.append(f"One kind of route, {listing(routes)}: traffic of another skew may rank the arms otherwise.")
    differing = [
        profile.name for profile in head.profiles if len({arm.api_modes.get(profile.name) for arm in head.arms}) > 1
    ]
    if differing:
        items.append(
            f"Arms serve {listing(differing)} through different API modes: they differ in more than the backend."
        )
    if head.state is not State.COMPLETE:
        items.append(
            f"The campaign is not complete ({head.state.value}): what is missing may not be missing at random."
        )
    items.append(
        "A micro-benchmark of dispatch and combine: it is not serving speed, and no overlap with a model's own compute is in it"
        + (
            " beyond the overlapped mode."
            if any(level.mode is Mode.OVERLAPPED and level.values_us for level in source.summary.levels)
            else "."
        )
    )
    if len(head.arms) > _PAIR:
        items.append("Arms were compared with the reference only, never with each other.")
    return Section("limits", "Limits", Rank.ANSWER, (Bullets(tuple(items)),))


def _sizes(head: Head) -> str:
    sizes = listing(str(size.ranks) for size in head.ep_sizes)
    return f"EP sizes measured: {sizes}. Nothing is said of any other, and no size stands for another."


def _sharing(head: Head) -> list[Text]:
    """Sizes whose ranks shared GPUs."""
    return [
        f"At EP {size.ranks}, {size.ranks_per_device} ranks shared each GPU and took turns on it: these starts show that "
        "arms run and deliver what they should; their times say nothing."
        for size in head.ep_sizes
        if size.ranks_per_device > 1
    ]


def _shapes(head: Head) -> str:
    shapes = listing(
        f"{profile.name} ({profile.tokens_per_rank:,} tokens/rank, hidden {profile.hidden:,}, {profile.experts:,} experts, "
        f"top-{profile.top_k})"
        for profile in head.profiles
    )
    return f"Shapes measured: {shapes}; routes: {listing(dict.fromkeys(cell.route for cell in head.cells))}."


def _machines(source: Source) -> str:
    hosts = sorted({host for names in source.evidence.hosts.values() for host in names})
    if not hosts:
        return "No rank said on which machine it ran."
    if len(hosts) == 1:
        return f"One machine, {hosts[0]}: differences between machines are not in the spread."
    return f"{plural(len(hosts), 'machine')}: others, with other drivers and fabrics, are not in the spread."


def _mode(head: Head) -> str:
    text = f"Verdicts are for {head.primary_boundary.value}, {head.primary_mode.value}."
    if head.primary_mode is Mode.HOST_START:
        text += " A host-started round-trip includes what the host needs to launch it."
    return f"{text} Other boundaries and modes may rank the arms otherwise."


def notes_section(source: Source) -> Section:
    """Warnings as data: of the plan, the validation and the analysis."""
    head = source.summary.head
    known = {(note.code, note.text) for note in head.warnings}
    rows: list[tuple[Text, ...]] = [(Quoted(note.code), Quoted(note.text)) for note in head.warnings]
    for item in source.validation.get("violations", []):
        text = f"{item['file']}{': ' + item['field'] if item['field'] else ''}: found {item['found']}, expected {item['expected']}"
        if item["severity"] == "note" and (item["code"], text) not in known:
            rows.append((Quoted(item["code"]), Quoted(text)))
    if not rows:
        return Section("notes", "Notes", Rank.CAVEAT, (Paragraph("No stage left a warning."),))
    table = Table("Warnings of plan, validation and analysis", ("code", "text"), tuple(dict.fromkeys(rows)))
    return Section("notes", "Notes", Rank.CAVEAT, (table,))


def reproduce_section(source: Source) -> Section:
    """Commands that do it again, and digests to hold the result against."""
    name = source.summary.head.campaign
    blocks: tuple[Block, ...] = (
        Paragraph("Measure again, into a results folder of its own:"),
        Commands((f"make plan CAMPAIGN={name}", f"snakemake --config campaign={name} results=elsewhere")),
        Paragraph("Summarise these records again, measuring nothing; the same inputs give the same bytes:"),
        Commands((f"make summary CAMPAIGN={name}",)),
        Paragraph("Check that no file of this folder was altered:"),
        Commands((f"cd results/{name} && sha256sum --check --quiet SHA256SUMS",)),
        Bullets(
            (
                ("Plan digest: ", Quoted(source.plan.digest), "."),
                f"Seed of every draw: {source.plan.document['seed']}.",
                _mark(source),
            )
        ),
    )
    return Section("reproduce", "Reproduce it", Rank.ANSWER, blocks)


def _mark(source: Source) -> Text:
    if source.summary.head.state is State.COMPLETE:
        return ("The folder carries ", Quoted("CAMPAIGN_COMPLETE"), ", written last, with the digest of its checksums.")
    return ("The folder carries ", Quoted("PARTIAL"), " instead of ", Quoted("CAMPAIGN_COMPLETE"), ".")
