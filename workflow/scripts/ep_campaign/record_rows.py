"""From an attempt to its rows: what `records` and `attempts` say of it.

Legend: S samples, R ranks, P phases.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ep_campaign.stats.tails import iterations_for_bound
from ep_campaign.stats.within_start import SPIKE_RATIO, within_start
from ep_worker.contract.accounting import CONVENTIONS
from ep_worker.contract.canonical import canonical_json
from ep_worker.contract.terms import Loop, Phase, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from ep_campaign.startfile import Record, StartFile
    from ep_campaign.validate.attempt import Attempt

_TAILS = (("p90_ns", 0.9), ("p95_ns", 0.95), ("p99_ns", 0.99))
_SPLIT = (Phase.LAYOUT, Phase.DISPATCH, Phase.COMBINE)

_SAME_NAMES = (
    *("cell", "route", "dtype", "boundary", "mode", "loop", "same_as", "status", "reason_code", "reason"),
    *("cast_placement", "permute_placement", "weight_placement", "iterations", "warmups", "chain_length"),
)
"""Columns that are fields of a record as they stand."""


def attempt_row(attempt: Attempt, *, late: bool) -> dict[str, Any]:
    """The row of `attempts`."""
    record, launcher = attempt.record, attempt.record.launcher or {}
    failed = next((r for r in record.records if r.status is record.status is not Status.OK), None)
    controller, clock = record.controller or {}, record.clock
    return {
        **_place(attempt, late),
        "status": record.status.value,
        "reason_code": record.reason_code if failed is None else failed.reason_code,
        "reason": record.reason if failed is None else failed.reason,
        "infrastructure": record.infrastructure,
        "teardown": record.teardown,
        "began_utc": None if clock is None else clock.began_utc,
        "ended_utc": None if clock is None else clock.ended_utc,
        "seconds": None if clock is None else clock.seconds,
        **_gang_seconds(launcher),
        "launcher_outcome": _text(launcher.get("outcome")),
        "hostnames": _hostnames(record),
        "image": record.image,
        "worker_digest": ",".join(record.worker_digests) or None,
        "git_commit": _text(controller.get("git_commit")),
        "git_dirty": controller["git_dirty"] if isinstance(controller.get("git_dirty"), bool) else None,
        "provenance": canonical_json(record.provenance) if record.provenance else None,
    }


def _gang_seconds(launcher: Mapping[str, Any]) -> dict[str, float | None]:
    """What the place added to what the ranks needed, on the controller's clock alone [s]; None where it got no further."""
    seconds = (launcher.get("gang") or {}).get("seconds") or {}
    whole = "ended" in seconds and "gone" in seconds
    return {
        "gang_start_seconds": seconds.get("started"),
        "gang_end_seconds": round(seconds["gone"] - seconds["ended"], 3) if whole else None,
    }


def record_rows(attempt: Attempt, times: dict[tuple[str, ...], npt.NDArray[np.int64]], *, late: bool) -> Iterator[Any]:
    """The rows of `records`.

    Args:
        attempt: The attempt.
        times: Raw times [S, R, P] of each measured ok series, by its key.
        late: Whether it counts and came late.
    """
    record = attempt.record
    same = {
        "campaign": record.campaign,
        **_place(attempt, late),
        "backend": attempt.spec.arm.backend,
        "api_mode": attempt.spec.arm.api_mode.value,
        "image": record.image,
        "hostnames": _hostnames(record),
        "timer_floor_ns": _timer_floor_ns(record),
    }
    figures: dict[tuple[str, ...], dict[str, Any]] = {}
    for item in record.records:
        row = {**same, **_series(item)}
        if item.status is Status.OK:
            own = (
                item.key if item.same_as is None else (item.cell, item.same_as.value, item.mode.value, item.loop.value)
            )
            if item.same_as is None:
                figures[own] = _figures(item, times[own]) | _bytes(item, record.ep_size) | _oracle(item)
            row |= figures[own]
        yield row


def _place(attempt: Attempt, late: bool) -> dict[str, Any]:
    record = attempt.record
    return {
        "start": record.start,
        "attempt": record.attempt,
        "sequence": record.sequence,
        "late": late,
        "scored": attempt.scored,
        "position": record.position,
        "order_position": record.order_position,
        "round": record.round,
        "ep_size": record.ep_size,
        "profile": record.profile,
        "arm": record.arm,
    }


def _series(item: Record) -> dict[str, Any]:
    values = {name: getattr(item, name) for name in _SAME_NAMES}
    return {name: getattr(value, "value", value) for name, value in values.items()}


