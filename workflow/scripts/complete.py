"""Completes a results folder: SHA256SUMS, then CAMPAIGN_COMPLETE, or PARTIAL where something is missing."""

import sys

from ep_campaign.command import parser, results_of, run
from ep_campaign.kinds import complete_any


def main() -> None:
    """Completes `--results`."""
    name, state = complete_any(results_of(parser(__doc__ or "").parse_args()))
    print(f"{name}: {state.value}", file=sys.stderr)


run(main)
