"""A published elastic study as data: its sweeps and resizes, to stand beside our own figures.

The file format is ours; the figures are the publisher's, at their own precision. What was not stated is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ep_campaign.jsonfile import as_model, read_object

if TYPE_CHECKING:
    from pathlib import Path

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]
SCHEMA = "ep-campaign/published-elastic/1"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PublishedSweep(_Strict):
    """One cell of one sweep; `suite` is the publisher's word for the transport."""

    suite: str
    width: Count
    gpus: Count
    concurrency: Count
    num_requests: Count
    num_ok: Count
    ttft_p50_ms: Positive
    ttft_p95_ms: Positive | None
    tpot_p50_ms: Positive | None
    itl_p50_ms: Positive
    itl_p99_ms: Positive
    e2e_p50_ms: Positive | None
    output_tokens_per_s: Positive


class PublishedResize(_Strict):
    """One live resize; times from the patch, each to the precision of the publisher's sampling."""

    suite: str
    old_width: Count
    new_width: Count
    concurrency: Count
    num_requests: Count
    num_errors: Count
    duration_s: Positive
    pods_created_s: Positive | None
    ray_registered_s: Positive | None
    roles_ready_s: Positive | None
    withdrawal_at_most_s: Positive | None
    num_server_503: Count | None
    sampling_s: tuple[Positive, Positive] | None


class Timer(_Strict):
    """A published time that measures something else than convergence."""

    suite: str
    value_s: Positive
    what: str


class Source(_Strict):
    """Where the figures come from."""

    title: str
    publisher: str
    path: str
    note: str


class RequestLedger(_Strict):
    """Completion lines that the publisher's server logged, and what they are made of."""

    completions_before_wide_tcp: Count
    completions_after_wide_tcp: Count
    completions_final_rdma: Count
    measured_a_state: Count
    warmups_a_state: Count
    calibration: Count


class Study(_Strict):
    """A whole published study."""

    schema_version: Literal["ep-campaign/published-elastic/1"] = Field(alias="schema")
    source: Source
    environment: dict[str, Any]
    suites: dict[str, dict[str, Any]]
    sweeps: tuple[PublishedSweep, ...]
    resizes: tuple[PublishedResize, ...]
    timers_that_measure_something_else: tuple[Timer, ...]
    ledger: RequestLedger

    def cell(self, suite: str, width: int, concurrency: int) -> PublishedSweep | None:
        """The figures of one cell; None where the study has none."""
        found = [one for one in self.sweeps if (one.suite, one.width, one.concurrency) == (suite, width, concurrency)]
        return found[0] if found else None

    def num_slots(self, width: int) -> int:
        """Sequences that the study's deployment admitted at a width."""
        return int(self.environment["max_num_seqs"]) * width

    def is_queue_bound(self, cell: PublishedSweep) -> bool:
        """Whether more requests were in flight than the deployment admitted: their first tokens waited for a slot."""
        return cell.concurrency > self.num_slots(cell.width)


def read_study(path: Path) -> Study:
    """Reads a published elastic study.

    Raises:
        CampaignError: `bad_published_study`, once for each field that is missing, unknown or wrong.
    """
    return as_model(Study, read_object(path, str(path)), "bad_published_study", str(path))
