"""Prints the verdicts of a campaign: what a run ends with."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.summary import read_summary
from ep_campaign.verdict_table import verdict_table


def main() -> None:
    """Prints the verdict table of `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    print(verdict_table(read_summary(results.statistics), results.root / "RESULTS.md"), end="")


run(main)
