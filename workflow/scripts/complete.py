"""Completes a results folder: SHA256SUMS, then CAMPAIGN_COMPLETE, or PARTIAL where something is missing."""

import sys

from ep_campaign.command import parser, results_of, run
from ep_campaign.completion import complete
from ep_campaign.validate.folder import open_plan


def main() -> None:
    """Completes `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    plan = open_plan(results)
    print(f"{plan.name}: {complete(plan, results).value}", file=sys.stderr)


run(main)
