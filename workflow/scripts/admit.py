"""Admits one EP size: host checks and one brief run of each arm, before its first scored start."""

from ep_campaign.admission import admit, lines
from ep_campaign.attempt import die_with_parent
from ep_campaign.command import parser, results_of, run
from ep_campaign.local import ThisMachine
from ep_campaign.plan import read_plan


def main() -> None:
    """Admits `--ep-size` for the plan in `--results`."""
    die_with_parent()
    arguments = parser(__doc__ or "")
    arguments.add_argument("--ep-size", required=True, type=int, help="ranks of the EP size")
    given = arguments.parse_args()
    results = results_of(given)
    record = admit(read_plan(results.plan), results, given.ep_size, ThisMachine())
    for line in lines(given.ep_size, record):
        print(line, flush=True)


run(main)
