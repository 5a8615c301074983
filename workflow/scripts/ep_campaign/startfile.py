"""`start.json` and `outcome-<K>.json` as host code reads them: every field there, of its type, in its range.

The contract's assembly writes the first, the measuring job the second. What must hold between fields, files and starts is
for `validate`; here a file is only well-formed or it is not.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ep_campaign.jsonfile import as_model, read_object
from ep_worker.contract.accounting import RouteCounts
from ep_worker.contract.terms import ApiMode, Boundary, Dtype, Loop, Mode, Phase, Placement, Status

if TYPE_CHECKING:
    from pathlib import Path

Count = Annotated[int, Field(strict=True, ge=0)]
Ordinal = Annotated[int, Field(strict=True, ge=1)]
Number = Annotated[float, Field(strict=True)]
Positive = Annotated[float, Field(strict=True, gt=0)]
NotNegative = Annotated[float, Field(strict=True, ge=0)]
Flag = Annotated[bool, Field(strict=True)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Matrix = list[list[Count]]

UNRUN = (Status.NOT_RUN, Status.INADMISSIBLE)
"""Statuses of a start that was closed before it began anything: by its budget, or by admission."""


class _Closed(BaseModel):
    """A part whose every field is known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Open(BaseModel):
    """A part to which its writer may add what it observed."""

    model_config = ConfigDict(extra="allow", frozen=True)


class OracleResult(_Open):
    """One check of one cell over all ranks."""

    passed: Flag
    reason_code: str
    reason: str
    max_token_error: NotNegative
    tolerance: NotNegative
    worst_rank: Count | None = None


class Oracle(_Closed):
    """The checks before and after timing; null where a rank left none."""

    before: OracleResult | None
    after: OracleResult | None


class Samples(_Closed):
    """Where a series' raw times lie in the uncompressed `samples.bin.gz`: int64 [ns], axes sample, rank, phase."""

    offset_bytes: Count
    shape: tuple[Ordinal, Ordinal, Ordinal]
    phases: tuple[Phase, ...] = Field(min_length=1)


class Latency(_Closed):
    """Derived figures of one series [ns], slowest rank, one round-trip (or one phase, in an isolated loop)."""

    median_ns: Positive
    mean_ns: Positive
    min_ns: Positive
    max_ns: Positive
    phase_median_ns: dict[Phase, Positive]
    input_tokens_per_second: Positive


class Record(_Closed):
    """What a start says of one series, or of one cell x boundary x mode that is known not to run."""

    cell: str
    boundary: Boundary
    mode: Mode
    loop: Loop
    route: str
    dtype: Dtype
    status: Status
    reason_code: str
    reason: str
    source: str | None = None
    iterations: Ordinal | None = None
    warmups: Count | None = None
    chain_length: Ordinal | None = None
    same_as: Boundary | None = None
    cast_placement: Placement | None = None
    permute_placement: Placement | None = None
    weight_placement: Placement | None = None
    oracle: Oracle | None = None
    samples: Samples | None = None
    latency: Latency | None = None
    resolved: dict[str, Any] | None = None
    payload_bytes: dict[str, dict[str, Count]] | None = None

    @cached_property
    def key(self) -> tuple[str, str, str, str]:
        """Cell, boundary, mode, loop: unique within a start."""
        return (self.cell, self.boundary.value, self.mode.value, self.loop.value)


