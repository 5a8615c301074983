"""Measures one elastic start in its slot and writes its outcome; one line on standard output says how it went."""

import argparse
from pathlib import Path

from ep_campaign.attempt import die_with_parent
from ep_campaign.command import run
from ep_campaign.elastic.measure import describe_elastic, measure_elastic
from ep_campaign.elastic.plan import read_elastic_plan
from ep_campaign.identity import lock
from ep_campaign.layout import of_outcome


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
    plan = read_elastic_plan(results.plan)
    start = plan.by_id[start_id]
    outcome = measure_elastic(plan, results, start, first_attempt)
    print(describe_elastic(plan, start, outcome), flush=True)
    del held


run(main)
