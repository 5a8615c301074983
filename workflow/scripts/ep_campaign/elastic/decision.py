"""The decision page: what to run for which load, what it costs, and when a resize repays what it stalled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from ep_campaign.elastic.plan import ElasticPlan

_S_PER_HOUR = 3600
_S_PER_MIN = 60


def decide(plan: ElasticPlan, levels: list[dict[str, Any]], resizes: pd.DataFrame) -> dict[str, Any]:
    """Everything that the page prints.

    Args:
        plan: Plan, with the targets and the price.
        levels: The cells.
        resizes: The table of resizes, counted and ok.
    """
    return {
        "choices": [
            _choice(plan, [one for one in levels if (one["arm"], one["cell"]) == (arm, cell)])
            for arm in plan.arms
            for cell in plan.cells
        ],
        "repayments": _repayments(plan, levels, resizes),
    }


def _choice(plan: ElasticPlan, own: list[dict[str, Any]]) -> dict[str, Any]:
    """The cheapest state that meets both targets under one load, and every state with what it misses."""
    options = [_option(plan, one) for one in sorted(own, key=lambda one: (one["num_gpus"], one["deployments"]))]
    meets = [one for one in options if not one["misses"]]
    first = own[0]
    names = ("arm", "cell", "arrivals", "concurrency", "rate_per_s")
    smallest = min((one["num_gpus"] for one in meets), default=None)
    best = [one for one in meets if one["num_gpus"] == smallest]
    chosen = max(best, key=lambda one: one["goodput_per_gpu_hour"], default=None)
    return {
        **{name: first[name] for name in names},
        "chosen": None if chosen is None else chosen["state"],
        "options": options,
    }


def _option(plan: ElasticPlan, one: dict[str, Any]) -> dict[str, Any]:
    targets = plan.document["targets"]
    rate, goodput = (one["metrics"][name]["median"] for name in ("output_tokens_per_s", "goodput_per_gpu_hour"))
    price = targets["price_per_gpu_hour"] * one["num_gpus"]
    return {
        "state": one["state"],
        "num_gpus": one["num_gpus"],
        "misses": _misses(targets, one),
        "goodput_per_gpu_hour": goodput,
        "price_per_million_tokens": price / (rate * _S_PER_HOUR) * 1e6 if rate else None,
        "price_per_1000_good_requests": targets["price_per_gpu_hour"] / goodput * 1000 if goodput else None,
    }


def _misses(targets: dict[str, Any], one: dict[str, Any]) -> list[str]:
    """What keeps a state from meeting the targets; a figure that n cannot carry is a miss, not a pass."""
    found = []
    if not one["num_passes"]:
        return ["not measured"]
    if not one["num_valid"]:
        found.append("the client was late")
    failed = one["num_requests"] - one["num_ok"]
    if failed:
        found.append(f"{failed} of {one['num_requests']} requests failed")
    for metric, target, name in (
        ("ttft_p95_ms", targets["ttft_p95_ms"], "TTFT p95"),
        ("itl_p99_ms", targets["itl_p99_ms"], "ITL p99"),
    ):
        median = one["metrics"][metric]["median"]
        if median is None:
            found.append(f"{name}: too few values")
        elif median > target:
            found.append(f"{name} {median:,.0f} ms above {target:,.0f}")
    return found


def _repayments(plan: ElasticPlan, levels: list[dict[str, Any]], resizes: pd.DataFrame) -> list[dict[str, Any]]:
    """For each growth that was measured: tokens lost, and minutes of the same load until the wider state has made them up."""
    found = []
    under_load = resizes[resizes["under_load"] & (resizes["verdict"] == "converged")]
    key: Any
    for key, rows in under_load.groupby(["arm", "state", "old_width", "new_width"], sort=True):
        arm, state, old, new = key
        lost = [float(value) for value in rows["lost_tokens"].dropna()]
        before, after = (_rate_at(plan, levels, str(arm), int(width)) for width in (old, new))
        gain = None if before is None or after is None else after - before
        median = float(np.median(lost)) if lost else None
        minutes = None
        if median is not None and gain is not None and gain > 0:
            minutes = max(0.0, median) / gain / _S_PER_MIN
        found.append(
            {
                "arm": str(arm),
                "state": str(state),
                "old_width": int(old),
                "new_width": int(new),
                "num_resizes": len(rows),
                "lost_tokens": median,
                "gain_tokens_per_s": gain,
                "concurrency": plan.document["resize"]["concurrency"],
                "minutes": minutes,
            }
        )
    return found


def _rate_at(plan: ElasticPlan, levels: list[dict[str, Any]], arm: str, width: int) -> float | None:
    """Output tokens a second of one deployment at a width, under the load of the resize; None where no cell has that load."""
    concurrency = plan.document["resize"]["concurrency"]
    for one in levels:
        if (one["arm"], one["width"], one["deployments"], one["concurrency"]) == (arm, width, 1, concurrency):
            value = one["metrics"]["output_tokens_per_s"]["median"]
            return None if value is None else float(value)
    return None
