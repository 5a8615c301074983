"""Kernel times by the profiler, where the plan asked for them: never beside a latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.numbers import significant
from ep_campaign.report.document import Paragraph, Quoted, Rank, Section, Table

if TYPE_CHECKING:
    from ep_campaign.report.document import Text
    from ep_campaign.report.source import Source

_TEXT = (
    "Median over iterations of the slowest rank, by torch's profiler, in launches of their own after the scored starts. "
    "The profiler slows what it watches: these times are no parts of any latency of this report, and are never added to one. "
    "On a CPU, operators stand for kernels. The group kernels is the sum of all, span the time from the first one's beginning "
    "to the last one's end."
)
_TITLE = "Kernel time (profiler, own process)"
_NS_PER_US = 1000
_TIME = "median [µs]"


def kernel_times_section(source: Source) -> Section | None:
    """Groups of kernels of each arm in each cell; None where the plan asks for none."""
    if not source.plan.document.get("kernel_times"):
        return None
    rows: list[tuple[Text, ...]] = []
    for record in source.evidence.kernel_times.values():
        for row in record["rows"]:
            if not row["median_ns"]:
                rows.append((row["cell"], row["arm"], Quoted(row["reason"]), "none"))
            rows += [
                (row["cell"], row["arm"], group, significant(value / _NS_PER_US, 3))
                for group, value in row["median_ns"].items()
            ]
    table = Table(_TITLE, ("cell", "arm", "group", _TIME), tuple(rows), frozenset({_TIME}))
    return Section(
        "kernel-times", _TITLE, Rank.DETAIL, (Paragraph(_TEXT), table) if rows else (Paragraph("None was measured."),)
    )
