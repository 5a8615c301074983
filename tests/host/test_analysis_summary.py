"""Everything of the summary but verdicts: levels, what is missing, custody, cost, budget, advice, state, and its bytes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from latency_model import Model
from plans import make_plan, profile
from rows import COMPLETE, make_rows

from ep_campaign.analysis.summarise import summarise
from ep_campaign.errors import CampaignError
from ep_campaign.stats.iterations import components_of_starts, variance_components
from ep_campaign.summary import State, Summary, read_summary, write_summary
from ep_worker.contract.terms import Boundary, Loop, Mode, Status

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan
    from ep_campaign.summary import Level

SLOW = "torch-agrs"
QUIET: dict[str, Any] = {"start_sd": 0.01, "round_sd": 0.0}


def judged_plan(folder: Path, **fields: Any) -> Plan:
    """Three arms, one cell, eight rounds: a family of two, which needs seven."""
    return make_plan(folder, **{"ep_sizes": [{"ranks": 2, "rounds": 8}], **fields})


def start(number: int, arm: str, ep_size: int = 2) -> str:
    """Id of a start."""
    return f"ep{ep_size}/decode/round-{number:02d}/{arm}"


def primary(summary: Summary, arm: str) -> Level:
    """The level of an arm in the first cell."""
    return next(level for level in summary.levels if level.primary and level.arm == arm)


def test_a_level_is_the_median_of_its_starts_with_its_true_level(tmp_path: Path) -> None:
    """Eight starts: the median of eight, and the interval from the smallest to the largest, of level 1 - 2^-7."""
    plan = judged_plan(tmp_path)
    records, attempts = make_rows(plan, Model(**QUIET))
    level = primary(summarise(plan, records, attempts, COMPLETE), SLOW)

    values = [r.median_ns / 1e3 for r in records if r.arm == SLOW and r.boundary == "dispatch_ready" and r.median_ns]
    assert level.values_us == tuple(values)
    assert level.median_us == pytest.approx(np.median(values))
    assert level.interval_us is not None
    # n = 8: ranks 1 and 8 miss the median with probability 2 x (1/2)^8.
    assert (level.interval_us.lo, level.interval_us.hi) == (min(values), max(values))
    assert level.interval_us.level == 1 - 2**-7
    assert level.cv == pytest.approx(np.std(values, ddof=1) / np.mean(values))
    assert level.rounds == tuple(range(1, 9))


def test_every_start_without_a_record_is_a_row_with_its_reason(tmp_path: Path) -> None:
    """Crashed, never begun and absent starts stand in their level with status and reason, in order of rounds."""
    plan = judged_plan(tmp_path)
    failed = {start(2, SLOW): "crashed", start(5, SLOW): "not_run", start(6, SLOW): "absent"}
    summary = summarise(plan, *make_rows(plan, Model(**QUIET), failed=failed), COMPLETE)

    level = primary(summary, SLOW)
    assert level.rounds == (1, 3, 4, 7, 8)
    assert [(item.round, item.attempt, item.status, item.reason_code) for item in level.missing] == [
        (2, 1, Status.CRASHED, "planted"),
        (5, 1, Status.NOT_RUN, "planted"),
        (6, None, None, "no_attempt"),
    ]
    assert level.interval_us is None
    assert level.warnings == ("n = 5: an exact 95% interval of a median needs 6 starts",)


def test_an_arm_without_a_single_start_keeps_its_level(tmp_path: Path) -> None:
    """Its level has no number, all its rounds are missing, and it says so."""
    plan = judged_plan(tmp_path)
    failed = {start(number, SLOW): "incorrect" for number in range(1, 9)}
    level = primary(summarise(plan, *make_rows(plan, failed=failed), COMPLETE), SLOW)

    assert (level.median_us, level.min_us, level.rounds, level.values_us) == (None, None, (), ())
    assert {item.status for item in level.missing} == {Status.INCORRECT}
    assert level.warnings == ("no start has a value",)


def test_unsupported_modes_are_rows_with_a_source(tmp_path: Path) -> None:
    """What a CPU cannot do stands in the summary with reason and source, for every arm and cell; it is no level."""
    measurement = {
        "modes": [mode.value for mode in Mode],
        "isolated_loops": False,
        "iterations": 20,
        "chain_length": 10,
    }
    plan = judged_plan(tmp_path, measurement=measurement)
    summary = summarise(plan, *make_rows(plan), COMPLETE)

    rows = {(row.arm, row.mode) for row in summary.unsupported}
    assert rows == {(arm, mode) for arm in plan.document["arms"] for mode in ("launch_hidden", "graph", "overlapped")}
    assert all(row.reason and row.source and row.boundary == "*" for row in summary.unsupported)
    assert {level.mode for level in summary.levels} == {Mode.HOST_START, Mode.CHAINED}


def test_an_arm_that_cannot_take_a_cell_is_unsupported_there(tmp_path: Path) -> None:
    """A GPU backend on a CPU has no level and one row a cell."""
    arms = [{"name": name, "backend": name} for name in ("torch-a2a", SLOW)]
    arms.append({"name": "v2", "backend": "deepep-v2"})
    plan = judged_plan(tmp_path, arms=arms)
    summary = summarise(plan, *make_rows(plan), COMPLETE)

    assert {(row.arm, row.cell, row.reason_code) for row in summary.unsupported} == {
        ("v2", "ep2/decode/uniform/bf16", "device")
    }
    assert {level.arm for level in summary.levels} == {"torch-a2a", SLOW}
    assert [item.arm for item in summary.launches] == ["torch-a2a", SLOW, "v2"]


def test_levels_come_in_the_order_of_plan_and_terms(tmp_path: Path) -> None:
    """Cells and arms as the plan has them, boundaries, modes and loops as the contract has them."""
    measurement = {"modes": ["chained", "host_start"], "isolated_loops": True, "iterations": 20, "chain_length": 10}
    plan = judged_plan(tmp_path, dtypes=["fp8", "bf16"], measurement=measurement)
    summary = summarise(plan, *make_rows(plan), COMPLETE)

    cells, arms = [cell["id"] for cell in plan.document["cells"]], list(plan.document["arms"])
    keys = [
        (
            cells.index(level.cell),
            list(Boundary).index(level.boundary),
            list(Mode).index(level.mode),
            list(Loop).index(level.loop),
            arms.index(level.arm),
        )
        for level in summary.levels
    ]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


def test_a_level_that_shares_samples_says_whose(tmp_path: Path) -> None:
    """BF16 at bf16_ready is the same work as at dispatch_ready: one measurement, both names."""
    plan = judged_plan(tmp_path)
    summary = summarise(plan, *make_rows(plan), COMPLETE)

    shared = {level.boundary: level.same_as for level in summary.levels if level.arm == SLOW}
    assert shared == {
        Boundary.DISPATCH_READY: None,
        Boundary.BF16_READY: Boundary.DISPATCH_READY,
        Boundary.GEMM_READY: None,
    }


def test_figures_inside_starts_are_medians_over_starts(tmp_path: Path) -> None:
    """Phases, tails and floors are medians; spikes are sums; a tail that one start lacks is none; the slowest rank is
    that of most starts."""
    plan = judged_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 3, "scored": False}])
    records, attempts = make_rows(plan)
    mine = [r for r in records if r.arm == SLOW and r.boundary == "dispatch_ready"]
    planted = [
        replace(
            record,
            dispatch_median_ns=1e3 * (10 + index),
            p90_ns=5e3 + index,
            p99_ns=None if index == 1 else 9e3,
            num_spikes_one_rank=index,
            num_spikes_all_ranks=1,
            slowest_rank_mode=[1, 0, 1][index],
            slowest_rank_share=[0.5, 0.9, 0.7][index],
            timer_floor_ns=40.0 + index,
            first_half_median_ns=100.0,
            second_half_median_ns=[100.0, 106.0, 104.0][index],
            max_token_error_before=0.001,
            max_token_error_after=0.002 * index,
            tolerance=0.01,
        )
        for index, record in enumerate(mine)
    ]
    others = [record for record in records if record not in mine]
    level = primary(summarise(plan, [*others, *planted], attempts, COMPLETE), SLOW)

    assert (level.dispatch_us, level.layout_us, level.p90_us, level.p99_us) == (11.0, None, 5.001, None)
    assert (level.num_spikes_one_rank, level.num_spikes_all_ranks) == (3, 3)
    assert (level.slowest_rank, level.slowest_rank_share) == (1, 0.7)
    assert level.timer_floor_us == 0.041
    # 6 % between halves is unsteady, 4 % is not.
    assert level.unsteady_rounds == (2,)
    assert (level.max_token_error, level.tolerance) == (0.004, 0.01)


def test_only_attempts_that_count_are_levels_but_all_are_launches(tmp_path: Path) -> None:
    """A failed first attempt is no start value, and one failed launch of nine."""
    plan = judged_plan(tmp_path)
    records, attempts = make_rows(plan, Model(**QUIET))
    first = next(attempt for attempt in attempts if attempt.start == start(3, SLOW))
    failed = replace(
        first, scored=False, status="crashed", reason_code="interrupted", infrastructure=True, teardown="not_reached"
    )
    slow = [replace(r, scored=False, median_ns=9e9) for r in records if r.start == first.start]
    summary = summarise(plan, [*slow, *records], [*attempts, failed], COMPLETE)

    assert primary(summary, SLOW).max_us == pytest.approx(200, rel=0.1)
    launches = next(item for item in summary.launches if item.arm == SLOW)
    assert (launches.num_starts, launches.num_ok_starts, launches.num_attempts, launches.num_failed) == (8, 8, 9, 1)
    kinds = [(f.status, f.reason_code, f.infrastructure, f.num_attempts) for f in launches.failures]
    assert kinds == [(Status.CRASHED, "interrupted", True, 1)]
    custody = summary.custody
    assert (custody.num_attempts, custody.num_interrupted, custody.num_retried_starts) == (25, 1, 1)
    assert custody.teardowns == {"ok": 24, "failed": 0, "not_reached": 1}


def test_cost_is_node_hours_times_price(tmp_path: Path) -> None:
    """24 starts of 30 s on one pod at 12 an hour: 24 x 30 / 3600 x 12 = 2.4, over two verdicts 1.2."""
    plan = judged_plan(tmp_path, price_per_node_hour=12.0, currency="EUR")
    summary = summarise(plan, *make_rows(plan, Model(**QUIET)), COMPLETE)

    cost = summary.cost
    assert cost is not None
    assert (cost.total, cost.per_verdict) == pytest.approx((2.4, 1.2))
    assert (cost.num_verdicts, cost.currency) == (2, "EUR")
    assert [(d.arm, d.num_attempts, d.seconds) for d in summary.durations] == [
        (arm, 8, 240.0) for arm in plan.document["arms"]
    ]
    assert [duration.node_hours for duration in summary.durations] == pytest.approx([1 / 15] * 3)


def test_each_pod_counts_as_a_node(tmp_path: Path) -> None:
    """Two pods of one rank cost twice as many node-hours as one pod of two."""
    plan = judged_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 8, "ranks_per_pod": 1, "domain_size": 1}])
    summary = summarise(plan, *make_rows(plan), COMPLETE)

    assert [duration.node_hours for duration in summary.durations] == [pytest.approx(2 / 15)] * 3


def test_without_a_price_there_is_no_cost_and_without_verdicts_none_each(tmp_path: Path) -> None:
    """A plan without a price has no cost; a campaign that judges nothing has no price of a verdict."""
    plan = judged_plan(tmp_path)
    assert summarise(plan, *make_rows(plan), COMPLETE).cost is None

    priced = make_plan(tmp_path, price_per_node_hour=12.0)
    cost = summarise(priced, *make_rows(priced), COMPLETE).cost
    assert cost is not None
    assert (cost.num_verdicts, cost.per_verdict) == (0, None)


def test_rounds_that_the_budget_closed_are_named(tmp_path: Path) -> None:
    """The state says it, the budget says which rounds, and starts that never began are no attempts."""
    plan = judged_plan(tmp_path, budget_hours=0.5)
    failed = {start(number, arm): "not_run" for number in (7, 8) for arm in plan.document["arms"]}
    lacking = [_violation("partial", "not_run", f"starts/{name}") for name in failed]
    rows = make_rows(plan, Model(arm_factor={SLOW: 1.5}, **QUIET), failed=failed)
    summary = summarise(plan, *rows, {"violations": lacking})

    assert summary.head.state is State.ENDED_BY_BUDGET
    assert [reason.code for reason in summary.head.state_reasons] == ["not_run"]
    assert summary.budget.closed_rounds == {"2": (7, 8)}
    assert summary.budget.spent_hours == pytest.approx(18 * 30 / 3600)
    assert {(item.num_attempts, item.num_not_run, item.num_failed) for item in summary.launches} == {(6, 2, 0)}
    # Six rounds cannot decide a family of two (it needs seven): no direction, however large the effect.
    assert {str(contrast.ruling) for contrast in summary.family} == {"too few starts"}


def _violation(severity: str, code: str, file: str) -> dict[str, str]:
    found = {"found": "nothing", "expected": "something", "action": "run it again"}
    return {"severity": severity, "code": code, "file": file, "field": "", **found}


def test_anything_else_missing_is_partial(tmp_path: Path) -> None:
    """One start that failed beside those that the budget closed makes the campaign partial, with one reason a code."""
    plan = judged_plan(tmp_path)
    lacking = [_violation("partial", code, f"starts/{n}") for code in ("not_run", "not_ok") for n in range(3)]
    summary = summarise(plan, *make_rows(plan), {"violations": lacking})

    assert summary.head.state is State.PARTIAL
    assert [(reason.code, reason.text) for reason in summary.head.state_reasons] == [
        (code, "starts/0: found nothing, expected something; run it again; and 2 more")
        for code in ("not_ok", "not_run")
    ]


def test_notes_are_warnings_and_mixed_workers_are_told(tmp_path: Path) -> None:
    """Notes of the plan, of validation and of the analysis come together; none of them makes a campaign partial."""
    plan = make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 4, "scored": False}])
    validation = {"violations": [_violation("note", "mixed_workers", "worker.json")]}
    head = summarise(plan, *make_rows(plan), validation).head

    assert (head.state, head.mixed_workers) == (State.COMPLETE, True)
    # 4 rounds of three arms are no multiple of the six balanced orders.
    assert [note.code for note in head.warnings] == ["order_unbalanced", "mixed_workers", "nothing_judged"]


def test_ep_sizes_stand_on_one_axis_and_are_never_judged_across(tmp_path: Path) -> None:
    """Two EP sizes give each arm an axis of two points, rising; one EP size gives none."""
    sizes = [{"ranks": 4, "rounds": 3, "scored": False}, {"ranks": 2, "rounds": 3, "scored": False}]
    plan = make_plan(tmp_path, ep_sizes=sizes)
    axes = summarise(plan, *make_rows(plan), COMPLETE).ep_axes

    assert [axis.arm for axis in axes] == list(plan.document["arms"])
    assert [[point.ep_size for point in axis.points] for axis in axes] == [[2, 4]] * 3
    one = make_plan(tmp_path)
    assert summarise(one, *make_rows(one), COMPLETE).ep_axes == ()


def test_arms_without_their_reference_have_diagnostics_but_no_contrast(tmp_path: Path) -> None:
    """Where the reference cannot run, drift and unstable starts of the others are still found."""
    arms = [{"name": "v2", "backend": "deepep-v2"}, {"name": SLOW, "backend": SLOW}]
    routes = [{"name": "uniform", "kind": "uniform"}, {"name": "ragged", "kind": "ragged", "empty_ranks": 1}]
    sizes = [{"ranks": 2, "rounds": 8, "scored": False}]
    plan = make_plan(tmp_path, device="cuda", arms=arms, reference="v2", routes=routes, ep_sizes=sizes)
    model = Model(drift=0.05, outlier_starts={start(n, SLOW): 2.0 for n in (7, 8)}, start_sd=0.001, round_sd=0.0)
    summary = summarise(plan, *make_rows(plan, model), COMPLETE)

    assert {contrast.route for contrast in summary.contrasts} == {"uniform"}
    found = next(item for item in summary.diagnostics if "/ragged/" in item.cell)
    (arm,) = found.arms
    assert (found.order, arm.arm) == (None, SLOW)
    assert (arm.rho, arm.drift_veto, arm.unstable_rounds, arm.unstable_veto) == (1.0, True, (7, 8), True)


def test_advice_weighs_the_campaigns_own_spread_and_costs(tmp_path: Path) -> None:
    """m* = sqrt(start cost / iteration cost x pi / 2) x iteration sd / start sd, from the advice's own figures."""
    plan = judged_plan(tmp_path)
    summary = summarise(plan, *make_rows(plan, Model(start_sd=0.03, iteration_sd=0.05)), COMPLETE)

    (advice,) = summary.advice
    assert advice.iteration_sd_log == pytest.approx(0.05)
    # Two boundaries are measured of three (bf16_ready is dispatch_ready): about 200 and 240 us an iteration.
    assert advice.iteration_cost_s == pytest.approx(440e-6, rel=0.1)
    assert advice.start_cost_s == pytest.approx(30 - 20 * advice.iteration_cost_s, rel=1e-9)
    weight = math.sqrt(advice.start_cost_s / advice.iteration_cost_s * math.pi / 2)
    assert advice.advised_iterations == round(weight * advice.iteration_sd_log / advice.start_sd_log)
    assert advice.standard_error_penalty is not None
    assert advice.standard_error_penalty > 1


