"""The analysis of an elastic campaign: `statistics.json`, which the figures and the report are made from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd

from ep_campaign.aggregate import read_validation
from ep_campaign.elastic.confounds import arm_confounds, state_confounds
from ep_campaign.elastic.contrasts import contrasts
from ep_campaign.elastic.decision import decide
from ep_campaign.elastic.levels import cell_levels
from ep_campaign.elastic.tables import ELASTIC_TABLES
from ep_campaign.errors import refuse
from ep_campaign.jsonfile import read_object
from ep_worker.contract.canonical import pretty_json, write_atomically

if TYPE_CHECKING:
    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.layout import Results

ELASTIC_STATISTICS_SCHEMA = "ep-campaign/elastic-statistics/1"


def analyse_elastic(plan: ElasticPlan, results: Results) -> None:
    """Writes `statistics.json`.

    Raises:
        CampaignError: The folder was not validated.
    """
    validation = read_validation(plan, results)
    tables = {table.name: pd.read_parquet(results.table(table.name)) for table in ELASTIC_TABLES}
    levels = cell_levels(plan, tables)
    attempts = tables["elastic_attempts"]
    counted = attempts[attempts["counted"] & attempts["status"].isin(["ok", "incorrect"])][["start", "attempt"]]
    resizes = tables["resizes"].merge(counted, on=["start", "attempt"]).sort_values(["start", "attempt"])
    provenances = _provenances(attempts)
    document = {
        "schema": ELASTIC_STATISTICS_SCHEMA,
        "campaign": plan.name,
        "plan_digest": plan.digest,
        "state": validation["state"],
        "levels": levels,
        "contrasts": contrasts(plan, tables),
        "resizes": _records(tables["resizes"]),
        "attempts": _records(attempts.drop(columns=["provenance"])),
        "provenance": {f"{arm}/{state}": value for (arm, state), value in sorted(provenances.items())},
        "arm_confounds": arm_confounds(plan, provenances),
        "state_confounds": state_confounds(plan, provenances),
        "decision": decide(plan, levels, resizes),
        "census": validation["census"],
        "violations": validation["violations"],
    }
    write_atomically(results.statistics, pretty_json(document))


def read_elastic_statistics(plan: ElasticPlan, results: Results) -> dict[str, Any]:
    """What the analysis wrote.

    Raises:
        CampaignError: It is missing, or of another plan.
    """
    value = read_object(results.statistics, results.statistics.name)
    if value.get("schema") != ELASTIC_STATISTICS_SCHEMA or value.get("plan_digest") != plan.digest:
        message = f"is not this version's analysis of plan {plan.digest[:16]}: run the analysis again"
        raise refuse("not_analysed", message, results.statistics.name)
    return value


def _records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as JSON values: what is missing is null."""
    return list(json.loads(table.to_json(orient="records")))


def _provenances(attempts: pd.DataFrame) -> dict[tuple[str, str], dict[str, Any]]:
    """The first deployment's provenance of the last counted start of each arm and state."""
    found = {}
    for _, row in attempts[attempts["counted"]].sort_values("round").iterrows():
        value = json.loads(row["provenance"])
        if value:
            found[(str(row["arm"]), str(row["state"]))] = value[0]
    return found
