"""The last stage of an elastic campaign, and what the stages before it write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.completion import seal
from ep_campaign.elastic.tables import ELASTIC_TABLES
from ep_campaign.elastic.validate import validate_elastic
from ep_campaign.products import Stage

if TYPE_CHECKING:
    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.layout import Results
    from ep_campaign.validate import State

ELASTIC_ALWAYS = {
    Stage.VALIDATE: ("validation.json",),
    Stage.AGGREGATE: tuple(f"tables/{table.name}.parquet" for table in ELASTIC_TABLES),
    Stage.ANALYSE: ("statistics.json",),
    Stage.PLOTS: (),
    Stage.REPORT: ("RESULTS.md", "report.html"),
}
"""What a stage writes whatever the plan is; figures depend on it."""


def complete_elastic(plan: ElasticPlan, results: Results) -> State:
    """As `completion.seal`."""
    return seal(plan, results, validate_elastic, ELASTIC_ALWAYS)
