"""Aggregates a validated elastic results folder into its Parquet tables."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.elastic.aggregate import aggregate_elastic
from ep_campaign.elastic.completion import ELASTIC_ALWAYS
from ep_campaign.elastic.plan import read_elastic_plan
from ep_campaign.elastic.tables import ELASTIC_TABLES
from ep_campaign.products import Stage, check_products, record_products


def main() -> None:
    """Aggregates `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = read_elastic_plan(results.plan)
    check_products(results, Stage.VALIDATE, always=ELASTIC_ALWAYS)
    aggregate_elastic(plan, results)
    record_products(results, Stage.AGGREGATE, [results.table(table.name) for table in ELASTIC_TABLES])


run(main)
