"""Verdicts from planted effects: what the analysis says of rows whose truth is known."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from latency_model import Model
from plans import make_plan, profile
from rows import COMPLETE, make_rows

from ep_campaign.analysis.summarise import summarise
from ep_campaign.stats.verdict import Qualifier, Verdict
from ep_campaign.summary import Role
from ep_worker.contract.terms import Boundary, Loop, Mode, Status

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan
    from ep_campaign.summary import Summary

ROUNDS = 12
SLOW = "torch-agrs"
OTHER = "torch-a2a-cached"
QUIET: dict[str, Any] = {"start_sd": 0.005, "round_sd": 0.0}


def judged_plan(folder: Path, **fields: Any) -> Plan:
    """Three arms, two dtypes, twelve rounds: a family of four contrasts, which needs eight."""
    sizes = [{"ranks": 2, "rounds": ROUNDS}]
    return make_plan(folder, **{"dtypes": ["fp8", "bf16"], "ep_sizes": sizes, **fields})


def summary_of(plan: Plan, model: Model, **planted: Any) -> Summary:
    """The analysis of rows from a model."""
    return summarise(plan, *make_rows(plan, model, **planted), COMPLETE)


def verdicts(summary: Summary) -> dict[tuple[str, str], str]:
    """Rulings of the family as text, by dtype and arm."""
    return {(contrast.dtype.value, contrast.arm): str(contrast.ruling) for contrast in summary.family}


def start(number: int, arm: str) -> str:
    """Id of a start of `judged_plan`."""
    return f"ep2/decode/round-{number:02d}/{arm}"


def test_a_slower_arm_is_slower_in_its_cell_and_nowhere_else(tmp_path: Path) -> None:
    """10 % planted in one arm and one cell gives `slower` there; the three other contrasts resolve nothing."""
    cell = "ep2/decode/uniform/bf16"
    model = Model(cell_factor={(cell, SLOW): 1.1}, **QUIET)
    summary = summary_of(judged_plan(tmp_path), model)

    found = verdicts(summary)
    assert found.pop(("bf16", SLOW)) == "slower"
    assert all(text.startswith("not resolved") for text in found.values()), found
    contrast = next(item for item in summary.family if item.cell == cell and item.arm == SLOW)
    # All 12 rounds point one way: p = 2 / 2^12 of either test; Holm's first step multiplies by the family of 4.
    assert (contrast.p, contrast.sign_p, contrast.adjusted_p) == (2**-11, 2**-11, 4 * 2**-11)
    assert (contrast.num_faster, contrast.num_slower, contrast.best_p) == (0, 12, 2**-11)
    assert contrast.ratio == pytest.approx(1.1, abs=0.01)
    assert contrast.interval is not None
    assert contrast.interval.lo < 1.1 < contrast.interval.hi
    # Signed rank, n = 12: 2 x P(W <= 13) = 2 x 0.0212.
    assert contrast.interval.level == pytest.approx(0.9575, abs=1e-3)


def test_the_other_direction_is_faster(tmp_path: Path) -> None:
    """The ratio is arm over reference: below 1 the arm is faster."""
    summary = summary_of(judged_plan(tmp_path), Model(arm_factor={SLOW: 0.8}, **QUIET))

    assert {verdicts(summary)[(dtype, SLOW)] for dtype in ("fp8", "bf16")} == {"faster"}
    assert all(contrast.ratio == pytest.approx(0.8, abs=0.01) for contrast in summary.family if contrast.arm == SLOW)


def test_a_null_campaign_has_no_direction(tmp_path: Path) -> None:
    """Without a planted effect nothing is faster or slower."""
    summary = summary_of(judged_plan(tmp_path), Model(seed=5))

    assert {c.ruling.verdict for c in summary.family if c.ruling} == {Verdict.NOT_RESOLVED}


def test_a_small_effect_is_below_the_threshold(tmp_path: Path) -> None:
    """1 % is real and of no use: the verdict says so."""
    summary = summary_of(judged_plan(tmp_path), Model(arm_factor={SLOW: 1.01}, start_sd=0.001, round_sd=0.0))

    assert verdicts(summary)[("fp8", SLOW)] == "slower (below threshold)"
    assert verdicts(summary)[("fp8", OTHER)] == "not resolved (equivalent)"


def test_a_failed_start_excludes_its_round_for_its_contrast_only(tmp_path: Path) -> None:
    """One crashed start takes one round from one arm's contrasts, with its reason; the other arm keeps all."""
    summary = summary_of(judged_plan(tmp_path), Model(**QUIET), failed={start(3, SLOW): "crashed"})

    rounds = {contrast.arm: contrast.rounds for contrast in summary.family}
    assert rounds[OTHER] == tuple(range(1, 13))
    assert rounds[SLOW] == (1, 2, *range(4, 13))
    contrast = next(item for item in summary.family if item.arm == SLOW)
    assert len(contrast.ratios) == 11
    assert [(e.round, e.arm, e.status, e.reason_code) for e in contrast.excluded] == [
        (3, SLOW, Status.CRASHED, "planted")
    ]


