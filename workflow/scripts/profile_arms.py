"""Profiles every arm of one EP size, once for each profile, after its scored starts."""

from ep_campaign.attempt import die_with_parent
from ep_campaign.command import add_place, parser, place_of, results_of, run
from ep_campaign.kernel_times import lines, profile_arms
from ep_campaign.plan import read_plan


def main() -> None:
    """Profiles `--ep-size` for the plan in `--results`."""
    die_with_parent()
    arguments = parser(__doc__ or "")
    arguments.add_argument("--ep-size", required=True, type=int, help="ranks of the EP size")
    add_place(arguments)
    given = arguments.parse_args()
    results = results_of(given)
    record = profile_arms(read_plan(results.plan), results, given.ep_size, place_of(given))
    for line in lines(record):
        print(line, flush=True)


run(main)
