"""Writes the plan of a campaign into its results folder, once, with the traces that it names."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.planning import write_plan


def main() -> None:
    """Plans `--campaign` into `--results`."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--campaign", required=True, help="name of a file of config/campaigns/, without .yaml")
    given = arguments.parse_args()
    write_plan(given.campaign, results_of(given))


run(main)
