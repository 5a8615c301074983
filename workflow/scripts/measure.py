"""Measures one start in its slot and writes its outcome; one line on standard output says how it went."""

import argparse
from pathlib import Path

from ep_campaign.attempt import die_with_parent
from ep_campaign.command import run
from ep_campaign.identity import lock
from ep_campaign.layout import of_outcome
from ep_campaign.local import ThisMachine
from ep_campaign.measure import describe, measure
from ep_campaign.plan import read_plan


def main() -> None:
    """Runs the job whose outcome is `--outcome`."""
    die_with_parent()
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument(
        "--outcome", required=True, type=Path, help="the outcome to write: results/<campaign>/starts/..."
    )
    results, start_id, first_attempt = of_outcome(arguments.parse_args().outcome)
    # Snakemake runs one start at a time by its node_set resource; a command line without it must not run two.
    held = lock(results.root / "logs" / ".measure.lock", "measurement", wait=True)
    plan = read_plan(results.plan)
    start = plan.by_id[start_id]
    outcome = measure(plan, results, start, first_attempt, ThisMachine())
    print(describe(plan, results, start, outcome), flush=True)
    del held


run(main)