def _figures(item: Record, times_SRP: npt.NDArray[np.int64]) -> dict[str, Any]:
    """Derived figures of one measured series [ns], for one round-trip (or one phase)."""
    assert item.latency is not None
    whole_SR = times_SRP[:, :, -1]
    largest_S = whole_SR.max(axis=1)
    slowest_S = largest_S / (item.chain_length or 1)
    num_samples, half = len(slowest_S), len(slowest_S) // 2
    sorted_S = np.sort(slowest_S)
    lowest_slowest_S = (whole_SR == largest_S[:, None]).argmax(axis=1)
    times_slowest_R = np.bincount(lowest_slowest_S, minlength=whole_SR.shape[1])
    all_ranks, one_rank = _spikes(whole_SR, slowest_S, item.latency.median_ns)
    phase_median = item.latency.phase_median_ns
    return {
        "num_samples": num_samples,
        "median_ns": item.latency.median_ns,
        "mean_ns": item.latency.mean_ns,
        "min_ns": item.latency.min_ns,
        "max_ns": item.latency.max_ns,
        **{name: _quantile(sorted_S, q) if num_samples >= iterations_for_bound(q) else None for name, q in _TAILS},
        "iteration_sd_log": _standard_deviation(np.log(slowest_S)) if half else None,
        **{f"{phase.value}_median_ns": phase_median.get(phase) for phase in _SPLIT},
        "first_half_median_ns": _quantile(np.sort(slowest_S[:half]), 0.5) if half else None,
        "second_half_median_ns": _quantile(np.sort(slowest_S[-half:]), 0.5) if half else None,
        "num_spikes_all_ranks": all_ranks,
        "num_spikes_one_rank": one_rank,
        "slowest_rank_mode": int(times_slowest_R.argmax()),
        "slowest_rank_share": float(times_slowest_R.max() / num_samples),
        "input_tokens_per_second": item.latency.input_tokens_per_second if item.loop is Loop.ROUNDTRIP else None,
        "resolved": canonical_json(item.resolved),
    }


def _quantile(sorted_S: npt.NDArray[np.float64], quantile: float) -> float:
    """A quantile of sorted values, interpolated linearly between two of them."""
    place = quantile * (len(sorted_S) - 1)
    lower = int(place)
    upper = min(lower + 1, len(sorted_S) - 1)
    return float(sorted_S[lower] + (place - lower) * (sorted_S[upper] - sorted_S[lower]))


def _standard_deviation(values_S: npt.NDArray[np.float64]) -> float:
    """Of at least two values, with n - 1; numpy's own takes five times as long for a few hundred."""
    differences_S = values_S - values_S.sum() / len(values_S)
    return math.sqrt(float(differences_S @ differences_S) / (len(values_S) - 1))


def _spikes(whole_SR: npt.NDArray[np.int64], slowest_S: npt.NDArray[np.float64], median_ns: float) -> tuple[int, int]:
    """Samples that spike on most ranks, and on at most half of them; most series have none, and that costs nothing."""
    if len(slowest_S) < 2 or slowest_S.max() <= SPIKE_RATIO * median_ns:
        return 0, 0
    flags = within_start(whole_SR)
    return len(flags.system_wide_spikes), len(flags.single_rank_spikes)


def _bytes(item: Record, ep_size: int) -> dict[str, Any]:
    """Bytes of a round-trip in each convention, and the rate that they would give."""
    table = item.payload_bytes or {}
    if item.loop is not Loop.ROUNDTRIP or item.latency is None or set(table) != set(CONVENTIONS):
        return {}
    row: dict[str, Any] = {"rank_max_remote_bytes": table["rank_deduplicated"]["rank_max_remote"]}
    for name in CONVENTIONS:
        total = table[name]["dispatch_all"] + table[name]["combine_all"]
        row[f"{name}_all_bytes"] = total
        row[f"{name}_remote_bytes"] = table[name]["dispatch_remote"] + table[name]["combine_remote"]
        row[f"{name}_logical_gb_per_s_per_rank"] = total / ep_size / item.latency.median_ns
    return row


def _oracle(item: Record) -> dict[str, Any]:
    oracle = item.oracle
    if oracle is None or oracle.before is None or oracle.after is None:
        return {}
    return {
        "max_token_error_before": oracle.before.max_token_error,
        "max_token_error_after": oracle.after.max_token_error,
        "tolerance": max(oracle.before.tolerance, oracle.after.tolerance),
    }


def _by_rank(record: StartFile, name: str) -> list[Any]:
    """A provenance field of each rank; one value where all agree."""
    entry = (record.provenance or {}).get(name, {})
    return list(entry["by_rank"]) if "by_rank" in entry else [entry.get("value")]


def _hostnames(record: StartFile) -> str | None:
    names = {value for value in _by_rank(record, "hostname") if isinstance(value, str)}
    return ",".join(sorted(names)) or None


def _timer_floor_ns(record: StartFile) -> float | None:
    return max((float(v) for v in _by_rank(record, "timer_floor_ns") if isinstance(v, int | float)), default=None)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