def test_a_failed_start_of_the_reference_excludes_its_round_for_all(tmp_path: Path) -> None:
    """Without the reference no contrast has that round; a start that no job has ended has no status."""
    summary = summary_of(judged_plan(tmp_path), Model(**QUIET), failed={start(7, "torch-a2a"): "absent"})

    assert {len(contrast.rounds) for contrast in summary.family} == {11}
    assert {(e.round, e.status, e.reason_code) for c in summary.family for e in c.excluded} == {(7, None, "no_attempt")}


def test_an_arm_that_never_ran_does_not_hide_the_others(tmp_path: Path) -> None:
    """Its contrasts are too few starts; the order of the other two arms is still tested, and they are judged."""
    failed = {start(number, SLOW): "timed_out" for number in range(1, ROUNDS + 1)}
    summary = summary_of(judged_plan(tmp_path), Model(arm_factor={OTHER: 1.1}, **QUIET), failed=failed)

    assert verdicts(summary)[("fp8", SLOW)] == "too few starts"
    assert verdicts(summary)[("fp8", OTHER)] == "slower"
    # The family keeps its declared size: two of four with p = 2^-11, the smaller step never below the larger.
    assert {contrast.adjusted_p for contrast in summary.family if contrast.arm == OTHER} == {4 * 2**-11}
    order = summary.diagnostics[0].order
    assert order is not None
    assert (order.num_rounds, len(order.mean_ranks)) == (12, 2)


def test_a_reference_that_never_ran_leaves_no_verdict(tmp_path: Path) -> None:
    """Then every contrast is too few starts, and levels are still there."""
    failed = {start(number, "torch-a2a"): "crashed" for number in range(1, ROUNDS + 1)}
    summary = summary_of(judged_plan(tmp_path), Model(**QUIET), failed=failed)

    assert set(verdicts(summary).values()) == {"too few starts"}
    assert {(c.p, c.ratio, c.adjusted_p, c.num_faster) for c in summary.family} == {(None, None, None, 0)}
    assert {len(level.rounds) for level in summary.levels if level.arm == SLOW} == {12}


@pytest.mark.parametrize(
    ("model", "qualifier"),
    [
        (Model(arm_factor={SLOW: 1.1}, order_effect=0.05, **QUIET), Qualifier.ORDER_EFFECT),
        (Model(arm_factor={SLOW: 1.5}, drift=0.01, **QUIET), Qualifier.DRIFT),
        (
            Model(arm_factor={SLOW: 1.1}, outlier_starts={start(n, SLOW): 1.6 for n in (2, 5)}, **QUIET),
            Qualifier.UNSTABLE_STARTS,
        ),
    ],
    ids=["order effect", "drift", "unstable starts"],
)
def test_diagnostics_veto(tmp_path: Path, model: Model, qualifier: Qualifier) -> None:
    """An order effect, drift or unstable starts take the verdict away, and say so."""
    summary = summary_of(judged_plan(tmp_path), model)

    ruling = next(contrast.ruling for contrast in summary.family if contrast.arm == SLOW)
    assert ruling is not None
    assert ruling.verdict is Verdict.NOT_RESOLVED
    assert qualifier in ruling.qualifiers


