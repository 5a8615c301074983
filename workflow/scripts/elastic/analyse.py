"""Analyses an aggregated elastic results folder into statistics.json."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.elastic.analyse import analyse_elastic
from ep_campaign.elastic.completion import ELASTIC_ALWAYS
from ep_campaign.elastic.plan import read_elastic_plan
from ep_campaign.products import Stage, check_products, record_products


def main() -> None:
    """Analyses `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = read_elastic_plan(results.plan)
    check_products(results, Stage.VALIDATE, Stage.AGGREGATE, always=ELASTIC_ALWAYS)
    analyse_elastic(plan, results)
    record_products(results, Stage.ANALYSE, [results.statistics])


run(main)
