"""Analyses an aggregated results folder: writes tables/cells.parquet, tables/contrasts.parquet and statistics.json."""

from ep_campaign.analysis.stage import analyse
from ep_campaign.command import parser, results_of, run
from ep_campaign.products import Stage, check_products, record_products
from ep_campaign.result_tables import CELLS, CONTRASTS
from ep_campaign.validate.folder import open_plan


def main() -> None:
    """Analyses `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = open_plan(results)
    check_products(results, Stage.VALIDATE, Stage.AGGREGATE)
    analyse(plan, results)
    tables = [results.table(table.name) for table in (CELLS, CONTRASTS)]
    record_products(results, Stage.ANALYSE, [*tables, results.statistics])


run(main)
