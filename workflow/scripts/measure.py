"""Measures one start in its slot and writes its outcome; one line on standard output says how it went."""

from ep_campaign.attempt import die_with_parent
from ep_campaign.command import parser, results_of, run
from ep_campaign.identity import lock
from ep_campaign.measure import describe, measure
from ep_campaign.plan import read_plan


def main() -> None:
    """Runs the job of `--start` that begins with `--first-attempt`."""
    die_with_parent()
    arguments = parser(__doc__ or "")
    arguments.add_argument("--start", required=True, help="id of the start: ep<N>/<profile>/round-<RR>/<arm>")
    arguments.add_argument("--first-attempt", required=True, type=int, help="number of the job's first attempt")
    given = arguments.parse_args()
    results = results_of(given)
    # Snakemake runs one start at a time by its node_set resource; a command line without it must not run two.
    held = lock(results.root / "logs" / ".measure.lock", "measurement", wait=True)
    plan = read_plan(results.plan)
    start = plan.by_id[given.start]
    outcome = measure(plan, results, start, given.first_attempt)
    print(describe(plan, results, start, outcome), flush=True)
    del held


run(main)
