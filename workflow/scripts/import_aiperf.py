"""Prints the figures of an aiperf export (`profile_export.jsonl`) by this project's definitions, as JSON."""

import argparse
import sys
from pathlib import Path

from ep_campaign.command import run
from ep_campaign.elastic.aiperf import figures, import_aiperf
from ep_worker.contract.canonical import pretty_json


def main() -> None:
    """Reads the file that is named and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("export", type=Path, help="profile_export.jsonl")
    export = parser.parse_args().export
    sys.stdout.write(pretty_json(figures(import_aiperf(export, export.parent.name))))


if __name__ == "__main__":
    run(main)
