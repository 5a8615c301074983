"""Aggregates a validated results folder into tables/attempts.parquet, records.parquet and samples.parquet."""

from ep_campaign.aggregate import aggregate
from ep_campaign.command import parser, results_of, run
from ep_campaign.products import Stage, check_products, record_products
from ep_campaign.tables import ATTEMPTS, RECORDS, SAMPLES
from ep_campaign.validate.folder import open_plan


def main() -> None:
    """Aggregates `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    check_products(results, Stage.VALIDATE)
    aggregate(open_plan(results), results)
    tables = (ATTEMPTS, RECORDS, SAMPLES)
    record_products(results, Stage.AGGREGATE, [results.table(table.name) for table in tables])


run(main)
