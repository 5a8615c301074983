"""Copies a finished campaign to S3, after its checksums have been verified."""

from ep_campaign.command import parser, results_of, run
from ep_campaign.publish import publish


def main() -> None:
    """Publishes `--results` under `--to`."""
    arguments = parser(__doc__ or "")
    arguments.add_argument("--to", required=True, help="s3://bucket/prefix; the campaign's name is added")
    given = arguments.parse_args()
    for command in publish(results_of(given), given.to):
        print(" ".join(command), flush=True)


run(main)
