"""Sets two finished campaigns side by side: results folders, or files of published campaigns. Refuses what is not sealed."""

import argparse
from pathlib import Path

from ep_campaign.command import run
from ep_campaign.compare.judge import compare_sides
from ep_campaign.compare.side import read_side
from ep_campaign.compare.text import as_json, as_markdown
from ep_worker.contract.canonical import pretty_json, write_atomically


def main() -> None:
    """Compares the second with the first."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("first", type=Path, help="results folder, or a published campaign's file")
    arguments.add_argument("second", type=Path, help="the other; ratios are its times over the first's")
    arguments.add_argument("--json", type=Path, help="file to write the comparison to")
    given = arguments.parse_args()
    found = compare_sides(read_side(given.first), read_side(given.second))
    print(as_markdown(found), end="")
    if given.json:
        write_atomically(given.json, pretty_json(as_json(found)))


run(main)
