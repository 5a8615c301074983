"""What each arm takes: every start-level fact at the primary boundary and mode, then the other boundaries, modes and phases."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from ep_campaign.numbers import MISSING, level_text, listing, percent, ratio_text, significant, time_unit
from ep_campaign.report.document import Paragraph, Rank, Section, Table, Text
from ep_campaign.report.words import median_cell, starts_cell
from ep_campaign.stats.tails import iterations_for_bound
from ep_campaign.summary import Role
from ep_worker.contract.terms import Loop, Mode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ep_campaign.numbers import TimeUnit
    from ep_campaign.report.document import Block
    from ep_campaign.report.source import Source
    from ep_campaign.summary import Contrast, Level, Summary
    from ep_worker.contract.terms import Boundary

HEAVY_TAIL = 2.0
"""A p90 above so many medians is worth a caution."""
_NUMBERS = frozenset({"starts", "true level", "min", "max", "CV [%]", "p90", "p95", "p99"})


def _short(item: Level | Contrast) -> str:
    """A cell in a table whose title names EP size and profile."""
    return f"{item.route}/{item.dtype.value}"


def blocks_of(levels: Sequence[Level]) -> Iterator[tuple[str, list[Level]]]:
    """Levels by EP size and profile, with a title for each such block."""
    for (ep_size, profile), group in groupby(levels, key=lambda item: (item.ep_size, item.profile)):
        yield f"EP {ep_size}, {profile}", list(group)


def levels_section(source: Source) -> Section:
    """The primary levels."""
    primary = [level for level in source.summary.levels if level.primary]
    needs = listing(str(iterations_for_bound(quantile)) for quantile in (0.9, 0.95, 0.99))
    text = (
        "Start values at the primary boundary and mode: medians over starts with their exact interval, and the range of all "
        "starts. No start is left out for its timing. Percentiles are medians over starts of each start's own; p90, p95 and p99 "
        f"need {needs} iterations in a start."
    )
    blocks: list[Block] = [Paragraph(text)]
    blocks += [_level_table(title, found) for title, found in blocks_of(primary)]
    if heavy := heavy_tails(primary):
        blocks.append(Paragraph(heavy))
    if withheld := list(dict.fromkeys(level.printable.sentence for level in primary if level.printable.sentence)):
        blocks.append(Paragraph(f"Where a column is empty: {'; '.join(withheld)}."))
    return Section("levels", "Levels", Rank.EVIDENCE, tuple(blocks))


def heavy_tails(levels: Sequence[Level]) -> str:
    """A caution about levels of which every tenth iteration takes over twice the median; empty where there is none."""
    heavy: dict[str, list[str]] = {}
    for level in levels:
        if not level.printable.summary or level.p90_us is None or level.median_us is None:
            continue
        if level.p90_us > HEAVY_TAIL * level.median_us:
            heavy.setdefault(level.arm, []).append(level.cell)
    if not heavy:
        return ""
    listed = listing(f"{arm} in {listing(cells)}" for arm, cells in heavy.items())
    return (
        f"Heavy tails: every tenth iteration takes more than {HEAVY_TAIL:g} x the median with {listed}. There the verdict, made on "
        "medians, does not describe what a model waits for; look at p90 to p99."
    )


def _level_table(title: str, levels: Sequence[Level]) -> Table:
    unit = time_unit(level.median_us for level in levels)
    head = (
        "route/dtype",
        "arm",
        "starts",
        "median",
        "interval",
        "true level",
        "min",
        "max",
        "CV [%]",
        "p90",
        "p95",
        "p99",
    )
    rows = tuple(_level_row(level, unit) for level in levels)
    return Table(f"{title} [{unit.symbol}]", head, rows, _NUMBERS)


def _level_row(level: Level, unit: TimeUnit) -> tuple[Text, ...]:
    interval, shown = level.interval_us, level.printable.summary
    return (
        _short(level),
        level.arm,
        starts_cell(level),
        median_cell(level, unit),
        f"[{unit.text(interval.lo)}, {unit.text(interval.hi)}]" if interval else MISSING,
        level_text(interval.level) if interval else MISSING,
        unit.text(level.min_us) if shown else MISSING,
        unit.text(level.max_us) if shown else MISSING,
        percent(level.cv),
        *(unit.text(value) if shown else MISSING for value in (level.p90_us, level.p95_us, level.p99_us)),
    )


def boundaries_section(source: Source) -> Section:
    """Every boundary and mode: medians, and ratios that are described but never judged."""
    summary = source.summary
    whole = [level for level in summary.levels if level.loop is Loop.ROUNDTRIP]
    blocks: list[Block] = [
        Paragraph(
            "Medians of whole round-trips. Compare arms within one row, never rows with each other. An equals sign marks work that "
            "is the same as at an earlier boundary: it was measured once and stands under both names."
        )
    ]
    if any(level.mode is Mode.CHAINED for level in whole):
        blocks.append(Paragraph(_CHAINED))
    for title, levels in blocks_of(whole):
        blocks.append(_matrix_table(summary, title, levels))
    secondary = [item for item in summary.contrasts if item.role is Role.SECONDARY and item.loop is Loop.ROUNDTRIP]
    if secondary:
        blocks.append(_ratio_table(summary, secondary))
    else:
        blocks.append(
            Paragraph("No other boundary or mode has a ratio: the primary one is the only one that was planned.")
        )
    return Section("boundaries", "Boundaries and modes", Rank.DETAIL, tuple(blocks))


_CHAINED = (
    "Chained may exceed host_start: a chain never lets the device, the links and the ranks come to rest between round-trips, so "
    "that one waits for what the last has left, and a rank's delay is passed on; host_start begins each on an idle device, behind "
    "a barrier."
)


def _arms(summary: Summary) -> tuple[str, ...]:
    return tuple(arm.name for arm in summary.head.arms)


def _matrix_table(summary: Summary, title: str, levels: Sequence[Level]) -> Table:
    arms = _arms(summary)
    unit = time_unit(level.median_us for level in levels)
    rows = []
    for (cell, boundary, mode), group in groupby(levels, key=lambda item: (_short(item), item.boundary, item.mode)):
        by_arm = {level.arm: level for level in group}
        cells = [_matrix_cell(by_arm.get(arm), unit) for arm in arms]
        rows.append((cell, boundary.value, mode.value, *cells))
    head = ("route/dtype", "boundary", "mode", *arms)
    return Table(f"{title}: median round-trip [{unit.symbol}]", head, tuple(rows), frozenset(arms))


def _matrix_cell(level: Level | None, unit: TimeUnit) -> str:
    if level is None:
        return "unsupported"
    return f"{median_cell(level, unit)}{' =' if level.same_as else ''}"


def _ratio_table(summary: Summary, contrasts: Sequence[Contrast]) -> Table:
    arms = [arm for arm in _arms(summary) if arm != summary.head.reference]
    rows = []
    for (cell, boundary, mode), group in groupby(contrasts, key=lambda item: (item.cell, item.boundary, item.mode)):
        by_arm = {item.arm: item for item in group}
        rows.append((cell, boundary.value, mode.value, *(_ratio_cell(by_arm.get(arm)) for arm in arms)))
    caption = f"Ratios to {summary.head.reference} at other boundaries and modes: described, never judged"
    return Table(caption, ("cell", "boundary", "mode", *arms), tuple(rows), frozenset(arms))


def _ratio_cell(contrast: Contrast | None) -> str:
    if contrast is None:
        return "unsupported"
    if contrast.ratio is not None and contrast.interval is not None:
        return f"{ratio_text(contrast.ratio)} [{ratio_text(contrast.interval.lo)}, {ratio_text(contrast.interval.hi)}]"
    if contrast.ratio_of_medians is not None:
        return f"{ratio_text(contrast.ratio_of_medians)} (of medians)"
    return ", ".join(map(ratio_text, contrast.ratios)) or "no complete round"


def phases_section(source: Source) -> Section:
    """Where the time goes: phases inside the round-trip, and each phase alone."""
    levels = source.summary.levels
    measured = [level for level in levels if level.values_us and level.same_as is None]
    split = [level for level in measured if level.loop is Loop.ROUNDTRIP and level.dispatch_us is not None]
    alone: dict[tuple[str, Boundary, Mode, str, Loop], Level] = {
        (item.cell, item.boundary, item.mode, item.arm, item.loop): item
        for item in levels
        if item.loop is not Loop.ROUNDTRIP
    }
    if not split:
        sentence = "No round-trip was split: no start has a value in a mode that stamps the phases."
        return Section("phases", "Phases", Rank.DETAIL, (Paragraph(sentence),))
    blocks: list[Block] = [
        Paragraph(
            "Each phase is the slowest rank's own median, so that phases need not add up to the whole. Alone: the phase in a loop "
            "of its own with a fixed handle, at the primary boundary and mode. A dash: not a phase of its own, or not timed alone."
        )
    ]
    for title, found in blocks_of(split):
        unit = time_unit(level.median_us for level in found)
        rows = []
        for level in found:
            loops = [alone.get((level.cell, level.boundary, level.mode, level.arm, loop)) for loop in _ALONE]
            shown = [_phase_cell(level, phase, unit) for phase in _PHASES[:3]]
            apart = [median_cell(item, unit) if item is not None else MISSING for item in loops]
            where = (_short(level), level.boundary.value, level.mode.value, level.arm)
            rows.append((*where, *shown, median_cell(level, unit), *apart))
        head = ("route/dtype", "boundary", "mode", "arm", *_PHASES)
        blocks.append(Table(f"{title} [{unit.symbol}]", head, tuple(rows), frozenset(_PHASES)))
    return Section("phases", "Phases", Rank.DETAIL, tuple(blocks))


def _phase_cell(level: Level, phase: str, unit: TimeUnit) -> str:
    """A phase's median over starts; the starts' own values where they are too few for one."""
    if not level.printable.summary:
        values = level.phase_values_us.get(phase, ())
        return f"values {', '.join(map(unit.text, values))}" if values else MISSING
    medians = {"layout": level.layout_us, "dispatch": level.dispatch_us, "combine": level.combine_us}
    return unit.text(medians[phase])


_ALONE = (Loop.LAYOUT, Loop.DISPATCH, Loop.COMBINE)
_PHASES = ("layout", "dispatch", "combine", "whole", "layout alone", "dispatch alone", "combine alone")


def inside_section(source: Source) -> Section:
    """What happens inside starts: spikes, unsteady halves, the slowest rank, the timer's floor."""
    primary = [level for level in source.summary.levels if level.primary and level.values_us]
    if not primary:
        sentence = "No start has a value at the primary boundary and mode."
        return Section("inside", "Inside the starts", Rank.DETAIL, (Paragraph(sentence),))
    rows = tuple(
        (
            level.cell,
            level.arm,
            str(level.num_spikes_all_ranks),
            str(level.num_spikes_one_rank),
            ", ".join(map(str, level.unsteady_rounds)) or "none",
            MISSING if level.slowest_rank is None else str(level.slowest_rank),
            percent(level.slowest_rank_share, decimals=0),
            significant(level.timer_floor_us, 3),
        )
        for level in primary
    )
    head = ("cell", "arm", *_INSIDE)
    text = (
        "Spikes are iterations above 1.5 x their start's median, on most ranks or on few. Unsteady rounds: the halves of the start "
        "differ by more than 5 %. Slowest rank: the one that is slowest most often, with its share of iterations."
    )
    table = Table("Primary boundary and mode", head, rows, frozenset(_INSIDE) - {"unsteady rounds"})
    return Section("inside", "Inside the starts", Rank.DETAIL, (Paragraph(text), table))


_INSIDE = (
    "spikes, most ranks",
    "spikes, few ranks",
    "unsteady rounds",
    "slowest rank",
    "its share [%]",
    "timer floor [µs]",
)
