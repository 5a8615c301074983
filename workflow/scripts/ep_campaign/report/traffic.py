"""What is moved, how fast, and what a wider group does to it: bytes in named conventions, tokens and logical bandwidth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.numbers import MISSING, count, significant, time_unit
from ep_campaign.report.document import Paragraph, Rank, Section, Table, Text
from ep_campaign.report.words import median_cell, starts_cell
from ep_campaign.stats.printable import SUMMARY_MIN_N
from ep_worker.contract.accounting import CONVENTIONS

if TYPE_CHECKING:
    from ep_campaign.numbers import TimeUnit
    from ep_campaign.report.document import Block
    from ep_campaign.report.source import Source
    from ep_campaign.summary import Cell, EpAxis, EpPoint, Level

_US_PER_S = 1e6
_CONVENTION_WORDS = {
    "per_selection": "a row for each (token, expert) pair",
    "rank_deduplicated": "a row for each (token, destination rank)",
    "domain_deduplicated": "a row for each (token, scale-up domain)",
}


def traffic_section(source: Source) -> Section:
    """Bytes of each cell; tokens and logical bandwidth of each arm."""
    summary = source.summary
    conventions = "; ".join(f"{name}: {_CONVENTION_WORDS[name]}" for name in CONVENTIONS)
    text = (
        f"Bytes follow from the route, dispatch and combine together, summed over ranks. Conventions: {conventions}. Remote leaves "
        "the rank (in the last, the domain). GB/s (1e9 bytes) are logical: an average rank's bytes over the latency, what stays "
        "local included; they are no link's load. Only input tokens per second compare across EP sizes."
    )
    blocks: list[Block] = [Paragraph(text), _bytes_table(summary.head.cells)]
    primary = [level for level in summary.levels if level.primary and level.values_us]
    if primary:
        blocks.append(_rate_table(primary))
    else:
        blocks.append(Paragraph("No start has a value at the primary boundary and mode, so that no rate can be given."))
    return Section("traffic", "Bytes and throughput", Rank.EVIDENCE, tuple(blocks))


def _bytes_table(cells: tuple[Cell, ...]) -> Table:
    names = [f"{name}, {which}" for name in CONVENTIONS for which in ("all", "remote")]
    rows: list[tuple[Text, ...]] = []
    for cell in cells:
        payload = cell.payload_bytes or {}
        numbers = [
            count(value)
            for name in CONVENTIONS
            for value in ((payload[name].all_bytes, payload[name].remote_bytes) if name in payload else (None, None))
        ]
        rows.append((cell.id, count(cell.num_input_tokens), *numbers))
    head = ("cell", "input tokens", *names)
    return Table("Bytes of one round-trip [B]", head, tuple(rows), frozenset(head[1:]))


def _rate_table(levels: list[Level]) -> Table:
    rows = tuple(
        (
            level.cell,
            level.arm,
            starts_cell(level),
            significant(level.input_tokens_per_second) if level.printable.summary else MISSING,
            *(
                significant(level.logical_gb_per_s_per_rank.get(name)) if level.printable.summary else MISSING
                for name in CONVENTIONS
            ),
        )
        for level in levels
    )
    head = ("cell", "arm", "starts", "input tokens/s", *(f"GB/s per rank, {name}" for name in CONVENTIONS))
    caption = "Rates at the primary boundary and mode, medians over starts (from three starts on)"
    return Table(caption, head, rows, frozenset(head[2:]))


def ep_sizes_section(source: Source) -> Section:
    """Arms over EP sizes; a sentence where there is only one."""
    sizes = source.summary.head.ep_sizes
    if len(sizes) < 2:
        text = f"The campaign has one EP size, {sizes[0].ranks}: nothing can be said of another."
        return Section("ep-sizes", "EP sizes", Rank.DETAIL, (Paragraph(text),))
    text = (
        "Each EP size has starts of its own. Latencies and input tokens per second stand side by side; no verdict is made across "
        "sizes, and none follows for a size that was not measured."
    )
    times = [point.median_us for axis in source.summary.ep_axes for point in axis.points]
    unit = time_unit(times)
    rows: list[tuple[Text, ...]] = []
    for axis in source.summary.ep_axes:
        for point in axis.points:
            interval = point.interval_us
            latency, rate = _point_cells(source, axis, point, unit)
            rows.append(
                (
                    *_axis_key(axis),
                    str(point.ep_size),
                    str(point.num_starts),
                    latency,
                    f"[{unit.text(interval.lo)}, {unit.text(interval.hi)}]" if interval else MISSING,
                    rate,
                )
            )
    head = (
        "profile",
        "route",
        "dtype",
        "arm",
        "EP size",
        "starts",
        f"latency [{unit.symbol}]",
        "interval",
        "input tokens/s",
    )
    table = Table("Arms over EP sizes", head, tuple(rows), frozenset(head[4:]) - {"interval"})
    return Section("ep-sizes", "EP sizes", Rank.EVIDENCE, (Paragraph(text), table))


def _point_cells(source: Source, axis: EpAxis, point: EpPoint, unit: TimeUnit) -> tuple[str, str]:
    """Latency and input tokens per second: medians over starts, or each start's own where they are too few for one."""
    if point.num_starts >= SUMMARY_MIN_N:
        return unit.text(point.median_us), significant(point.input_tokens_per_second)
    cell = f"ep{point.ep_size}/{axis.profile}/{axis.route}/{axis.dtype.value}"
    summary = source.summary
    level = next(item for item in summary.levels if item.primary and (item.cell, item.arm) == (cell, axis.arm))
    num_tokens = next(item.num_input_tokens for item in summary.head.cells if item.id == cell)
    rates = [significant(num_tokens / value * _US_PER_S) for value in level.values_us]
    return median_cell(level, unit), f"values {', '.join(rates)}"


def _axis_key(axis: EpAxis) -> tuple[str, str, str, str]:
    return axis.profile, axis.route, axis.dtype.value, axis.arm
