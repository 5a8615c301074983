"""The whole analysis as one function of a plan and its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_campaign.analysis.advice import make_advice
from ep_campaign.analysis.contrasts import make_contrasts
from ep_campaign.analysis.custody import make_budget, make_cost, make_custody, make_durations, make_launches
from ep_campaign.analysis.diagnostics import make_diagnostics
from ep_campaign.analysis.head import make_head
from ep_campaign.analysis.levels import make_ep_axes, make_levels, unsupported_rows
from ep_campaign.analysis.matrix import build_matrix
from ep_campaign.analysis.observed import make_observed
from ep_campaign.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ep_campaign.analysis.rows import Attempt, Record
    from ep_campaign.plan import Plan


def summarise(
    plan: Plan,
    records: Iterable[Record],
    attempts: Sequence[Attempt],
    validation: Mapping[str, Any],
    admission_s: float = 0.0,
) -> Summary:
    """Levels, contrasts, verdicts, diagnostics and custody of a validated campaign.

    Args:
        plan: The plan.
        records: Rows of `records`; those of attempts that do not count are passed over.
        attempts: Every row of `attempts`.
        validation: What `validation.json` holds; not refused.
        admission_s: Wall time of admission's brief runs [s].
    """
    matrix = build_matrix(plan, records, attempts)
    levels, contrasts = make_levels(matrix), make_contrasts(matrix)
    durations = make_durations(plan, attempts)
    return Summary(
        head=make_head(matrix, attempts, validation),
        contrasts=contrasts,
        levels=levels,
        unsupported=unsupported_rows(plan),
        diagnostics=make_diagnostics(matrix),
        ep_axes=make_ep_axes(levels),
        observed=make_observed(plan, attempts),
        launches=make_launches(plan, attempts),
        custody=make_custody(attempts),
        durations=durations,
        cost=make_cost(plan, durations, contrasts),
        budget=make_budget(plan, attempts, admission_s),
        advice=make_advice(matrix),
    )
