"""Takes back what another machine has run of a bundle, with every check; the summary is then made as always."""

from pathlib import Path

from ep_campaign.bundle import unpack
from ep_campaign.command import parser, results_of, run
from ep_campaign.identity import lock
from ep_campaign.plan import read_plan


def main() -> None:
    """Takes `--bundle` back into `--results`."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--bundle", required=True, type=Path, help="the folder that came back")
    given = arguments.parse_args()
    results = results_of(given)
    held = lock(results.root / "logs" / ".measure.lock", "measurement")
    done = unpack(read_plan(results.plan), results, given.bundle)
    print(f"taken {len(done.taken)}, here already {len(done.already)}, not returned {len(done.missing)}")
    del held


run(main)
