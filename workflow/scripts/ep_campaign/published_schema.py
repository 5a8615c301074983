"""The file format of the published EP comparison (its summary, schema version 2), read strictly.

Source: awslabs/awsome-distributed-ai, pull request 1238. Field names are the file's own; an unknown field is refused,
because a number that this importer does not know may change what the known ones mean.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ep_campaign.errors import CampaignError, Refusal, refuse
from ep_campaign.stats.published_compat import BASELINES, CANDIDATE, PublishedArm, PublishedDtype, PublishedProfile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

LATENCY_METRIC = "slowest-rank latency in milliseconds"
THROUGHPUT_METRIC = "effective logical gigabytes per second per rank"
PrimaryMetric = Literal["slowest-rank latency in milliseconds", "effective logical gigabytes per second per rank"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ArmSummary(_Strict):
    """One arm in one cell: its starts and the numbers stated about them."""

    bootstrap_95_percent_ci_primary_value: tuple[Positive, Positive]
    median_aggregate_input_tokens_per_second: Positive
    median_effective_logical_gigabytes_per_second_per_rank: Positive
    median_effective_scaleout_logical_gigabytes_per_second_per_rank: Positive
    median_latency_ms: Positive
    median_primary_value: Positive
    num_sms_dimensionless: Count | None = None
    per_start_median_latency_ms: tuple[Positive, ...]
    per_start_primary_values: tuple[Positive, ...]
    primary_metric: PrimaryMetric
    run_indices_dimensionless: tuple[Count, ...]
    run_to_run_cv_percent: Annotated[float, Field(ge=0)]
    starts: Annotated[int, Field(ge=2)]


class ComparisonSummary(_Strict):
    """The candidate against one baseline in one cell."""

    bootstrap_95_percent_ci_improvement_percent: tuple[float, float]
    direction_supported: bool
    median_paired_improvement_percent: float
    paired_improvement_percent_per_start: tuple[float, ...]
    primary_metric: PrimaryMetric


class CellSummary(_Strict):
    """One row of the published tables."""

    arms: dict[PublishedArm, ArmSummary]
    comparisons: dict[str, ComparisonSummary]
    dispatch_dtype: PublishedDtype
    input_hash_sha256: Sha256
    primary_metric: PrimaryMetric
    route_hash_sha256: Sha256
    tokens_per_rank: Count
    workload_profile: PublishedProfile
    world_size_ranks: Count

    @property
    def name(self) -> str:
        """The cell's key in this project's words; the published route is always `affine`."""
        return f"ep{self.world_size_ranks}-{self.workload_profile}-affine-{self.dispatch_dtype}"


class ProfileSettings(_Strict):
    """What a profile fixes."""

    api_mode: str
    primary_metric: PrimaryMetric
    tokens_per_rank: Count


class Configuration(_Strict):
    """The declared matrix."""

    dispatch_dtypes: tuple[PublishedDtype, ...]
    experts_dimensionless: Count
    hidden_dimensions: Annotated[int, Field(ge=128, multiple_of=128)]
    measured_iterations_dimensionless: Count
    profiles: dict[PublishedProfile, ProfileSettings]
    top_k_dimensionless: Count
    warmup_iterations_dimensionless: Annotated[int, Field(ge=0)]
    world_sizes_ranks: tuple[Annotated[int, Field(ge=8, multiple_of=8)], ...]


class Provenance(_Strict):
    """Where and when it ran."""

    campaign_id: str
    cluster: str
    comparison: dict[str, Any]  # the configuration again, under other names; not used
    created_at_utc: str
    git_commit: str
    images: dict[PublishedArm, str]
    region: str


class Runtime(_Strict):
    """What all arms shared; `nccl_version` is the constant that torch was built with."""

    cuda_version: str
    gpu: str
    nccl_version: tuple[int, int, int]
    torch_version: str


class PublishedCampaign(_Strict):
    """One published summary."""

    bootstrap_samples_dimensionless: Count
    campaign_provenance: Provenance
    cells: tuple[CellSummary, ...]
    comparison_scope: str
    configuration: Configuration
    images: dict[PublishedArm, str]
    independent_starts_per_cell: Annotated[int, Field(ge=2)]
    loaded_nccl_versions_per_arm: dict[PublishedArm, tuple[int, int, int]] | None = None
    logical_payload_definition: str
    maximum_run_to_run_cv_percent_for_direction_support: Positive
    runtime: Runtime
    schema_version_dimensionless: Literal[2]
    scored_result_records_dimensionless: Count
    status: Literal["PASS"]
    timing_boundaries: dict[PublishedProfile, str]


def comparison_key(baseline: PublishedArm) -> str:
    """Key of the candidate's comparison with a baseline."""
    return f"{CANDIDATE}_vs_{baseline}"


