"""`start.json` of an elastic start and its requests, as host code reads them: every field there, of its type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ep_campaign.elastic.loader import Loaded, read_loaded
from ep_campaign.errors import refuse
from ep_campaign.jsonfile import as_model, read_object
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from pathlib import Path

Count = Annotated[int, Field(strict=True, ge=0)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class AskedFile(_Closed):
    """What was asked of the target, and what it answered."""

    old_width: Count
    new_width: Count
    sent_ns: Count
    answered_ns: Count | None
    state: str
    status: Count | None
    message: str
    generation: Count | None


class AbsenceFile(_Closed):
    """One absence, bounded by polls."""

    after_ns: Count | None
    first_ns: Count
    last_ns: Count
    before_ns: Count | None


class ResizeFile(_Closed):
    """What one resize came to."""

    resize: AskedFile
    verdict: str
    reason: str
    ended_ns: Count
    first_held_ns: dict[str, Count]
    first_seen_ns: dict[str, Count]
    seen: tuple[dict[str, Any], ...]
    looks_ns: tuple[Count, ...]
    endpoint_withdrawn: tuple[AbsenceFile, ...]
    phase_withdrawn: tuple[AbsenceFile, ...]
    calls: tuple[Count, ...]
    last_words: str | None


class ReleasedFile(_Closed):
    """What a teardown left."""

    proved: bool
    left: tuple[str, ...]
    not_ours: tuple[str, ...]


class ElasticStartFile(_Closed):
    """One attempt at an elastic start."""

    schema_version: Literal["ep-campaign/elastic-start/1"] = Field(alias="schema")
    kind: Literal["scored"]
    campaign: str
    plan_digest: Sha256
    start: str
    attempt: Annotated[int, Field(strict=True, ge=1)]
    infrastructure: bool
    position: Count
    round: Count
    width: Count
    state: str
    arm: str
    order_position: Count
    status: Status
    reason_code: str
    reason: str
    calibration: dict[str, Any] | None
    resizes: tuple[ResizeFile, ...]
    provenance: tuple[dict[str, Any], ...]
    server_log_before: tuple[dict[str, Count] | None, ...]
    server_log: tuple[dict[str, Count] | None, ...]
    released: tuple[ReleasedFile, ...]
    teardown: Literal["ok", "failed", "not_reached"]
    clock: dict[str, Any] | None
    sequence: Count | None
    controller: dict[str, Any] | None
    files: dict[str, Sha256]


def read_elastic_start(path: Path, where: str) -> ElasticStartFile:
    """A start's record.

    Raises:
        CampaignError: It is no JSON object, or not a record of this version (`bad_start`), with every field at fault.
    """
    return as_model(ElasticStartFile, read_object(path, where), "bad_start", where)


def read_runs(attempt: Path) -> dict[str, Loaded]:
    """The runs of load of an attempt, by the name of their cell.

    Raises:
        CampaignError: `bad_requests`: a file is not what the load generator wrote.
    """
    found = {}
    for folder in sorted(path.parent for path in attempt.glob("cells/*/load.json")):
        try:
            found[folder.name] = read_loaded(folder)
        except (OSError, ValueError, KeyError) as error:
            raise refuse("bad_requests", f"cannot be read: {error}", str(folder)) from None
    return found
