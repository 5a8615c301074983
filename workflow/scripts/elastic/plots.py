"""Draws the figures of an analysed elastic results folder."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.elastic.analyse import read_elastic_statistics
from ep_campaign.elastic.completion import ELASTIC_ALWAYS
from ep_campaign.elastic.figures import draw_elastic_figures
from ep_campaign.elastic.plan import read_elastic_plan
from ep_campaign.products import Stage, check_products, record_products


def main() -> None:
    """Draws the figures of `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = read_elastic_plan(results.plan)
    check_products(results, Stage.ANALYSE, always=ELASTIC_ALWAYS)
    paths = draw_elastic_figures(plan, results, read_elastic_statistics(plan, results))
    record_products(results, Stage.PLOTS, paths)


run(main)
