"""A published series over token counts as data, to stand beside a sweep of ours: shown, labelled, never joined to it.

The file format is ours; the figures are the publisher's, at their own precision.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ep_campaign.jsonfile import as_model, read_object

PUBLISHED = Path("config/published")

Positive = Annotated[float, Field(gt=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Series(_Strict):
    """One quantity of one build over the token counts; the arm is named as in the campaign that it belongs to."""

    arm: str
    phase: Literal["roundtrip", "dispatch", "combine"]
    quantity: str
    unit: Literal["us", "GB/s"]
    values: tuple[Positive, ...]


class PublishedSeries(_Strict):
    """A publication.

    Attributes:
        source: Where it stands.
        machine: What it was measured on.
        measures: What its numbers are: the reason why none is joined to ours.
        note: What had to be inferred, and what is not stated.
        tokens_per_rank: Token counts of every series.
        series: The series.
    """

    schema_version: Literal["ep-campaign/published-series/1"] = Field(alias="schema")
    name: str
    source: str
    machine: str
    measures: str
    note: str
    tokens_per_rank: tuple[Annotated[int, Field(gt=0)], ...]
    series: tuple[Series, ...]

    @model_validator(mode="after")
    def _as_long_as_the_sweep(self) -> PublishedSeries:
        for one in self.series:
            if len(one.values) != len(self.tokens_per_rank):
                msg = f"{one.arm} {one.phase} has {len(one.values)} values; expected {len(self.tokens_per_rank)}, one a count"
                raise ValueError(msg)
        return self

    def values(self, arm: str, phase: str, unit: str) -> dict[int, float]:
        """One series by token count; empty where it was not published."""
        for one in self.series:
            if (one.arm, one.phase, one.unit) == (arm, phase, unit):
                return dict(zip(self.tokens_per_rank, one.values, strict=True))
        return {}


def read_series(path: Path) -> PublishedSeries:
    """A file of `config/published/`.

    Raises:
        CampaignError: It is no JSON object (see `jsonfile`), or no such series (`bad_published`).
    """
    return as_model(PublishedSeries, read_object(path, path.name), "bad_published", path.name)