def test_advice_needs_starts(tmp_path: Path) -> None:
    """Five starts of an arm have no spread that may be shown: no advice."""
    plan = make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 5, "scored": False}])

    assert summarise(plan, *make_rows(plan), COMPLETE).advice == ()


def test_reduced_starts_have_the_components_of_their_samples() -> None:
    """Medians and standard deviations of starts split the variance as their samples do."""
    samples_NI = np.exp(np.random.default_rng(3).normal(5, 0.05, (6, 41)) + 0.02 * np.arange(6)[:, None])
    medians, sds = np.exp(np.median(np.log(samples_NI), axis=1)), np.log(samples_NI).std(axis=1, ddof=1)

    assert components_of_starts(medians, sds, 41) == pytest.approx(variance_components(samples_NI))
    with pytest.raises(ValueError, match="expected equally many"):
        components_of_starts(medians, sds[:-1], 41)


def test_the_summary_comes_back_from_its_file(tmp_path: Path) -> None:
    """What is read is what was written, and equal rows give equal bytes whatever their order."""
    plan = judged_plan(tmp_path, profiles=[profile("decode"), profile("prefill", 32)], price_per_node_hour=1.0)
    records, attempts = make_rows(plan, failed={start(2, SLOW): "crashed"}, late=[start(1, SLOW)])
    summary = summarise(plan, records, attempts, COMPLETE)
    write_summary(summary, tmp_path / "statistics.json")

    assert read_summary(tmp_path / "statistics.json") == summary
    again = summarise(plan, records[::-1], attempts, COMPLETE)
    assert again.text() == (tmp_path / "statistics.json").read_text()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"schema": "ep-campaign/statistics/2"}, "bad_statistics"),
        ({"levels": None}, "bad_statistics"),
        ({"surprise": 1}, "bad_statistics"),
    ],
    ids=["another version", "a field of another type", "an unknown field"],
)
def test_a_file_that_is_no_summary_is_refused(tmp_path: Path, change: dict[str, Any], code: str) -> None:
    """A wrong version, a wrong field or an unknown one is refused, with its code."""
    plan = judged_plan(tmp_path)
    value = json.loads(summarise(plan, *make_rows(plan), COMPLETE).text())
    (tmp_path / "statistics.json").write_text(json.dumps({**value, **change}))

    with pytest.raises(CampaignError) as error:
        read_summary(tmp_path / "statistics.json")
    assert set(error.value.codes) == {code}


def test_a_number_that_is_none_is_refused(tmp_path: Path) -> None:
    """NaN neither enters a summary nor comes out of a file."""
    plan = judged_plan(tmp_path)
    records, attempts = make_rows(plan)
    poisoned = [replace(records[0], median_ns=math.nan), *records[1:]]
    text = summarise(plan, records, attempts, COMPLETE).text()

    with pytest.raises(ValueError, match="finite"):
        summarise(plan, poisoned, attempts, COMPLETE)
    (tmp_path / "statistics.json").write_text(text.replace('"alpha": 0.05', '"alpha": NaN'))
    with pytest.raises(CampaignError) as error:
        read_summary(tmp_path / "statistics.json")
    assert error.value.codes == ("not_finite",)
