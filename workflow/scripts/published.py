"""Prints a published campaign beside this project's verdicts on the same starts."""

import argparse
from pathlib import Path

from ep_campaign.command import run
from ep_campaign.published_schema import load_published
from ep_campaign.published_table import published_table

DEFAULT = Path("config/published/b200-us-east-1-2026-09-01-ep16-n16.json")


def main() -> None:
    """Prints the campaign of the file that is named, or the newest one that ships."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("file", nargs="?", type=Path, default=DEFAULT, help="result summary as published, JSON")
    print(published_table(load_published(arguments.parse_args().file)), end="")


run(main)
