"""A published elastic study as data: its sweeps and resizes, to stand beside our own figures.

The file format is ours; the figures are the publisher's, at their own precision. What was not stated is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ep_campaign.jsonfile import as_model, read_object

if TYPE_CHECKING:
    from pathlib import Path

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PublishedLevel(_Strict):
    """One cell of one sweep; `arm` is the transport."""

    arm: str
    width: Count
    num_gpus: Count
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
    """One live resize from width 2 to 4; times from the patch, each to the precision of the publisher's sampling."""

    arm: str
    run: str
    concurrency: Count | None
    num_requests: Count
    num_ok: Count
    num_restarts: Count | None
    num_client_503: Count | None
    num_health_503: Count | None
    load_s: Positive
    pods_created_s: Positive | None
    ray_registered_s: Positive | None
    role_ready_s: Positive | None
    phase_check_s: Positive | None
    note: str


class LedgerLine(_Strict):
    """Completion lines that the publisher's server had logged, and what they are made of."""

    when: str
    completion_lines: Count
    made_of: str


class PublishedLoad(_Strict):
    """What the study's requests asked for, and what its deployment admitted."""

    prompt_tokens: Count
    observed_prompt_tokens: tuple[Count, Count]
    max_tokens: Count
    num_warmups: Count
    max_num_seqs: Count
    gpus_per_width: Count


class Study(_Strict):
    """A whole published study."""

    schema_version: Literal["ep-campaign/published-elastic/1"] = Field(alias="schema")
    source: str
    environment: dict[str, str]
    prompt: PublishedLoad
    levels: tuple[PublishedLevel, ...]
    resizes: tuple[PublishedResize, ...]
    ledger: tuple[LedgerLine, ...]
    caveats: tuple[str, ...]

    def level(self, arm: str, width: int, concurrency: int) -> PublishedLevel | None:
        """The figures of one cell; None where the study has none."""
        found = [one for one in self.levels if (one.arm, one.width, one.concurrency) == (arm, width, concurrency)]
        return found[0] if found else None

    def is_queue_bound(self, level: PublishedLevel) -> bool:
        """Whether more requests were in flight than the deployment admitted: their first tokens waited for a slot."""
        return level.concurrency > self.prompt.max_num_seqs * level.width


def read_study(path: Path) -> Study:
    """Reads a published elastic study.

    Raises:
        CampaignError: `bad_published_study`, once for each field that is missing, unknown or wrong.
    """
    return as_model(Study, read_object(path, str(path)), "bad_published_study", str(path))
