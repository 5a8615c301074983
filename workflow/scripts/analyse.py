"""Analyses an aggregated results folder: writes tables/cells.parquet, tables/contrasts.parquet and statistics.json."""

from ep_campaign.analysis.stage import analyse
from ep_campaign.command import parser, results_of, run
from ep_campaign.validate.folder import open_plan


def main() -> None:
    """Analyses `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    analyse(open_plan(results), results)


run(main)
