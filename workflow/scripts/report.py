"""Writes the report of an analysed results folder, whose figures are drawn: RESULTS.md, report.html, pr.md."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.report.write import write_report


def main() -> None:
    """Writes the report of `--results`."""
    for path in write_report(results_of(parser(__doc__ or "").parse_args())):
        print(path)


run(main)
