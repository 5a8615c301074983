"""Aggregates a validated results folder into tables/attempts.parquet, records.parquet and samples.parquet."""

from ep_campaign.aggregate import aggregate
from ep_campaign.command import parser, results_of, run
from ep_campaign.validate.folder import open_plan


def main() -> None:
    """Aggregates `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    aggregate(open_plan(results), results)


run(main)
