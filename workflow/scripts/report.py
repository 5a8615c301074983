"""Writes the report of an analysed results folder, whose figures are drawn: RESULTS.md, report.html, pr.md."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.products import Stage, check_products, record_products
from ep_campaign.report.write import write_report
from ep_campaign.validate.folder import open_plan


def main() -> None:
    """Writes the report of `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    open_plan(results)  # a folder without a plan is no results folder: that first
    check_products(results, Stage.VALIDATE, Stage.ANALYSE, Stage.PLOTS)
    paths = write_report(results)
    record_products(results, Stage.REPORT, paths)
    for path in paths:
        print(path)


run(main)
