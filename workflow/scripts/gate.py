"""Says whether a build may pass. Exit status 0: no regression; 10: regression; 11: not resolved; 12: incomplete; 2: refused."""

import sys
from pathlib import Path

from ep_campaign.command import parser, results_of, run
from ep_campaign.gate import open_gate
from ep_campaign.seal import check_seal
from ep_campaign.summary import read_summary
from ep_worker.contract.canonical import pretty_json, write_atomically


def main() -> None:
    """Gates the family of `--results`, which must be sealed."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--threshold", type=float, help="slowdown that is tolerated, as a share (0.05 is 5 %%)")
    arguments.add_argument("--arm", action="append", default=[], help="an arm that must pass; default all")
    arguments.add_argument(
        "--loop", action="append", default=[], help="roundtrip, dispatch or combine; default all judged"
    )
    arguments.add_argument("--profile", action="append", default=[], help="a profile; default all")
    arguments.add_argument("--json", type=Path, help="file to write the answer to")
    given = arguments.parse_args()
    results = results_of(given)
    check_seal(results)
    gate = open_gate(
        read_summary(results.statistics),
        threshold=given.threshold,
        arms=given.arm,
        loops=given.loop,
        profiles=given.profile,
    )
    print(gate.text())
    if given.json:
        write_atomically(given.json, pretty_json(gate.as_json()))
    sys.exit(gate.exit_status)


run(main)
