"""Levels: what each arm takes in each cell, over its starts; and each arm over EP sizes."""

from __future__ import annotations

import json
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

from ep_campaign.analysis.matrix import cell_parts
from ep_campaign.stats.median import MedianInterval, cv, median_interval
from ep_campaign.stats.printable import SUMMARY_MIN_N, printable
from ep_campaign.stats.within_start import UNSTEADY_SHARE
from ep_campaign.summary import EpAxis, EpPoint, Interval, Level, Unsupported
from ep_worker.contract.accounting import CONVENTIONS
from ep_worker.contract.capabilities import placements
from ep_worker.contract.terms import Dtype, Loop

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ep_campaign.analysis.matrix import Matrix, Where
    from ep_campaign.analysis.rows import Record
    from ep_campaign.plan import Plan

NS_PER_US = 1e3
PHASES = ("layout", "dispatch", "combine")


def start_values_us(records: Iterable[Record]) -> list[float]:
    """The value of each start [us]: what every statistic over starts is made from."""
    return [record.median_ns / NS_PER_US for record in records if record.median_ns is not None]


def unsupported_rows(plan: Plan) -> tuple[Unsupported, ...]:
    """What the plan rejected, with its reasons, in the plan's order."""
    return tuple(Unsupported(**row) for row in plan.document["rejected"])


def make_levels(matrix: Matrix) -> tuple[Level, ...]:
    """Every series of every arm, also those without a single start."""
    return tuple(_level(matrix, where, arm) for where, arm in matrix.series)


def _level(matrix: Matrix, where: Where, arm: str) -> Level:
    plan, series = matrix.plan, matrix.series[(where, arm)]
    ep_size, profile, route, dtype = cell_parts(where.cell)
    declared = plan.document["arms"][arm]
    placed: dict[str, Any] = placements(plan.capability(arm, profile), Dtype(dtype), where.boundary)
    found = matrix.ok(where, arm)
    return Level(
        cell=where.cell,
        ep_size=ep_size,
        profile=profile,
        route=route,
        dtype=Dtype(dtype),
        boundary=where.boundary,
        mode=where.mode,
        loop=where.loop,
        arm=arm,
        primary=matrix.is_primary(where),
        backend=declared["backend"],
        api_mode=declared["api_modes"][profile],
        same_as=series.same_as,
        **placed,
        iterations=series.iterations,
        warmups=series.warmups,
        chain_length=series.chain_length,
        num_rounds=plan.num_rounds[ep_size],
        rounds=tuple(found),
        late_rounds=tuple(number for number, record in found.items() if record.late),
        missing=tuple(matrix.missing(where, arm)),
        **_over_starts(list(found.values()), plan.document["family"]["alpha"]),
        **_inside_starts(found, where.loop),
    )


def _over_starts(records: Sequence[Record], alpha: float) -> dict[str, Any]:
    """Median, interval and range of the start values."""
    values = start_values_us(records)
    shown = printable(len(values), 1, alpha)
    whole = median_interval(values, 1 - alpha) if values else None
    return {
        "values_us": tuple(values),
        "median_us": whole.center if whole else None,
        "interval_us": _interval(whole) if whole else None,
        "min_us": whole.minimum if whole else None,
        "max_us": whole.maximum if whole else None,
        "cv": cv(values) if shown.intervals else None,
        "printable": shown,
        "warnings": whole.warnings if whole else ("no start has a value",),
    }


def _interval(found: MedianInterval) -> Interval | None:
    if found.lo is None or found.hi is None or found.level is None:
        return None
    return Interval(lo=found.lo, hi=found.hi, level=found.level)


