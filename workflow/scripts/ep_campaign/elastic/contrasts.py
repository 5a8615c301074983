"""What is compared: every width with the reference state, and every arm with the reference arm, over repeats, exactly.

Only passes whose client was on time take part. The order of states within a round is fixed, so that a drift of the machine
within a round is not told from an effect of the width; the order of arms is balanced, and its effect is tested.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ep_campaign.elastic.levels import usable_passes
from ep_campaign.stats.judge import CellRounds, Judgement, judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

    from ep_campaign.elastic.plan import ElasticPlan


def contrasts(plan: ElasticPlan, tables: dict[str, pd.DataFrame]) -> list[dict[str, Any]]:
    """Every contrast of the declared family, judged together."""
    labelled = list(_families(plan, tables))
    if not labelled:
        return []
    judged = judge([cell for _, cell in labelled], family_size=plan.document["family"]["num_contrasts"])
    labels = {cell.name: label for label, cell in labelled}
    return [_entry(labels[one.cell], one) for one in judged]


def _families(plan: ElasticPlan, tables: dict[str, pd.DataFrame]) -> Iterator[tuple[dict[str, str], CellRounds]]:
    passes = usable_passes(tables)
    passes = passes[passes["valid"]]
    positions = tables["elastic_attempts"].set_index("start")["order_position"]
    arms, states = tuple(plan.arms), tuple(plan.sweeps)
    for cell in plan.cells:
        for metric in plan.document["family"]["metrics"]:
            table = passes[passes["cell"] == cell]
            for arm in arms if len(states) > 1 else ():
                label = {"of": "width", "cell": cell, "metric": metric, "within": arm}
                values_NA = _values(plan, table[table["arm"] == arm], "state", states, metric)
                yield label, CellRounds(_name(label), states, plan.document["reference_state"], values_NA)
            for state in states if len(arms) > 1 else ():
                label = {"of": "arm", "cell": cell, "metric": metric, "within": state}
                own = table[table["state"] == state]
                values_NA = _values(plan, own, "arm", arms, metric)
                order_NA = _positions(plan, positions, state, arms)
                yield label, CellRounds(_name(label), arms, plan.document["reference"], values_NA, order_NA)


def _name(label: dict[str, str]) -> str:
    return "/".join(label.values())


def _values(
    plan: ElasticPlan, table: pd.DataFrame, column: str, names: tuple[str, ...], metric: str
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """[N, A] values; NaN where a round has none that counts."""
    values_NA = np.full((plan.document["rounds"], len(names)), np.nan)
    for _, row in table.iterrows():
        value = row[metric]
        if value is not None and value > 0:
            values_NA[int(row["round"]) - 1, names.index(row[column])] = value
    return values_NA


def _positions(
    plan: ElasticPlan, positions: pd.Series[Any], state: str, arms: tuple[str, ...]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    order_NA = np.zeros((plan.document["rounds"], len(arms)), dtype=np.int64)
    for start in plan.starts:
        if start.state == state:
            order_NA[start.round - 1, arms.index(start.arm)] = start.order_position - 1
    return order_NA


def _entry(label: dict[str, str], one: Judgement) -> dict[str, Any]:
    comparison = one.comparison
    return {
        **label,
        "subject": one.arm,
        "reference": one.reference,
        "num_rounds": len(one.rounds),
        "num_excluded": len(one.excluded_rounds),
        "ratio": None if comparison is None else comparison.ratio,
        "lo": None if comparison is None else comparison.lo,
        "hi": None if comparison is None else comparison.hi,
        "adjusted_p": one.adjusted_p,
        "verdict": one.decision.verdict.value,
        "qualifiers": [one_.value for one_ in one.decision.qualifiers],
    }
