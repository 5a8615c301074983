"""Analyses an aggregated elastic results folder into statistics.json."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.elastic.analyse import analyse_elastic
from ep_campaign.elastic.plan import read_elastic_plan


def main() -> None:
    """Analyses `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = read_elastic_plan(results.plan)
    analyse_elastic(plan, results)


run(main)