def test_unstable_starts_are_listed_by_round(tmp_path: Path) -> None:
    """Rounds 2 and 5 are 1.6 x the arm's median: two of twelve, more than 10 %."""
    model = Model(outlier_starts={start(n, SLOW): 1.6 for n in (2, 5)}, **QUIET)
    summary = summary_of(judged_plan(tmp_path), model)

    arm = next(item for item in summary.diagnostics[0].arms if item.arm == SLOW)
    assert (arm.unstable_rounds, arm.unstable_veto, arm.num_starts) == ((2, 5), True, 12)
    assert not any(item.unstable_veto for item in summary.diagnostics[0].arms if item.arm != SLOW)


def test_an_order_effect_is_found_among_the_arms_of_a_cell(tmp_path: Path) -> None:
    """Later places are slower: mean ranks rise with the place, in every cell."""
    summary = summary_of(judged_plan(tmp_path), Model(order_effect=0.05, **QUIET))

    for item in summary.diagnostics:
        assert item.order is not None
        assert item.order.veto
        assert list(item.order.mean_ranks) == sorted(item.order.mean_ranks)


def test_late_starts_that_decide_are_said(tmp_path: Path) -> None:
    """Seven rounds cannot decide a family of four, twelve can: the verdict rests on late starts, and is marked."""
    late = [start(number, SLOW) for number in range(8, 13)]
    summary = summary_of(judged_plan(tmp_path), Model(arm_factor={SLOW: 1.1}, **QUIET), late=late)

    contrast = next(item for item in summary.family if item.arm == SLOW)
    assert str(contrast.ruling) == "slower (late starts)"
    assert str(contrast.ruling_without_late) == "too few starts"
    assert [(item.round, item.arm) for item in summary.head.late_starts] == [(n, SLOW) for n in range(8, 13)]
    assert next(level for level in summary.levels if level.arm == SLOW).late_rounds == tuple(range(8, 13))


def test_a_late_start_that_decides_nothing_leaves_the_verdict(tmp_path: Path) -> None:
    """Eleven rounds say the same as twelve: no qualifier, and the verdict without it is there to be shown."""
    summary = summary_of(judged_plan(tmp_path), Model(arm_factor={SLOW: 1.1}, **QUIET), late=[start(12, SLOW)])

    contrast = next(item for item in summary.family if item.arm == SLOW)
    assert str(contrast.ruling) == str(contrast.ruling_without_late) == "slower"


def test_nothing_late_has_no_second_verdict(tmp_path: Path) -> None:
    """Then there is nothing to leave out."""
    summary = summary_of(judged_plan(tmp_path), Model(**QUIET))

    assert {contrast.ruling_without_late for contrast in summary.family} == {None}


def test_two_rounds_are_too_few_starts(tmp_path: Path) -> None:
    """An unscored campaign of two rounds prints values, no ranking, no interval, no p."""
    plan = make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 2, "scored": False}])
    summary = summary_of(plan, Model(arm_factor={SLOW: 1.3}, **QUIET))

    assert not summary.family
    primary = [contrast for contrast in summary.contrasts if contrast.role is Role.DESCRIPTIVE]
    assert len(primary) == 2
    for contrast in primary:
        assert str(contrast.ruling) == "too few starts"
        assert len(contrast.ratios) == 2
        withheld = (contrast.ratio, contrast.interval, contrast.ratio_of_medians, contrast.p, contrast.adjusted_p)
        assert withheld == (None,) * 5
        assert contrast.printable.sentence == "too few starts (n = 2: values only; a median and a range need 3)"
    assert all(level.interval_us is None and level.cv is None for level in summary.levels)


