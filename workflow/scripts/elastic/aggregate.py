"""Aggregates a validated elastic results folder into its Parquet tables."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.elastic.aggregate import aggregate_elastic
from ep_campaign.elastic.plan import read_elastic_plan


def main() -> None:
    """Aggregates `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = read_elastic_plan(results.plan)
    aggregate_elastic(plan, results)


run(main)
