"""What the analysis promises over many campaigns: seldom a verdict without an effect, mostly one where there is one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from plans import make_plan
from rows import make_rows

from ep_campaign.analysis.contrasts import make_contrasts
from ep_campaign.analysis.matrix import build_matrix
from ep_campaign.stats.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.analysis.rows import Record
    from ep_campaign.plan import Plan
    from ep_campaign.summary import Contrast

ROUNDS = 12
ARMS = 3
CELLS = 2
DIRECTIONS = (Verdict.FASTER, Verdict.SLOWER)


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """Twelve rounds, three arms, two cells: a family of four."""
    measurement = {"modes": ["host_start"], "boundaries": ["dispatch_ready"], "isolated_loops": False, "iterations": 20}
    sizes = [{"ranks": 2, "rounds": ROUNDS}]
    folder = tmp_path_factory.mktemp("simulation")
    return make_plan(folder, dtypes=["fp8", "bf16"], ep_sizes=sizes, measurement=measurement)


def campaigns(plan: Plan, number: int, effect: float, seed: int) -> Iterator[tuple[Contrast, ...]]:
    """Contrasts of so many campaigns: 3 % between starts, 5 % between rounds, the last arm slower in the first cell."""
    records, attempts = make_rows(plan)
    arms, cells = list(plan.document["arms"]), [cell["id"] for cell in plan.document["cells"]]
    draw = np.random.default_rng(seed)
    for _ in range(number):
        levels_NCA = 0.03 * draw.standard_normal((ROUNDS, CELLS, ARMS)) + 0.05 * draw.standard_normal((ROUNDS, 1, 1))
        levels_NCA[:, 0, -1] += math.log(effect)
        rows = [_drawn(record, levels_NCA, arms, cells) for record in records]
        yield make_contrasts(build_matrix(plan, rows, attempts))


def _drawn(record: Record, levels_NCA: np.ndarray, arms: list[str], cells: list[str]) -> Record:
    level = levels_NCA[record.round - 1, cells.index(record.cell), arms.index(record.arm)]
    return replace(record, median_ns=2e5 * math.exp(level))


def _directions(contrasts: tuple[Contrast, ...]) -> list[Contrast]:
    return [item for item in contrasts if item.ruling is not None and item.ruling.verdict in DIRECTIONS]


def test_null_campaigns_seldom_have_any_verdict(plan: Plan) -> None:
    """Of 400 campaigns without an effect at most 5 % say faster or slower anywhere, within the simulation's own error."""
    number = 400
    wrong = sum(bool(_directions(contrasts)) for contrasts in campaigns(plan, number, 1.0, seed=20261130))

    # Three standard errors above 5 %: sqrt(.05 x .95 / 400) = .0109.
    assert wrong / number <= 0.05 + 3 * 0.0109


def test_a_real_effect_is_mostly_found_and_nothing_else_is(plan: Plan) -> None:
    """8 % in one contrast of four, 3 % between starts: `slower` there in most campaigns, elsewhere almost never."""
    number, found, wrong = 100, 0, 0
    for contrasts in campaigns(plan, number, 1.08, seed=7):
        said = _directions(contrasts)
        planted = [item for item in said if (item.cell, item.arm) == (contrasts[0].cell, "torch-agrs")]
        found += any(item.ruling is not None and item.ruling.verdict is Verdict.SLOWER for item in planted)
        wrong += len(said) > len(planted)

    assert found >= 80
    # Three standard errors above 5 %: sqrt(.05 x .95 / 100) = .0218.
    assert wrong / number <= 0.05 + 3 * 0.0218


def test_intervals_cover_the_truth(plan: Plan) -> None:
    """The interval of the ratio holds the planted 5 % in at least 95 % of contrasts, within the simulation's own error."""
    number = 200
    hits = [
        item.interval is not None and item.interval.lo <= 1.05 <= item.interval.hi
        for contrasts in campaigns(plan, number, 1.05, seed=11)
        for item in contrasts
        if (item.cell, item.arm) == (contrasts[0].cell, "torch-agrs")
    ]
    # Three standard errors below 95 %: sqrt(.05 x .95 / 200) = .0154.
    assert len(hits) == number
    assert np.mean(hits) >= 0.95 - 3 * 0.0154