def test_four_rounds_have_a_ratio_of_medians_and_no_interval(tmp_path: Path) -> None:
    """Below six rounds there is no exact interval; the sentence says what six would give."""
    plan = make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 4, "scored": False}])
    contrast = next(c for c in summary_of(plan, Model(arm_factor={SLOW: 1.3}, **QUIET)).contrasts if c.arm == SLOW)

    assert contrast.ratio_of_medians == pytest.approx(1.3, rel=0.02)
    assert (contrast.ratio, contrast.interval, contrast.p) == (None, None, None)
    assert "an exact 95% interval needs 6" in contrast.printable.sentence


@pytest.mark.parametrize(("rounds", "has_p", "has_adjusted"), [(5, False, False), (6, True, False), (7, True, True)])
def test_p_values_wait_for_their_rounds(tmp_path: Path, rounds: int, has_p: bool, has_adjusted: bool) -> None:
    """An unadjusted p needs the six rounds of an interval, an adjusted one the seven of a family of two."""
    plan = judged_plan(tmp_path, dtypes=["bf16"])
    failed = {start(number, "torch-a2a"): "crashed" for number in range(rounds + 1, ROUNDS + 1)}
    summary = summary_of(plan, Model(arm_factor={SLOW: 1.3}, **QUIET), failed=failed)

    found = next(contrast for contrast in summary.family if contrast.arm == SLOW)
    assert len(found.rounds) == rounds
    assert [p is not None for p in (found.p, found.sign_p, found.adjusted_p)] == [has_p, has_p, has_adjusted]
    assert str(found.ruling) == ("slower" if has_adjusted else "too few starts")
    assert found.best_p == 2.0 ** (1 - rounds)


def test_a_descriptive_ep_size_has_intervals_and_no_verdict(tmp_path: Path) -> None:
    """EP 4 is not scored: with eight rounds it is described with intervals, and never ranked."""
    sizes = [{"ranks": 2, "rounds": 12}, {"ranks": 4, "rounds": 8, "scored": False}]
    plan = judged_plan(tmp_path, ep_sizes=sizes)
    summary = summary_of(plan, Model(arm_factor={SLOW: 1.3}, **QUIET))

    found = [contrast for contrast in summary.contrasts if contrast.ep_size == 4]
    assert {contrast.role for contrast in found} == {Role.DESCRIPTIVE, Role.SECONDARY}
    assert {(c.ruling, c.p, c.adjusted_p) for c in found} == {(None, None, None)}
    assert all(contrast.interval is not None and not contrast.printable.verdicts for contrast in found)
    assert {contrast.ep_size for contrast in summary.family} == {2}


def test_other_boundaries_modes_and_loops_are_secondary(tmp_path: Path) -> None:
    """Each has its ratios and intervals, none a verdict; the layout alone has no contrast: one arm has it."""
    measurement = {"modes": ["host_start", "chained"], "isolated_loops": True, "iterations": 20, "chain_length": 10}
    summary = summary_of(judged_plan(tmp_path, measurement=measurement), Model(**QUIET))

    secondary = [contrast for contrast in summary.contrasts if contrast.role is Role.SECONDARY]
    assert {contrast.boundary for contrast in secondary} == set(Boundary)
    assert {contrast.mode for contrast in secondary} == {Mode.HOST_START, Mode.CHAINED}
    assert {contrast.loop for contrast in secondary} == {Loop.ROUNDTRIP, Loop.DISPATCH, Loop.COMBINE}
    assert {(c.ruling, c.p) for c in secondary} == {(None, None)}
    assert all(c.interval is not None for c in secondary)
    roles = [contrast.role for contrast in summary.contrasts]
    assert roles == sorted(roles, key=list(Role).index)
    assert len(summary.family) == 4


