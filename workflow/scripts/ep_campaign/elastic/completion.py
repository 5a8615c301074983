"""The last stage of an elastic campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.completion import missing_products, seal
from ep_campaign.elastic.tables import ELASTIC_TABLES
from ep_campaign.elastic.validate import validate_elastic

if TYPE_CHECKING:
    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.layout import Results
    from ep_campaign.validate import State

ELASTIC_REPORTS = ("RESULTS.md", "report.html")


def complete_elastic(plan: ElasticPlan, results: Results) -> State:
    """As `completion.complete`."""
    tables = [results.table(table.name) for table in ELASTIC_TABLES]
    reports = [results.root / name for name in ELASTIC_REPORTS]
    products = [*tables, results.statistics, *reports]
    raw = [path for path in (results.root / "starts").rglob("*.json") if path.is_file()]
    return seal(
        plan, results, validate_elastic, lambda: missing_products(results, products), lambda: [results.plan, *raw]
    )
