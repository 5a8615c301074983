"""Published EP comparisons, recomputed from their own per-start values and judged by this project's statistics.

`recompute_arm` and `recompute_contrast` give the numbers that the file states; `mismatches` says where they differ, and
`side_by_side` sets them beside the exact verdicts on the same starts.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.published_schema import THROUGHPUT_METRIC, comparison_key
from ep_campaign.stats.bootstrap import true_coverage_note
from ep_campaign.stats.judge import CellRounds, Judgement, judge
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.published_compat import (
    BASELINES,
    CANDIDATE,
    PublishedArm,
    PublishedDtype,
    arm_seed,
    bootstrap_median_interval,
    cv_percent,
    direction_supported,
    order_position,
    paired_improvements_percent,
    paired_seed,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.published_schema import CellSummary, PublishedCampaign
    from ep_campaign.stats.verdict import Rules

GPUS_PER_NODE = 8
FP8_SCALE_BLOCK = 128
FP8_SCALE_BYTES = 4
BF16_BYTES = 2

_RELATIVE_TOLERANCE = 1e-12
"""The published validator's own; a digit lost in another order of multiplication is no mismatch."""


@dataclass(frozen=True)
class ArmNumbers:
    """The published summary of one arm in one cell, recomputed; names and units are the file's."""

    per_start_primary_values: tuple[float, ...]
    median_latency_ms: float
    median_primary_value: float
    bootstrap_95_percent_ci_primary_value: tuple[float, float]
    run_to_run_cv_percent: float
    median_aggregate_input_tokens_per_second: float
    median_effective_logical_gigabytes_per_second_per_rank: float
    median_effective_scaleout_logical_gigabytes_per_second_per_rank: float


@dataclass(frozen=True)
class ContrastNumbers:
    """The published comparison of the candidate with one baseline, recomputed; names and units are the file's."""

    paired_improvement_percent_per_start: tuple[float, ...]
    median_paired_improvement_percent: float
    bootstrap_95_percent_ci_improvement_percent: tuple[float, float]
    direction_supported: bool


@dataclass(frozen=True)
class Mismatch:
    """A stated number that does not follow from the file's own per-start values."""

    where: str
    field: str
    stated: object
    recomputed: object


@dataclass(frozen=True)
class SideBySide:
    """One contrast, as published and as judged here.

    Attributes:
        cell: The cell's key.
        arm: Compared with the reference.
        reference: The reference arm, which need not be a published baseline.
        arm_numbers: Published summary of the arm.
        reference_numbers: Published summary of the reference.
        published: The published comparison of these two arms, always the candidate's improvement over a baseline
            whichever is `arm`; None where they were not compared.
        coverage_note: What the published 95 % intervals cover in truth.
        judgement: The exact verdict, over the family of every arm against the reference in every cell.
    """

    cell: str
    arm: PublishedArm
    reference: PublishedArm
    arm_numbers: ArmNumbers
    reference_numbers: ArmNumbers
    published: ContrastNumbers | None
    coverage_note: str
    judgement: Judgement


def logical_payload_bytes(tokens_per_rank: int, top_k: int, hidden: int, dtype: PublishedDtype) -> int:
    """Published byte numerator per rank: each selection dispatched (FP8 with its scales) and combined in BF16."""
    dispatch = hidden * BF16_BYTES
    if dtype is PublishedDtype.FP8:
        dispatch = hidden + hidden // FP8_SCALE_BLOCK * FP8_SCALE_BYTES
    return tokens_per_rank * top_k * (dispatch + hidden * BF16_BYTES)


def recompute_arm(campaign: PublishedCampaign, cell: CellSummary, arm: PublishedArm) -> ArmNumbers:
    """The published summary of an arm, from its per-start latencies and primary values."""
    summary = cell.arms[arm]
    shape = campaign.configuration
    payload = logical_payload_bytes(
        cell.tokens_per_rank, shape.top_k_dimensionless, shape.hidden_dimensions, cell.dispatch_dtype
    )
    nodes = cell.world_size_ranks // GPUS_PER_NODE
    times_s = [latency / 1e3 for latency in summary.per_start_median_latency_ms]
    rates = [payload / time / 1e9 for time in times_s]
    throughput = cell.primary_metric == THROUGHPUT_METRIC
    seed = arm_seed(cell.workload_profile, cell.world_size_ranks, cell.dispatch_dtype, arm)
    values = summary.per_start_primary_values
    return ArmNumbers(
        per_start_primary_values=tuple(rates) if throughput else summary.per_start_median_latency_ms,
        median_latency_ms=statistics.median(summary.per_start_median_latency_ms),
        median_primary_value=statistics.median(values),
        bootstrap_95_percent_ci_primary_value=bootstrap_median_interval(
            values, seed, campaign.bootstrap_samples_dimensionless
        ),
        run_to_run_cv_percent=cv_percent(values),
        # Medians of per-start rates, not rates of the median: they differ at even n.
        median_aggregate_input_tokens_per_second=statistics.median(
            cell.world_size_ranks * cell.tokens_per_rank / time for time in times_s
        ),
        median_effective_logical_gigabytes_per_second_per_rank=statistics.median(rates),
        # The affine route sends every token evenly over all nodes, so the share that leaves a node is exact.
        median_effective_scaleout_logical_gigabytes_per_second_per_rank=statistics.median(rates) * (nodes - 1) / nodes,
    )