class Counts(_Closed):
    """What a route sends where [rows]."""

    num_selections: Matrix
    num_rows: Matrix
    num_domain_rows: Matrix
    domain_size: Ordinal

    @model_validator(mode="after")
    def _square(self) -> Counts:
        num_ranks = len(self.num_rows)
        wanted = [(self.num_selections, num_ranks), (self.num_rows, num_ranks)]
        wanted.append((self.num_domain_rows, num_ranks // self.domain_size))
        if not all(len(matrix) == num_ranks and all(len(row) == width for row in matrix) for matrix, width in wanted):
            msg = "matrices are not [ranks][ranks], [ranks][ranks] and [ranks][domains]"
            raise ValueError(msg)
        return self

    def as_route_counts(self) -> RouteCounts:
        """The contract's form."""
        return RouteCounts(self.num_selections, self.num_rows, self.num_domain_rows, self.domain_size)


class ExpertLoad(_Closed):
    """Selections of an expert over all tokens."""

    min: Count
    max: Count
    mean: NotNegative


class WorkloadRecord(_Open):
    """What the ranks say of one route."""

    route_sha256: Sha256
    weights_sha256: Sha256
    input_sha256: Sha256
    route_sha256_by_rank: tuple[Sha256, ...]
    weights_sha256_by_rank: tuple[Sha256, ...]
    input_sha256_by_rank: tuple[Sha256, ...]
    num_tokens: tuple[Count, ...]
    counts: Counts
    expert_load: ExpertLoad


class Clock(_Open):
    """When the controller began and ended an attempt."""

    began_utc: str
    ended_utc: str
    seconds: NotNegative


class StartFile(_Closed):
    """One attempt at a start."""

    schema_version: Literal["ep-campaign/start/1"] = Field(alias="schema")
    kind: Literal["scored", "admission"]
    campaign: str
    plan_digest: Sha256
    start: str
    attempt: Ordinal
    sequence: Ordinal | None
    position: Count
    round: Ordinal
    order_position: Ordinal
    ep_size: Ordinal
    profile: str
    arm: str
    status: Status
    infrastructure: Flag
    records: tuple[Record, ...]
    files: dict[str, Sha256]
    reason_code: str = ""
    reason: str = ""
    backend: str | None = None
    api_mode: ApiMode | None = None
    image: str | None = None
    clock: Clock | None = None
    controller: dict[str, Any] | None = None
    launcher: dict[str, Any] | None = None
    failures: tuple[dict[str, Any], ...] = ()
    teardown: Literal["ok", "failed", "not_reached"] | None = None
    provenance: dict[str, dict[str, Any]] | None = None
    worker_digests: tuple[Sha256, ...] = ()
    workload: dict[str, WorkloadRecord | None] | None = None
    sample_axes: tuple[str, ...] | None = None
    sample_unit: str | None = None

    @property
    def unrun(self) -> bool:
        """Whether it was closed before it began anything."""
        return not self.records

    @field_validator("provenance")
    @classmethod
    def _agreed_or_by_rank(cls, value: dict[str, dict[str, Any]] | None) -> dict[str, dict[str, Any]] | None:
        for name, entry in (value or {}).items():
            by_rank = entry.get("by_rank")
            if not (set(entry) == {"value"} or (set(entry) == {"by_rank"} and isinstance(by_rank, list) and by_rank)):
                msg = f"field {name!r} is neither {{'value': ...}} nor {{'by_rank': [...]}}"
                raise ValueError(msg)
        return value

    @model_validator(mode="after")
    def _whole(self) -> StartFile:
        if self.unrun:
            if self.status not in UNRUN or not self.reason_code:
                msg = (
                    f"status {self.status.value} without records; expected not_run or inadmissible, with a reason code"
                )
                raise ValueError(msg)
            return self
        needed = ("sequence", "backend", "api_mode", "clock", "launcher", "teardown", "provenance", "workload")
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            msg = f"{', '.join(missing)} missing from an attempt that ran"
            raise ValueError(msg)
        return self


class OutcomeRow(_Closed):
    """One attempt as its job accounts for it."""

    attempt: Ordinal
    status: Status
    reason_code: str
    reason: str
    infrastructure: Flag
    sha256: Sha256 | None


class Outcome(_Closed):
    """What one job says of its start."""

    schema_version: Literal["ep-campaign/outcome/1"] = Field(alias="schema")
    start: str
    status: Status
    attempts: tuple[OutcomeRow, ...] = Field(min_length=1)


def read_start(path: Path, where: str) -> StartFile:
    """A start's record.

    Raises:
        CampaignError: It is no JSON object, or not a record of this version (`bad_start`), with every field at fault.
    """
    return as_model(StartFile, read_object(path, where), "bad_start", where)


def read_outcome_file(path: Path, where: str) -> Outcome:
    """A job's outcome.

    Raises:
        CampaignError: It is no JSON object, or not an outcome of this version (`bad_outcome`).
    """
    return as_model(Outcome, read_object(path, where), "bad_outcome", where)
