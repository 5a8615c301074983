"""Packs what is left to measure of a campaign into a folder for another machine: there, `python3 -m ep_worker run .` in it."""

from pathlib import Path

from ep_campaign.bundle import pack
from ep_campaign.command import parser, results_of, run
from ep_campaign.plan import read_plan
from ep_campaign.planning import write_plan


def main() -> None:
    """Plans `--campaign` into `--results` where it is not, and writes `--bundle`."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--campaign", required=True, help="name of a file of config/campaigns/, without .yaml")
    arguments.add_argument("--bundle", required=True, type=Path, help="folder to write")
    arguments.add_argument("--limit", type=int, help="most scored starts")
    given = arguments.parse_args()
    results = results_of(given)
    if not results.plan.exists():
        write_plan(given.campaign, results)
    manifest = pack(read_plan(results.plan), results, given.bundle, given.limit)
    print(f"{given.bundle}: {len(manifest.entries)} launches; on the other machine: python3 -m ep_worker run .")


run(main)