def _inside_starts(found: dict[int, Record], loop: Loop) -> dict[str, Any]:
    """Phases, tails, spikes and covariates: medians over starts of what each start says of itself."""
    records = list(found.values())
    whole = loop is Loop.ROUNDTRIP
    slowest = Counter(record.slowest_rank_mode for record in records if record.slowest_rank_mode is not None)
    return {
        "layout_us": _median_us(record.layout_median_ns for record in records),
        "dispatch_us": _median_us(record.dispatch_median_ns for record in records),
        "combine_us": _median_us(record.combine_median_ns for record in records),
        "phase_values_us": _phase_values(records) if len(records) < SUMMARY_MIN_N else {},
        "p90_us": _tail_us([record.p90_ns for record in records]),
        "p95_us": _tail_us([record.p95_ns for record in records]),
        "p99_us": _tail_us([record.p99_ns for record in records]),
        "input_tokens_per_second": _median(record.input_tokens_per_second for record in records) if whole else None,
        "logical_gb_per_s_per_rank": _bandwidths(records, whole),
        "num_spikes_all_ranks": sum(record.num_spikes_all_ranks or 0 for record in records),
        "num_spikes_one_rank": sum(record.num_spikes_one_rank or 0 for record in records),
        "unsteady_rounds": tuple(number for number, record in found.items() if _unsteady(record)),
        "slowest_rank": min(slowest, key=lambda rank: (-slowest[rank], rank)) if slowest else None,
        "slowest_rank_share": _median(record.slowest_rank_share for record in records),
        "timer_floor_us": _median_us(record.timer_floor_ns for record in records),
        "resolved": _resolved(records),
        "max_token_error": max(
            (
                error
                for record in records
                for error in (record.max_token_error_before, record.max_token_error_after)
                if error is not None
            ),
            default=None,
        ),
        "tolerance": max((record.tolerance for record in records if record.tolerance is not None), default=None),
    }


def _median(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return float(median(present)) if present else None


def _median_us(values: Iterable[float | None]) -> float | None:
    found = _median(values)
    return None if found is None else found / NS_PER_US


def _phase_values(records: Sequence[Record]) -> dict[str, tuple[float, ...]]:
    """Of each phase that every start has, the starts' own medians [us]."""
    found = {name: [getattr(record, f"{name}_median_ns") for record in records] for name in PHASES}
    return {name: tuple(ns / NS_PER_US for ns in times) for name, times in found.items() if times and None not in times}


def _tail_us(values: Sequence[float | None]) -> float | None:
    """A percentile of starts only where every start has it."""
    return None if None in values else _median_us(values)


def _resolved(records: Sequence[Record]) -> tuple[dict[str, Any], ...]:
    """Distinct answers; aggregation writes equal ones alike."""
    return tuple(json.loads(text) for text in dict.fromkeys(record.resolved for record in records) if text is not None)


def _bandwidths(records: Sequence[Record], whole: bool) -> dict[str, float]:
    found = {name: _median(record.logical_gb_per_s_per_rank(name) for record in records) for name in CONVENTIONS}
    return {name: value for name, value in found.items() if value is not None} if whole else {}


def _unsteady(record: Record) -> bool:
    first, second = record.first_half_median_ns, record.second_half_median_ns
    return first is not None and second is not None and abs(second / first - 1) > UNSTEADY_SHARE


def make_ep_axes(levels: Iterable[Level]) -> tuple[EpAxis, ...]:
    """Each arm over EP sizes, at the primary boundary and mode; an axis needs two sizes with a start."""
    groups: dict[tuple[str, str, Dtype, str], list[Level]] = {}
    for level in levels:
        if level.primary and level.rounds:
            groups.setdefault((level.profile, level.route, level.dtype, level.arm), []).append(level)
    axes = []
    for (profile, route, dtype, arm), found in groups.items():
        points = tuple(
            EpPoint(
                ep_size=level.ep_size,
                num_starts=len(level.rounds),
                median_us=level.median_us,
                interval_us=level.interval_us,
                input_tokens_per_second=level.input_tokens_per_second,
            )
            for level in sorted(found, key=lambda level: level.ep_size)
            if level.median_us is not None and level.input_tokens_per_second is not None
        )
        if len(points) > 1:
            axes.append(EpAxis(profile=profile, route=route, dtype=dtype, arm=arm, points=points))
    return tuple(axes)
