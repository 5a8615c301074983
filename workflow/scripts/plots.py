"""Draws the figures of an analysed results folder."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.figures.draw import draw_figures
from ep_campaign.products import Stage, check_products, record_products
from ep_campaign.summary import read_summary
from ep_campaign.validate.folder import open_plan


def main() -> None:
    """Draws the figures of `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = open_plan(results)
    check_products(results, Stage.ANALYSE)
    paths = draw_figures(plan, read_summary(results.statistics), results.figures)
    record_products(results, Stage.PLOTS, paths)
    for path in paths:
        print(path)


run(main)
