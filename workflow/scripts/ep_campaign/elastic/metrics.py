"""The figures of one run of load, by their definitions; each with its n, and none where n cannot carry it.

TTFT runs from a request's send to its first content. TPOT is a request's time per token after the first. A gap (ITL) is the
time between two chunks with content, pooled over requests. Output tokens are the server's own count.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ep_campaign.elastic.loader import Loaded
    from ep_campaign.elastic.plan import ElasticPlan

NS_PER_MS = 1e6
NS_PER_S = 1e9
MIN_N = {0.5: 1, 0.95: 20, 0.99: 100}
"""Below these a percentile is the largest value, or nearly: it is not printed."""
SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def measured(run: Loaded) -> list[dict[str, Any]]:
    """Requests that count: no warm-ups, no probes."""
    return [one for one in run.requests if one["phase"] in ("measured", "load")]


def ttft_ms(one: dict[str, Any]) -> float:
    """From send to first content."""
    return float(one["first_content_ns"] - one["sent_ns"]) / NS_PER_MS


def tpot_ms(one: dict[str, Any]) -> float | None:
    """Time per output token after the first; None for a request of one token."""
    if one["completion_tokens"] is None or one["completion_tokens"] < 2:
        return None
    return float(one["last_content_ns"] - one["first_content_ns"]) / NS_PER_MS / float(one["completion_tokens"] - 1)


def gaps_ms(one: dict[str, Any]) -> list[float]:
    """Times between its chunks with content."""
    stamps = [chunk[0] for chunk in one["chunks"] if chunk[1]]
    return [(b - a) / NS_PER_MS for a, b in itertools.pairwise(stamps)]


def e2e_ms(one: dict[str, Any]) -> float:
    """From send to the end of the answer."""
    return float(one["done_ns"] - one["sent_ns"]) / NS_PER_MS


def wait_ms(one: dict[str, Any]) -> float:
    """What the client made it wait, from when it was due to its send."""
    return float(one["sent_ns"] - one["scheduled_ns"]) / NS_PER_MS


def window_s(requests: Sequence[dict[str, Any]]) -> float | None:
    """From the first send to the last end of requests that succeeded."""
    ended = [one for one in requests if one["success"]]
    if not ended:
        return None
    return float(max(one["done_ns"] for one in ended) - min(one["sent_ns"] for one in ended)) / NS_PER_S


def quantile(values: Sequence[float], share: float) -> float | None:
    """A percentile, interpolated; None where n cannot carry it."""
    return float(np.quantile(values, share)) if len(values) >= MIN_N[share] else None


def run_figures(plan: ElasticPlan, state: str, run: Loaded) -> dict[str, Any]:
    """Every figure of a run, under the names of the `passes` table's columns."""
    requests = measured(run)
    good = [one for one in requests if one["success"]]
    pooled = {
        "ttft": [ttft_ms(one) for one in good],
        "tpot": [value for one in good if (value := tpot_ms(one)) is not None],
        "itl": [gap for one in good for gap in gaps_ms(one)],
        "e2e": [e2e_ms(one) for one in good],
        "client_wait": [wait_ms(one) for one in requests if one["sent_ns"] is not None],
    }
    figures: dict[str, Any] = {"num_requests": len(requests), "num_ok": len(good)}
    for name, values in pooled.items():
        figures[f"num_{name}"] = len(values)
        for label, share in SHARES.items():
            figures[f"{name}_{label}_ms"] = quantile(values, share)
    return {**figures, **_rates(plan, state, requests, good), **_shapes(good), **_client(plan, run)}


def _rates(plan: ElasticPlan, state: str, requests: list[dict[str, Any]], good: list[dict[str, Any]]) -> dict[str, Any]:
    seconds, num_gpus = window_s(requests), plan.num_gpus(state)
    tokens = sum(one["completion_tokens"] for one in good)
    rate = tokens / seconds if seconds else None
    num_within = sum(_within(plan, one) for one in good)
    return {
        "window_s": seconds,
        "output_tokens": tokens,
        "output_tokens_per_s": rate,
        "output_tokens_per_s_per_gpu": rate / num_gpus if rate is not None else None,
        "ms_per_output_token": 1e3 / rate if rate else None,
        "num_within_targets": num_within,
        "goodput_per_gpu_hour": num_within / seconds * 3600 / num_gpus if seconds else None,
    }


def _within(plan: ElasticPlan, one: dict[str, Any]) -> bool:
    """Whether a request meets both targets: its first token, and 99 % of its own gaps."""
    targets, gaps = plan.document["targets"], gaps_ms(one)
    late = sum(gap > targets["itl_p99_ms"] for gap in gaps)
    return bool(ttft_ms(one) <= targets["ttft_p95_ms"] and late <= 0.01 * len(gaps))


def _shapes(good: list[dict[str, Any]]) -> dict[str, Any]:
    prompts = [one["prompt_tokens"] for one in good]
    outputs = [one["completion_tokens"] for one in good]
    cached = [one["cached_tokens"] for one in good if one["cached_tokens"] is not None]
    reasons = sorted({one["finish_reason"] for one in good})
    counts = {reason: sum(one["finish_reason"] == reason for one in good) for reason in reasons}
    return {
        "prompt_tokens_min": min(prompts, default=None),
        "prompt_tokens_max": max(prompts, default=None),
        "output_tokens_min": min(outputs, default=None),
        "output_tokens_max": max(outputs, default=None),
        "prefix_cache_hit_share": sum(cached) / sum(prompts) if cached else None,
        "finish_reasons": ", ".join(f"{reason} {count}" for reason, count in counts.items()),
    }


def _client(plan: ElasticPlan, run: Loaded) -> dict[str, Any]:
    late_ns = run.account["lateness"]["p99_ns"]
    fault = lateness_fault(plan, run)
    return {
        "lateness_p99_ms": None if late_ns is None else late_ns / NS_PER_MS,
        "valid": fault is None,
        "invalid_reason": fault or "",
    }


def lateness_fault(plan: ElasticPlan, run: Loaded) -> str | None:
    """Why a run's figures are the client's and not the server's; None where the client was on time."""
    gaps = [gap for one in measured(run) if one["success"] for gap in gaps_ms(one)]
    late_ns = run.account["lateness"]["p99_ns"]
    if not gaps or late_ns is None:
        return "no gap, or no lateness, was measured"
    share = plan.document["limits"]["max_lateness_share"]
    middle, late_ms = float(np.median(gaps)), late_ns / NS_PER_MS
    if late_ms > share * middle:
        return f"lateness p99 {late_ms:.2f} ms is above {share:g} of the median gap, {middle:.2f} ms"
    return None
