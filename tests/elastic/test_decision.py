"""The decision page: the smallest state that meets the targets, its cost, and when a growth has paid for itself."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from elastic.runs import make_plan

from ep_campaign.elastic.decision import decide

PLAN = make_plan()
NO_RESIZES = pd.DataFrame(
    {name: [] for name in ("under_load", "verdict", "arm", "state", "old_width", "new_width")}
).astype({"under_load": bool})


def level(state: str, **fields: Any) -> dict[str, Any]:
    """A cell at 16 in flight that meets both targets."""
    deployments = 2 if state == "two-narrow" else 1
    width = 4 if state == "wide" else 2
    values = {"ttft_p95_ms": 90.0, "itl_p99_ms": 15.0, "output_tokens_per_s": 1000.0, "goodput_per_gpu_hour": 500.0}
    values |= {name: fields.pop(name) for name in list(fields) if name in values}
    return {
        "arm": "tcp",
        "state": state,
        "cell": "closed-16",
        "arrivals": "closed",
        "concurrency": 16,
        "rate_per_s": None,
        "width": width,
        "deployments": deployments,
        "num_gpus": 2 * width * deployments,
        "num_passes": 2,
        "num_valid": 2,
        "num_requests": 16,
        "num_ok": 16,
        "metrics": {name: {"median": value} for name, value in values.items()},
        **fields,
    }


def choice(*levels: dict[str, Any]) -> dict[str, Any]:
    """The choice for arm tcp at 16 in flight."""
    rest = [
        {**level("narrow"), "arm": arm, "cell": cell}
        for arm in PLAN.arms
        for cell in PLAN.cells
        if (arm, cell) != ("tcp", "closed-16")
    ]
    choices = decide(PLAN, [*levels, *rest], NO_RESIZES)["choices"]
    return next(one for one in choices if (one["arm"], one["cell"]) == ("tcp", "closed-16"))


def test_the_smallest_that_meets_the_targets() -> None:
    """Fewer GPUs win over more goodput; among equal GPUs the higher goodput wins."""
    assert "narrow" == choice(level("wide", goodput_per_gpu_hour=900.0), level("narrow"))["chosen"]
    late = level("narrow", ttft_p95_ms=100.1)
    assert "two-narrow" == choice(late, level("wide"), level("two-narrow", goodput_per_gpu_hour=501.0))["chosen"]
    assert "wide" == choice(late, level("wide", goodput_per_gpu_hour=502.0), level("two-narrow"))["chosen"]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"ttft_p95_ms": 150.0}, "TTFT p95 150 ms above 100"),
        ({"itl_p99_ms": 21.0}, "ITL p99 21 ms above 20"),
        ({"itl_p99_ms": None}, "ITL p99: too few values"),
        ({"num_passes": 0}, "not measured"),
        ({"num_valid": 0}, "the client was late"),
        ({"num_ok": 15}, "1 of 16 requests failed"),
    ],
)
def test_what_misses(fields: dict[str, Any], says: str) -> None:
    """Each miss is named with its numbers; a figure that n cannot carry is a miss, too; nothing is chosen then."""
    found = choice(level("narrow", **fields))
    assert found["chosen"] is None
    assert [says] == found["options"][0]["misses"]


def test_prices() -> None:
    """3 an hour on 4 GPUs at 1000 tokens/s: 12 / 3.6 a million; 3 / 500 for a good request."""
    option = choice(level("narrow"))["options"][0]
    assert 12 / 3.6 == pytest.approx(option["price_per_million_tokens"])
    assert 6.0 == pytest.approx(option["price_per_1000_good_requests"])
    none = choice(level("narrow", output_tokens_per_s=None, goodput_per_gpu_hour=0.0))["options"][0]
    assert none["price_per_million_tokens"] is None
    assert none["price_per_1000_good_requests"] is None


def growths(*lost: float | None, **fields: Any) -> pd.DataFrame:
    """Growths that lost some tokens."""
    row = {"arm": "tcp", "state": "grow", "old_width": 2, "new_width": 4, "under_load": True, "verdict": "converged"}
    return pd.DataFrame([{**row, "lost_tokens": value, **fields} for value in lost])


@pytest.mark.parametrize(
    ("wide_rate", "minutes"), [(1100.0, 2.0), (1000.0, None), (900.0, None)], ids=["gains", "equal", "loses"]
)
def test_repayment(wide_rate: float, minutes: float | None) -> None:
    """12,000 tokens lost (the median of three) at a gain of 100 a second are 2 minutes; without a gain it never repays."""
    levels = [level("narrow"), level("wide", output_tokens_per_s=wide_rate), {**level("narrow"), "arm": "shm"}]
    levels += [{**one, "cell": "closed-1", "concurrency": 1} for one in (levels[0], levels[2])]
    (found,) = decide(PLAN, levels, growths(11000.0, 12000.0, 30000.0))["repayments"]
    assert (3, 12000.0, wide_rate - 1000.0) == (
        found["num_resizes"],
        found["lost_tokens"],
        found["gain_tokens_per_s"],
    )
    assert minutes == found["minutes"]


def test_growths_that_do_not_count() -> None:
    """A refused resize and one without load repay nothing."""
    levels = [{**level("narrow"), "arm": a, "cell": c} for a in PLAN.arms for c in PLAN.cells]
    resizes = pd.concat([growths(1.0, verdict="refused"), growths(1.0, under_load=False)])
    assert [] == decide(PLAN, levels, resizes)["repayments"]
