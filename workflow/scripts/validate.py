"""Validates a results folder: writes validation.json, or validation-refused.json and nothing else where inputs contradict."""

import sys

from ep_campaign.command import parser, results_of, run
from ep_campaign.completion import retract
from ep_campaign.errors import EXIT_REFUSED
from ep_campaign.validate import State, validate
from ep_campaign.validate.folder import open_plan
from ep_campaign.validate.report import write


def main() -> None:
    """Validates `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    retract(results)
    found = validate(open_plan(results), results)
    kept = write(found, results)
    print(found.text(), end="", file=sys.stderr)
    if found.violations:
        print(f"Every place, one by one: {kept}", file=sys.stderr)
    if found.state is State.REFUSED:
        raise SystemExit(EXIT_REFUSED)


run(main)
