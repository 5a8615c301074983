"""What each cell came to, over the repeats: the passes' values, their median, its exact interval, and the spread within."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ep_campaign.elastic.cluster_bootstrap import cluster_quantile_interval
from ep_campaign.stats.median import median_interval

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from ep_campaign.elastic.plan import ElasticPlan

METRICS = (
    "ttft_p50_ms",
    "ttft_p95_ms",
    "tpot_p50_ms",
    "itl_p50_ms",
    "itl_p99_ms",
    "e2e_p50_ms",
    "output_tokens_per_s",
    "output_tokens_per_s_per_gpu",
    "goodput_per_gpu_hour",
)
_NS_PER_MS = 1e6
_SUMS = ("num_requests", "num_ok", "num_ttft", "num_tpot", "num_itl", "num_e2e", "num_within_targets", "output_tokens")


def cell_levels(plan: ElasticPlan, tables: dict[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """One entry for each arm, sweep and cell, in plan order; one that no start measured says so by its n of 0."""
    return [
        _level(plan, tables, arm, state, cell)
        for state in plan.sweeps
        for arm in plan.arms
        for cell in plan.cells.values()
    ]


def usable_passes(tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """Passes of starts that count and are ok."""
    attempts = tables["elastic_attempts"]
    good = attempts[attempts["counted"] & (attempts["status"] == "ok")][["start", "attempt"]]
    return tables["passes"].merge(good, on=["start", "attempt"]).sort_values(["round", "start"])


def _level(
    plan: ElasticPlan, tables: dict[str, pd.DataFrame], arm: str, state: str, cell: dict[str, Any]
) -> dict[str, Any]:
    passes = usable_passes(tables)
    own = passes[(passes["arm"] == arm) & (passes["state"] == state) & (passes["cell"] == cell["name"])]
    slots = plan.num_slots(state)
    return {
        "arm": arm,
        "state": state,
        "cell": cell["name"],
        "arrivals": cell["arrivals"],
        "concurrency": cell["concurrency"],
        "rate_per_s": cell["rate_per_s"],
        "width": plan.state(state)["widths"][-1],
        "deployments": plan.state(state)["deployments"],
        "num_gpus": plan.num_gpus(state),
        "num_slots": slots,
        "queue_bound": cell["concurrency"] is not None and cell["concurrency"] > slots,
        "waves": None if cell["concurrency"] is None else cell["requests"] / cell["concurrency"],
        "num_passes": len(own),
        "num_valid": int(own["valid"].sum()),
        "invalid_reasons": sorted(set(own[~own["valid"]]["invalid_reason"])),
        **{name: int(own[name].sum()) for name in _SUMS},
        "prompt_tokens": _range(own, "prompt_tokens"),
        "completion_tokens": _range(own, "output_tokens"),
        "finish_reasons": sorted(set(own["finish_reasons"])),
        "prefix_cache_hit_share": _mean(own["prefix_cache_hit_share"]),
        "metrics": {name: _over_rounds(own, name) for name in METRICS},
        "within": dict(_within(plan, tables, own)),
    }


def _over_rounds(own: pd.DataFrame, name: str) -> dict[str, Any]:
    values = [float(value) for value in own[name].dropna()]
    if not values:
        return {"values": [], "median": None, "lo": None, "hi": None, "level": None}
    found = median_interval(values)
    return {"values": values, "median": found.center, "lo": found.lo, "hi": found.hi, "level": found.level}


def _within(plan: ElasticPlan, tables: dict[str, pd.DataFrame], own: pd.DataFrame) -> Iterator[tuple[str, Any]]:
    """Request-clustered bootstrap over all passes together: what differs between passes is not in it."""
    requests = _requests_of(tables["requests"], own)
    gaps = _gaps_by_request(tables["chunks"], requests)
    first = [[value] for value in (requests["first_content_ns"] - requests["sent_ns"]) / _NS_PER_MS]
    for name, values, share in (("ttft_p50_ms", first, 0.5), ("itl_p50_ms", gaps, 0.5), ("itl_p99_ms", gaps, 0.99)):
        found = cluster_quantile_interval(values, share, seed=plan.document["seed"])
        yield name, None if found is None else {"lo": found.lo, "hi": found.hi, "num_requests": found.num_requests}


def _requests_of(requests: pd.DataFrame, own: pd.DataFrame) -> pd.DataFrame:
    keys = own[["start", "attempt", "cell"]]
    return requests[requests["success"] & (requests["phase"] == "measured")].merge(keys, on=list(keys))


def _gaps_by_request(chunks: pd.DataFrame, requests: pd.DataFrame) -> list[list[float]]:
    keys = ["start", "attempt", "cell", "stream", "number"]
    own = chunks[chunks["has_content"]].merge(requests[keys], on=keys)
    return [list(np.diff(group.to_numpy()) / _NS_PER_MS) for _, group in own.groupby(keys, sort=True)["at_ns"]]


def _range(own: pd.DataFrame, name: str) -> list[int] | None:
    low, high = own[f"{name}_min"].dropna(), own[f"{name}_max"].dropna()
    return [int(low.min()), int(high.max())] if len(low) else None


def _mean(values: pd.Series[Any]) -> float | None:
    known = values.dropna()
    return float(known.mean()) if len(known) else None