def test_the_ratio_is_made_within_rounds(tmp_path: Path) -> None:
    """A round that slows all arms alike by a third leaves every ratio at the planted one."""
    outliers = {start(4, arm): 1.33 for arm in ("torch-a2a", OTHER, SLOW)}
    summary = summary_of(
        judged_plan(tmp_path), Model(arm_factor={SLOW: 1.1}, outlier_starts=outliers, start_sd=0, round_sd=0)
    )

    contrast = next(item for item in summary.family if item.arm == SLOW)
    assert contrast.ratios == pytest.approx([1.1] * 12)
    assert contrast.ratio == pytest.approx(1.1)
    assert contrast.ratio_sd_log == pytest.approx(0, abs=1e-12)


def test_the_resolvable_effect_follows_the_spread_of_the_ratios(tmp_path: Path) -> None:
    """Twice the spread of log ratios resolves about twice the effect, and rounds in common cost nothing."""
    small = summary_of(judged_plan(tmp_path), Model(seed=3, start_sd=0.01, round_sd=0.0)).family[0]
    large = summary_of(judged_plan(tmp_path), Model(seed=3, start_sd=0.02, round_sd=0.3)).family[0]

    assert small.resolvable_percent is not None
    assert large.resolvable_percent is not None
    of_logs = math.log1p(large.resolvable_percent / 100) / math.log1p(small.resolvable_percent / 100)
    assert of_logs == pytest.approx(2, rel=1e-6)


def test_contrasts_follow_the_plans_order(tmp_path: Path) -> None:
    """Cells as the plan lists them, arms as the campaign does: reports need not sort."""
    plan = judged_plan(tmp_path, profiles=[profile("decode"), profile("prefill", 32)])
    summary = summary_of(plan, Model(**QUIET))

    assert [(c.cell, c.arm) for c in summary.family] == [(row["cell"], row["arm"]) for row in plan.contrasts]


def test_swapping_the_reference_inverts_the_ratio(tmp_path: Path) -> None:
    """The same starts with the other arm as reference give one over the ratio, the same p and the other direction."""
    arms = [{"name": arm, "backend": arm} for arm in ("torch-a2a", SLOW)]
    one = judged_plan(tmp_path, arms=arms, reference="torch-a2a")
    other = judged_plan(tmp_path, arms=arms, reference=SLOW)
    model = Model(arm_factor={SLOW: 1.1}, **QUIET)
    mine, theirs = summary_of(one, model).family[0], summary_of(other, model).family[0]

    assert mine.ratio is not None
    assert theirs.ratio == pytest.approx(1 / mine.ratio)
    assert mine.p == theirs.p
    assert (str(mine.ruling), str(theirs.ruling)) == ("slower", "faster")


def test_an_arm_of_the_round_that_is_not_in_the_cell_leaves_no_gap(tmp_path: Path) -> None:
    """One of three arms cannot take empty ranks: there the order of the other two is tested on two places."""
    arms = [{"name": arm, "backend": arm} for arm in ("torch-a2a", SLOW)] + [{"name": "v2", "backend": "deepep-v2"}]
    routes = [{"name": "uniform", "kind": "uniform"}, {"name": "ragged", "kind": "ragged", "empty_ranks": 1}]
    plan = judged_plan(tmp_path, device="cuda", arms=arms, routes=routes, dtypes=["bf16"])
    summary = summary_of(plan, Model(arm_factor={SLOW: 1.1}, **QUIET))

    orders = {item.cell: item.order for item in summary.diagnostics}
    places = {cell: len(order.mean_ranks) for cell, order in orders.items() if order is not None}
    assert places == {"ep2/decode/uniform/bf16": 3, "ep2/decode/ragged/bf16": 2}
    assert {str(contrast.ruling) for contrast in summary.family if contrast.arm == SLOW} == {"slower"}
