"""Prints the verdicts of a campaign: what a run ends with. Exit status 3 where the campaign is PARTIAL."""

import sys

from ep_campaign.command import parser, results_of, run
from ep_campaign.kinds import ending_text
from ep_campaign.validate.finding import State

EXIT_PARTIAL = 3


def main() -> None:
    """Prints the verdict table of `--results`."""
    text, state = ending_text(results_of(parser(__doc__ or "").parse_args()))
    print(text, end="")
    if state is State.PARTIAL:
        sys.exit(EXIT_PARTIAL)


run(main)
