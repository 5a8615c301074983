"""Contrasts: the family judged, everything else described."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ep_campaign.analysis.grids import grid_name, make_grid
from ep_campaign.analysis.matrix import cell_parts
from ep_campaign.stats.contrast import PairedComparison, compare, log_ratios
from ep_campaign.stats.judge import judge
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.printable import Printable, printable
from ep_campaign.stats.resolution import resolvable_effect_percent
from ep_campaign.stats.verdict import Decision, Rules, Verdict
from ep_campaign.summary import Contrast, ExcludedRound, Interval, Role, Ruling
from ep_worker.contract.terms import Dtype, Loop

if TYPE_CHECKING:
    from ep_campaign.analysis.matrix import Matrix, Where
    from ep_campaign.plan import Plan
    from ep_campaign.stats.arrays import FloatArray
    from ep_campaign.stats.judge import Judgement

UNJUDGED = "described, not judged: outside the declared family"


@dataclass(frozen=True)
class FamilyRules:
    """What the plan declares about its family."""

    size: int
    test: PairedTest
    rules: Rules

    @classmethod
    def of(cls, plan: Plan) -> FamilyRules:
        """Those of a plan."""
        family = plan.document["family"]
        rules = Rules(family["alpha"], family["practical_threshold"])
        return cls(len(plan.contrasts), PairedTest(family["test"]), rules)


def make_contrasts(matrix: Matrix) -> tuple[Contrast, ...]:
    """Every arm against the reference wherever both were to measure: the family, then descriptive, then secondary ones."""
    family = FamilyRules.of(matrix.plan)
    declared = {(row["cell"], row.get("loop", Loop.ROUNDTRIP.value), row["arm"]) for row in matrix.plan.contrasts}
    judged = judge_family(matrix, family)
    found = []
    for where in matrix.places():
        arms = matrix.arms_at(where)
        for arm in arms if matrix.reference in arms else ():
            if arm == matrix.reference:
                continue
            role = Role.SECONDARY
            if matrix.is_judged(where):
                role = Role.FAMILY if (where.cell, where.loop.value, arm) in declared else Role.DESCRIPTIVE
            ruled = judged.get((grid_name(where), arm)) if role is Role.FAMILY else None
            found.append(_contrast(matrix, where, arm, role, ruled, family))
    roles = list(Role)
    return tuple(sorted(found, key=lambda contrast: roles.index(contrast.role)))


def judge_family(matrix: Matrix, family: FamilyRules) -> dict[tuple[str, str], Judgement]:
    """The judgements of the declared contrasts, by `grid_name` and arm; a contrast without a value of its arm has none."""
    cells = {row["cell"] for row in matrix.plan.contrasts}
    places = [where for where in matrix.places() if where.cell in cells and matrix.is_judged(where)]
    grids = [grid for grid in (make_grid(matrix, where) for where in places) if grid is not None]
    if not grids:
        return {}
    seed = matrix.plan.document["seed"]
    judged = judge(grids, family_size=family.size, test=family.test, rules=family.rules, seed=seed)
    return {(judgement.cell, judgement.arm): judgement for judgement in judged}


def _contrast(
    matrix: Matrix, where: Where, arm: str, role: Role, judged: Judgement | None, family: FamilyRules
) -> Contrast:
    reference = matrix.reference
    ep_size, profile, route, dtype = cell_parts(where.cell)
    of_arm, of_reference = matrix.ok(where, arm), matrix.ok(where, reference)
    rounds = tuple(number for number in of_arm if number in of_reference)
    values_N2 = np.array([[of_arm[r].median_ns, of_reference[r].median_ns] for r in rounds], dtype=np.float64) / 1e3
    values_N2 = values_N2.reshape(len(rounds), 2)
    if judged is not None:
        comparison = judged.comparison
    elif rounds:
        logs = log_ratios(values_N2[:, 0], values_N2[:, 1])
        comparison = compare(logs, confidence=1 - family.rules.alpha, test=family.test)
    else:
        comparison = None
    shown = _printable(len(rounds), role, family)
    return Contrast(
        cell=where.cell,
        ep_size=ep_size,
        profile=profile,
        route=route,
        dtype=Dtype(dtype),
        boundary=where.boundary,
        mode=where.mode,
        loop=where.loop,
        arm=arm,
        reference=reference,
        role=role,
        num_rounds=matrix.plan.num_rounds[ep_size],
        rounds=rounds,
        excluded=_excluded(matrix, where, (arm, reference)),
        ratios=tuple((values_N2[:, 0] / values_N2[:, 1]).tolist()),
        **_medians(values_N2, shown),
        **_estimate(comparison, values_N2, shown, family, role),
        **_ruling(judged, role, shown),
        printable=shown,
        warnings=comparison.warnings if comparison else ("no round is complete",),
    )


def _excluded(matrix: Matrix, where: Where, arms: tuple[str, str]) -> tuple[ExcludedRound, ...]:
    found = [(missing, arm) for arm in arms for missing in matrix.missing(where, arm)]
    found.sort(key=lambda item: item[0].round)
    return tuple(
        ExcludedRound(
            round=missing.round,
            arm=arm,
            status=missing.status,
            reason_code=missing.reason_code,
            reason=missing.reason,
        )
        for missing, arm in found
    )


def _printable(n: int, role: Role, family: FamilyRules) -> Printable:
    if role is Role.FAMILY:
        return printable(n, family.size, family.rules.alpha)
    alone = printable(n, 1, family.rules.alpha)
    return replace(alone, verdicts=False, sentence=alone.sentence or UNJUDGED)


def _medians(values_N2: FloatArray, shown: Printable) -> dict[str, Any]:
    if not len(values_N2):
        return {"arm_median_us": None, "reference_median_us": None, "ratio_of_medians": None}
    of_arm, of_reference = (float(value) for value in np.median(values_N2, axis=0))
    ratio = of_arm / of_reference if shown.summary else None
    return {"arm_median_us": of_arm, "reference_median_us": of_reference, "ratio_of_medians": ratio}


def _estimate(
    comparison: PairedComparison | None, values_N2: FloatArray, shown: Printable, family: FamilyRules, role: Role
) -> dict[str, Any]:
    """Ratio, interval, spread and p-values, each only where it may be shown."""
    intervals = comparison is not None and shown.intervals
    judged = role is Role.FAMILY
    spread = float(log_ratios(values_N2[:, 0], values_N2[:, 1]).std(ddof=1)) if intervals else None
    return {
        "ratio": comparison.ratio if comparison and intervals else None,
        "interval": _interval(comparison) if comparison and intervals else None,
        "ratio_sd_log": spread,
        "resolvable_percent": _resolvable(len(values_N2), spread, family) if judged else None,
        "p": comparison.p if comparison and intervals and judged else None,
        "sign_p": comparison.sign_p if comparison and intervals and judged else None,
        "best_p": comparison.best_p if comparison else None,
        "num_faster": comparison.num_faster if comparison else 0,
        "num_slower": comparison.num_slower if comparison else 0,
        "num_equal": comparison.num_equal if comparison else 0,
    }


def _interval(comparison: PairedComparison) -> Interval | None:
    if comparison.lo is None or comparison.hi is None or comparison.level is None:
        return None
    return Interval(lo=comparison.lo, hi=comparison.hi, level=comparison.level)


def _resolvable(n: int, ratio_sd_log: float | None, family: FamilyRules) -> float | None:
    """The resolvable effect at the spread of the ratios themselves: rounds that arms share cancel in them."""
    if not ratio_sd_log:
        return None
    start_sd = ratio_sd_log / np.sqrt(2)
    return resolvable_effect_percent(n, family.size, start_sd, alpha=family.rules.alpha, test=family.test)


def _ruling(judged: Judgement | None, role: Role, shown: Printable) -> dict[str, Any]:
    nothing: dict[str, Any] = {"ruling": None, "ruling_without_late": None, "adjusted_p": None}
    if role is Role.FAMILY and judged is not None:
        without = judged.decision_without_late
        return {
            "ruling": _as_ruling(judged.decision),
            "ruling_without_late": None if without is None else _as_ruling(without),
            "adjusted_p": judged.adjusted_p if shown.verdicts else None,
        }
    undecided = role is Role.FAMILY or (role is Role.DESCRIPTIVE and not shown.intervals)
    return {**nothing, "ruling": Ruling(verdict=Verdict.TOO_FEW_STARTS, qualifiers=()) if undecided else None}


def _as_ruling(decision: Decision) -> Ruling:
    return Ruling(verdict=decision.verdict, qualifiers=decision.qualifiers)
