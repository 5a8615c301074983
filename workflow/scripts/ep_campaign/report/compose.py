"""The report as one document: the answer first, then what limits it, then what it rests on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.report.builds import builds_section
from ep_campaign.report.caveats import diagnostics_section, exclusions_section, unsupported_section
from ep_campaign.report.controls import controls_section
from ep_campaign.report.custody import cost_section, custody_section, launches_section, resolution_section
from ep_campaign.report.document import Document
from ep_campaign.report.gallery import gallery_section
from ep_campaign.report.kernel_times import kernel_times_section
from ep_campaign.report.levels import boundaries_section, inside_section, levels_section, phases_section
from ep_campaign.report.limits import limits_section, notes_section, reproduce_section
from ep_campaign.report.provenance import provenance_section
from ep_campaign.report.traffic import ep_sizes_section, traffic_section
from ep_campaign.report.verdicts import reading_section, verdict_section
from ep_campaign.summary import State

if TYPE_CHECKING:
    from ep_campaign.report.source import Source

SECTIONS = (
    verdict_section,
    builds_section,
    reading_section,
    gallery_section,
    levels_section,
    boundaries_section,
    phases_section,
    inside_section,
    kernel_times_section,
    traffic_section,
    ep_sizes_section,
    controls_section,
    provenance_section,
    diagnostics_section,
    exclusions_section,
    launches_section,
    custody_section,
    unsupported_section,
    resolution_section,
    cost_section,
    limits_section,
    notes_section,
    reproduce_section,
)


def compose(source: Source) -> Document:
    """The document of a campaign."""
    head = source.summary.head
    stamp = "" if head.state is State.COMPLETE else head.state.value.upper()
    sections = (make(source) for make in SECTIONS)
    return Document(f"EP campaign {head.campaign}", stamp, tuple(one for one in sections if one is not None))
