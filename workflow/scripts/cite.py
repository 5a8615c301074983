"""Prints what identifies a sealed campaign, and what superseded it; records the latter with --superseded-by and --reason."""

import json
from pathlib import Path

from ep_campaign.cite import cite, supersede
from ep_campaign.command import parser, results_of, run
from ep_campaign.layout import Results


def main() -> None:
    """Cites `--results`."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--superseded-by", type=Path, metavar="FOLDER", help="results folder that took its place")
    arguments.add_argument("--reason", default="", help="why, in one sentence")
    arguments.add_argument("--json", action="store_true", help="print JSON")
    given = arguments.parse_args()
    results = results_of(given)
    if given.superseded_by is not None:
        supersede(results, Results(given.superseded_by), given.reason)
    citation = cite(results)
    print(json.dumps(citation.as_json(), indent=1, sort_keys=True) if given.json else citation.text())


run(main)
