"""Validates an elastic results folder: validation.json, or validation-refused.json where inputs contradict."""

import sys

from ep_campaign.command import parser, results_of, run
from ep_campaign.completion import retract
from ep_campaign.elastic.plan import read_elastic_plan
from ep_campaign.elastic.validate import validate_elastic
from ep_campaign.errors import EXIT_REFUSED
from ep_campaign.products import Stage, record_products
from ep_campaign.validate import State
from ep_campaign.validate.report import write


def main() -> None:
    """Validates `--results`."""
    results = results_of(parser(__doc__ or "").parse_args())
    retract(results)
    found = validate_elastic(read_elastic_plan(results.plan), results)
    kept = write(found, results)
    record_products(results, Stage.VALIDATE, [kept])
    print(found.text(), end="", file=sys.stderr)
    if found.state is State.REFUSED:
        raise SystemExit(EXIT_REFUSED)


run(main)
