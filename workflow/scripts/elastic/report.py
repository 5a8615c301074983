"""Writes the report of an analysed elastic results folder."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.elastic.completion import ELASTIC_ALWAYS
from ep_campaign.elastic.plan import read_elastic_plan
from ep_campaign.elastic.report import write_elastic_report
from ep_campaign.products import Stage, check_products, record_products


def main() -> None:
    """Writes the report of `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = read_elastic_plan(results.plan)
    check_products(results, Stage.VALIDATE, Stage.ANALYSE, Stage.PLOTS, always=ELASTIC_ALWAYS)
    record_products(results, Stage.REPORT, write_elastic_report(plan, results))


run(main)
