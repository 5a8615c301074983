"""Writes the report of an analysed elastic results folder."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.elastic.plan import read_elastic_plan
from ep_campaign.elastic.report import write_elastic_report


def main() -> None:
    """Writes the report of `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = read_elastic_plan(results.plan)
    write_elastic_report(plan, results)


run(main)
