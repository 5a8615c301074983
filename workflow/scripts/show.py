"""Prints the verdicts of a sealed campaign: what a run ends with. Exit status 3 where it is PARTIAL, 2 where it is altered."""

import sys

from ep_campaign.cite import successor
from ep_campaign.command import parser, results_of, run
from ep_campaign.kinds import ending_text
from ep_campaign.seal import check_seal
from ep_campaign.validate.finding import State

EXIT_PARTIAL = 3


def main() -> None:
    """Prints the verdict table of `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    check_seal(results)
    text, state = ending_text(results)
    print(text, end="")
    if (superseded := successor(results)) is not None:
        print(f"SUPERSEDED by {superseded.by_campaign}: {superseded.reason}")
    if state is State.PARTIAL:
        sys.exit(EXIT_PARTIAL)


run(main)