def parse_published(text: str | bytes, where: str) -> PublishedCampaign:
    """Read a summary from its JSON text.

    Raises:
        CampaignError: With every refusal: `published_malformed` (not JSON, or a field missing, unknown or of the wrong
            kind), `published_matrix` (cells missing, extra or twice), `published_arms` (an arm or comparison missing or
            extra), `published_starts` (start counts or indices that disagree), `published_metric` (a primary metric
            that is not its profile's) or `published_tokens` (tokens per rank that are not its profile's).
    """
    try:
        campaign = PublishedCampaign.model_validate_json(text)
    except ValidationError as error:
        raise CampaignError(
            [
                Refusal(
                    "published_malformed",
                    f"{problem['msg']}; expected the published summary's schema version 2. Import the file unedited",
                    f"{where}: {'.'.join(map(str, problem['loc'])) or 'file'}",
                )
                for problem in error.errors(include_url=False)
            ]
        ) from error
    refusals = [*_matrix_refusals(campaign, where)]
    for cell in campaign.cells:
        refusals += _cell_refusals(campaign, cell, f"{where}: {cell.name}")
    if refusals:
        raise CampaignError(refusals)
    return campaign


def load_published(path: Path) -> PublishedCampaign:
    """Read a summary from a file; see `parse_published`.

    Raises:
        CampaignError: As `parse_published`, or `published_unreadable` where the file cannot be read.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        message = f"cannot read it ({error.strerror}); expected a published summary in JSON. Check the path"
        raise refuse("published_unreadable", message, str(path)) from error
    return parse_published(text, path.name)


def _matrix_refusals(campaign: PublishedCampaign, where: str) -> Iterator[Refusal]:
    declared = campaign.configuration
    wanted = set(product(declared.profiles, declared.world_sizes_ranks, declared.dispatch_dtypes))
    found = [(cell.workload_profile, cell.world_size_ranks, cell.dispatch_dtype) for cell in campaign.cells]
    if sorted(found) != sorted(wanted):
        names = [f"ep{world}-{profile}-{dtype}" for profile, world, dtype in sorted(found)]
        yield Refusal(
            "published_matrix",
            f"cells {', '.join(names) or 'none'}; expected each of the {len(wanted)} declared (profile x EP size x dtype) "
            "once. Import a complete summary",
            f"{where}: cells",
        )


def _cell_refusals(campaign: PublishedCampaign, cell: CellSummary, where: str) -> Iterator[Refusal]:
    keys = {comparison_key(baseline) for baseline in BASELINES}
    if set(cell.arms) != set(PublishedArm) or set(cell.comparisons) != keys:
        yield Refusal(
            "published_arms",
            f"arms {sorted(cell.arms)}, comparisons {sorted(cell.comparisons)}; expected {sorted(PublishedArm)} and "
            f"{sorted(keys)}. Import a complete summary",
            where,
        )
    settings = campaign.configuration.profiles.get(cell.workload_profile)
    if settings and cell.tokens_per_rank != settings.tokens_per_rank:
        yield Refusal(
            "published_tokens",
            f"{cell.tokens_per_rank} tokens per rank; expected {settings.tokens_per_rank}, as its profile declares. "
            "Import the file unedited",
            where,
        )
    metrics = {cell.primary_metric}
    metrics |= {summary.primary_metric for summary in cell.arms.values()}
    metrics |= {comparison.primary_metric for comparison in cell.comparisons.values()}
    if settings and metrics != {settings.primary_metric}:
        yield Refusal(
            "published_metric",
            f"primary metrics {sorted(metrics)}; expected only {settings.primary_metric!r}, as its profile declares. "
            "Import the file unedited",
            where,
        )
    yield from _start_refusals(campaign.independent_starts_per_cell, cell, where)


def _start_refusals(num_starts: int, cell: CellSummary, where: str) -> Iterator[Refusal]:
    indices = tuple(range(1, num_starts + 1))
    for arm, summary in cell.arms.items():
        lengths = {len(summary.per_start_median_latency_ms), len(summary.per_start_primary_values), summary.starts}
        if lengths != {num_starts} or summary.run_indices_dimensionless != indices:
            yield Refusal(
                "published_starts",
                f"start counts {sorted(lengths)}, run indices {summary.run_indices_dimensionless}; expected {num_starts} "
                f"starts numbered 1 to {num_starts}, which pair the arms. Import the file unedited",
                f"{where}: {arm}",
            )
    for key, comparison in cell.comparisons.items():
        if len(comparison.paired_improvement_percent_per_start) != num_starts:
            yield Refusal(
                "published_starts",
                f"{len(comparison.paired_improvement_percent_per_start)} paired improvements; expected {num_starts}. "
                "Import the file unedited",
                f"{where}: {key}",
            )
