"""Every row of the external check data is reproduced; a row that no reader knows fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import scipy.stats

from ep_campaign.stats.bootstrap import median_bootstrap_law
from ep_campaign.stats.contrast import compare, log_ratios
from ep_campaign.stats.family import holm, smallest_n
from ep_campaign.stats.friedman import friedman
from ep_campaign.stats.mann_whitney import mann_whitney
from ep_campaign.stats.median import median_interval, order_statistic_ranks
from ep_campaign.stats.ranks import Alternative
from ep_campaign.stats.signed_rank import signed_rank_test
from ep_campaign.stats.tails import early_stopping_total, iterations_for_bound

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = json.loads((Path(__file__).parents[1] / "data" / "stats_check_data.json").read_text())


def _bootstrap_interval(row: dict[str, Any]) -> list[float]:
    last = int(row["data"].split("..")[1])
    law = median_bootstrap_law(range(1, last + 1))
    return [law.quantile(0.025), law.quantile(0.975)]


def _bootstrap_of_minimum(row: dict[str, Any]) -> float:
    return median_bootstrap_law(row["data"]).weights[0]


def _minmax_coverage(row: dict[str, Any]) -> float:
    # [min, max] of n = 3..5 is the order-statistic interval at any confidence below its level.
    found = order_statistic_ranks(int(row["data"][2:]), 0.5)
    assert found is not None
    n = int(row["data"][2:])
    widest = order_statistic_ranks(n, 1 - 2.0 ** (1 - n) - 1e-9)
    assert widest is not None
    assert (widest.lo, widest.hi) == (1, n)
    return widest.level


def _median_summary(row: dict[str, Any]) -> list[float | None]:
    found = median_interval(row["data"])
    return [found.center, found.lo, found.hi, found.level]


def _ranks(row: dict[str, Any]) -> list[float] | None:
    found = order_statistic_ranks(int(row["data"][2:]))
    return None if found is None else list(found)


def _mann_whitney(row: dict[str, Any]) -> float:
    size = {"[-1,-1,-1] vs [1,1,1] (ties within arms)": 3, "[-1]*4 vs [1]*4": 4}[row["data"]]
    return mann_whitney([-1] * size, [1] * size).p


def _signed_rank(row: dict[str, Any]) -> list[float]:
    first, second = row["data"]
    found = signed_rank_test([x - y for x, y in zip(first, second, strict=True)], Alternative.GREATER)
    return [found.statistic, found.p]


def _sign_flip(row: dict[str, Any]) -> float:
    # For d = 1..n every value is its own rank, so the sign-flip law of the mean is the signed-rank law.
    return signed_rank_test(json.loads(row["data"].removeprefix("d="))).p


def _blocked_example(row: dict[str, Any]) -> dict[str, Any]:
    first, second = row["data"]["A"], row["data"]["B"]
    found = compare(log_ratios(second, first))
    level_a, level_b = median_interval(first), median_interval(second)
    return {
        "HL_ratio": found.ratio,
        "ci": [found.lo, found.hi],
        "level": found.level,
        "signed_rank_p": found.signed_rank_p,
        "mann_whitney_p": mann_whitney(first, second).p,
        "median_A": level_a.center,
        "ci_A": [level_a.lo, level_a.hi],
        "median_B": level_b.center,
        "ci_B": [level_b.lo, level_b.hi],
    }


READERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "percentile bootstrap (ideal) 95% CI of the median": _bootstrap_interval,
    "bootstrap distribution of the median, n=3": lambda row: list(median_bootstrap_law(row["data"]).weights),
    "P*(median = min), n=4": _bootstrap_of_minimum,
    "P*(median = min), n=5": _bootstrap_of_minimum,
    "true coverage of [min,max] for the median": _minmax_coverage,
    "order-statistic 95% CI of the median": _median_summary,
    "order-statistic ranks and level (95%)": _ranks,
    "Mann-Whitney exact two-sided p": _mann_whitney,
    "Wilcoxon signed-rank exact one-sided p (greater)": _signed_rank,
    "exact sign-flip p (mean), two-sided": _sign_flip,
    "Friedman exact minimal p, K=3": lambda _row: friedman([[1, 2, 3]] * 3).p,
    "Holm adjusted p": lambda row: list(holm(row["data"])),
    "Holm: smallest n with 2^(1-n) <= 0.05/m": lambda _row: [smallest_n(m) for m in (1, 8, 12, 24, 48)],
    "MLPerf early stopping: total queries for t over-latency, p=0.90 c=0.99": lambda _row: [
        early_stopping_total(t, 0.90) for t in (0, 1, 2)
    ],
    "same, p=0.99 c=0.99": lambda _row: [early_stopping_total(t, 0.99) for t in (0, 1, 2)],
    "iterations for a distribution-free upper 95% bound of p90 / p95 / p99 (= the maximum)": lambda _row: [
        iterations_for_bound(q) for q in (0.90, 0.95, 0.99)
    ],
    "blocked example n=16 (us)": _blocked_example,
}


def _paired_t_interval(data: dict[str, list[float]]) -> list[float]:
    """Student's interval of the mean log ratio, by scipy: no method of this project, but the row states it."""
    logs = np.log(np.array(data["B"]) / np.array(data["A"]))
    return np.exp(scipy.stats.t.interval(0.95, len(logs) - 1, logs.mean(), scipy.stats.sem(logs))).tolist()


@pytest.mark.parametrize("row", ROWS, ids=[f"{i}-{row['method'][:40]}" for i, row in enumerate(ROWS)])
def test_row_is_reproduced(row: dict[str, Any]) -> None:
    """The method named in the row gives its result to the digits stated there."""
    found = READERS[row["method"]](row)
    expected = row["result"]
    if row["method"].startswith("blocked example"):
        found = {**found, "paired_t_ci": _paired_t_interval(row["data"])}
        assert set(found) == set(expected)
        for name, value in expected.items():
            assert found[name] == pytest.approx(value, abs=5.1e-7), name
    elif expected is None:
        assert found is None
    else:
        assert found == pytest.approx(expected, abs=5.1e-6)


def test_no_reader_is_idle() -> None:
    """Every reader serves a row, so that a renamed row cannot slip out of the check."""
    assert {row["method"] for row in ROWS} == set(READERS)
