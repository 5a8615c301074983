"""Prints the plan of a campaign as a table, before anything runs."""

import argparse

from ep_campaign.command import run
from ep_campaign.kinds import preview_any
from ep_campaign.pipeline import SHAPES, campaign_path


def main() -> None:
    """Previews `--campaign`."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--campaign", required=True, help="name of a file of config/campaigns/, without .yaml")
    print(preview_any(campaign_path(arguments.parse_args().campaign), SHAPES), end="")


run(main)