def recompute_contrast(campaign: PublishedCampaign, cell: CellSummary, baseline: PublishedArm) -> ContrastNumbers:
    """The published comparison of the candidate with a baseline, from their per-start primary values."""
    candidate_values = cell.arms[CANDIDATE].per_start_primary_values
    baseline_values = cell.arms[baseline].per_start_primary_values
    improvements = paired_improvements_percent(
        candidate_values, baseline_values, higher_is_better=cell.primary_metric == THROUGHPUT_METRIC
    )
    seed = paired_seed(cell.workload_profile, cell.world_size_ranks, baseline)
    interval = bootstrap_median_interval(improvements, seed, campaign.bootstrap_samples_dimensionless)
    cvs = (cv_percent(candidate_values), cv_percent(baseline_values))
    limit = campaign.maximum_run_to_run_cv_percent_for_direction_support
    return ContrastNumbers(
        paired_improvement_percent_per_start=improvements,
        median_paired_improvement_percent=statistics.median(improvements),
        bootstrap_95_percent_ci_improvement_percent=interval,
        direction_supported=direction_supported(cvs, interval, limit),
    )


def mismatches(campaign: PublishedCampaign) -> tuple[Mismatch, ...]:
    """Every stated number that its own starts do not give; empty for a file that is consistent."""
    return tuple(found for cell in campaign.cells for found in _cell_mismatches(campaign, cell))


def _cell_mismatches(campaign: PublishedCampaign, cell: CellSummary) -> Iterator[Mismatch]:
    for arm, summary in cell.arms.items():
        numbers = recompute_arm(campaign, cell, arm)
        yield from _differences(f"{cell.name}: {arm}", summary.model_dump(), asdict(numbers))
    for baseline in BASELINES:
        key = comparison_key(baseline)
        contrast = recompute_contrast(campaign, cell, baseline)
        yield from _differences(f"{cell.name}: {key}", cell.comparisons[key].model_dump(), asdict(contrast))


def _differences(where: str, stated: dict[str, object], recomputed: dict[str, object]) -> Iterator[Mismatch]:
    for name, value in recomputed.items():
        if not np.allclose(np.asarray(stated[name]), np.asarray(value), rtol=_RELATIVE_TOLERANCE, atol=0):
            yield Mismatch(where, name, stated[name], value)


def cell_rounds(cell: CellSummary, reference: PublishedArm) -> CellRounds:
    """A cell's latencies as rounds: start i of every arm is round i, in the order that the harness ran them."""
    arms = tuple(PublishedArm)
    indices = cell.arms[reference].run_indices_dimensionless
    return CellRounds(
        name=cell.name,
        arms=arms,
        reference=reference,
        values=np.array([cell.arms[arm].per_start_median_latency_ms for arm in arms]).T,
        positions=np.array([[order_position(index, arm) for arm in arms] for index in indices]),
    )


def side_by_side(
    campaign: PublishedCampaign,
    *,
    reference: PublishedArm = PublishedArm.UCCL,
    test: PairedTest = PairedTest.SIGNED_RANK,
    rules: Rules | None = None,
) -> tuple[SideBySide, ...]:
    """Every contrast against `reference`, as published and as judged here on latency, in the file's order of cells."""
    judgements = judge([cell_rounds(cell, reference) for cell in campaign.cells], test=test, rules=rules)
    cells = {cell.name: cell for cell in campaign.cells}
    numbers = {(cell.name, arm): recompute_arm(campaign, cell, arm) for cell in campaign.cells for arm in PublishedArm}
    rows = []
    for judgement in judgements:
        arm = PublishedArm(judgement.arm)
        baselines = {arm, reference} - {CANDIDATE}
        compared = len(baselines) == 1
        rows.append(
            SideBySide(
                cell=judgement.cell,
                arm=arm,
                reference=reference,
                arm_numbers=numbers[judgement.cell, arm],
                reference_numbers=numbers[judgement.cell, reference],
                published=recompute_contrast(campaign, cells[judgement.cell], *baselines) if compared else None,
                coverage_note=true_coverage_note(campaign.independent_starts_per_cell),
                judgement=judgement,
            )
        )
    return tuple(rows)
