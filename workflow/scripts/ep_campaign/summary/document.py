"""`statistics.json` as one object: written by the analysis, read by figures, report and the terminal's table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from ep_campaign.jsonfile import as_model, read_object
from ep_campaign.summary.contrast import Contrast, Diagnostics, Role
from ep_campaign.summary.custody import Advice, Budget, Cost, Custody, Duration, Launches, Observed
from ep_campaign.summary.head import Head
from ep_campaign.summary.level import EpAxis, Level, Unsupported
from ep_worker.contract.canonical import pretty_json, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

SUMMARY_SCHEMA: Literal["ep-campaign/statistics/1"] = "ep-campaign/statistics/1"


class Summary(BaseModel):
    """Everything that a report says, but for the raw times.

    The same records and plan give the same bytes: no clock, host or path is in it, and every list has a fixed order (the
    plan's order of cells and arms; within a cell boundary, mode and loop in the order of the contract's terms).

    Attributes:
        head: What was compared, how, and how far it got.
        contrasts: The family first, then descriptive, then secondary ones.
        levels: Every cell x boundary x mode x loop x arm that was to be measured.
        unsupported: What arms are known not to do.
        diagnostics: Of each cell at the primary boundary and mode.
        ep_axes: Arms over EP sizes.
        observed: Runtime by EP size and arm; without arms that have no `ok` start there.
        launches: Of each arm.
        custody: Counts over all attempts.
        durations: By EP size and arm.
        cost: None where the plan has no price.
        budget: Declared bound and what it closed.
        advice: Iterations, by EP size and profile; where there are starts enough to say.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, populate_by_name=True)

    schema_version: Literal["ep-campaign/statistics/1"] = Field(default=SUMMARY_SCHEMA, alias="schema")
    head: Head
    contrasts: tuple[Contrast, ...]
    levels: tuple[Level, ...]
    unsupported: tuple[Unsupported, ...]
    diagnostics: tuple[Diagnostics, ...]
    ep_axes: tuple[EpAxis, ...]
    observed: tuple[Observed, ...]
    launches: tuple[Launches, ...]
    custody: Custody
    durations: tuple[Duration, ...]
    cost: Cost | None
    budget: Budget
    advice: tuple[Advice, ...]

    @property
    def family(self) -> tuple[Contrast, ...]:
        """The contrasts that carry verdicts."""
        return tuple(contrast for contrast in self.contrasts if contrast.role is Role.FAMILY)

    def level(self, contrast: Contrast, arm: str) -> Level:
        """The level of an arm where a contrast is made."""
        key = (contrast.cell, contrast.boundary, contrast.mode, contrast.loop, arm)
        return next(item for item in self.levels if (item.cell, item.boundary, item.mode, item.loop, item.arm) == key)

    def text(self) -> str:
        """The text of `statistics.json`."""
        return pretty_json(self.model_dump(mode="json", by_alias=True))


def write_summary(summary: Summary, path: Path) -> None:
    """Writes `statistics.json`, whole or not at all."""
    write_atomically(path, summary.text())


def read_summary(path: Path) -> Summary:
    """`statistics.json` of a results folder.

    Raises:
        CampaignError: It is no JSON object (see `jsonfile`), or not a summary of this version (`bad_statistics`).
    """
    return as_model(Summary, read_object(path, path.name), "bad_statistics", path.name)
