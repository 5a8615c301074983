"""The summary statistics of the published EP comparison, to the last digit, so that its tables can be checked.

Source: awslabs/awsome-distributed-ai, pull request 1238 (micro-benchmarks/expert-parallelism/ep-backend-comparison).
These numbers are reproduced, not endorsed: its intervals are percentile bootstraps whose nominal 95 % is [minimum,
maximum] below 6 starts (true coverage 75 % at 3), its seeds collide (fp8 of one arm is bf16 of the arm before), and 8
to 16 intervals are read without regard to their number. `contrast` and `judge` are what this project claims by.
"""

from __future__ import annotations

import random
import statistics
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

PUBLISHED_RESAMPLES = 20_000
_ARM_SEED = 20_260_824
_PAIRED_SEED = 20_260_900


class PublishedArm(StrEnum):
    """The arms compared, in the order that its seeds count them."""

    UCCL = "uccl"
    DEEPEP_V1 = "deepep-v1-nvshmem"
    DEEPEP_V2 = "deepep-v2-gin-gda"


class PublishedProfile(StrEnum):
    """The workload shapes, in the order that its seeds count them."""

    DECODE = "decode"
    PREFILL = "prefill"


class PublishedDtype(StrEnum):
    """Dispatch dtypes; combine is always bf16."""

    FP8 = "fp8"
    BF16 = "bf16"


CANDIDATE = PublishedArm.DEEPEP_V2
"""The arm that all its paired improvements are about."""

BASELINES = (PublishedArm.UCCL, PublishedArm.DEEPEP_V1)

_ORDER_PATTERNS = (
    (PublishedArm.UCCL, PublishedArm.DEEPEP_V1, PublishedArm.DEEPEP_V2),
    (PublishedArm.DEEPEP_V2, PublishedArm.UCCL, PublishedArm.DEEPEP_V1),
    (PublishedArm.DEEPEP_V1, PublishedArm.DEEPEP_V2, PublishedArm.UCCL),
)


def order_position(run_index: int, arm: PublishedArm) -> int:
    """Position (0..2) of an arm in a start: three of the six orders, in turn from start 1."""
    return _ORDER_PATTERNS[(run_index - 1) % len(_ORDER_PATTERNS)].index(arm)


def arm_seed(profile: PublishedProfile, world_size: int, dtype: PublishedDtype, arm: PublishedArm) -> int:
    """Seed of the bootstrap of one arm in one cell."""
    return (
        _ARM_SEED
        + 1000 * list(PublishedProfile).index(profile)
        + world_size
        + len(dtype)
        + list(PublishedArm).index(arm)
    )


def paired_seed(profile: PublishedProfile, world_size: int, baseline: PublishedArm) -> int:
    """Seed of the bootstrap of the paired improvements over one baseline (the same for both dtypes)."""
    return _PAIRED_SEED + 1000 * list(PublishedProfile).index(profile) + world_size + BASELINES.index(baseline)


def percentile(ordered: Sequence[float], probability: float) -> float:
    """Linear interpolation between the two nearest of sorted values.

    The weighted sum is kept as published: between equal neighbours it may differ from them in the last digit.
    """
    position = (len(ordered) - 1) * probability
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    share = position - below
    return ordered[below] * (1 - share) + ordered[above] * share


def bootstrap_median_interval(
    values: Sequence[float], seed: int, resamples: int = PUBLISHED_RESAMPLES
) -> tuple[float, float]:
    """Its 95 % interval: percentiles of the medians of `random.Random(seed).choices` resamples."""
    rng = random.Random(seed)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(resamples))
    return percentile(medians, 0.025), percentile(medians, 0.975)


def cv_percent(values: Sequence[float]) -> float:
    """Sample standard deviation over the mean [%]."""
    return statistics.stdev(values) / statistics.fmean(values) * 100


def paired_improvements_percent(
    candidate: Sequence[float], baseline: Sequence[float], *, higher_is_better: bool
) -> tuple[float, ...]:
    """Improvement of the candidate over the baseline, start by start [% of the baseline]; positive is better."""
    pairs = zip(candidate, baseline, strict=True)
    if higher_is_better:
        return tuple((new - old) / old * 100 for new, old in pairs)
    return tuple((old - new) / old * 100 for new, old in pairs)


def direction_supported(cvs_percent: Iterable[float], interval: tuple[float, float], cv_limit_percent: float) -> bool:
    """Its gate: every arm's CV within the limit, and an interval of the improvement that excludes 0."""
    return all(cv <= cv_limit_percent for cv in cvs_percent) and (interval[0] > 0 or interval[1] < 0)
