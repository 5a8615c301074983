"""Draws the figures of an analysed elastic results folder."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.elastic.analyse import read_elastic_statistics
from ep_campaign.elastic.figures import draw_elastic_figures
from ep_campaign.elastic.plan import read_elastic_plan


def main() -> None:
    """Draws the figures of `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = read_elastic_plan(results.plan)
    draw_elastic_figures(plan, results, read_elastic_statistics(plan, results))


run(main)
