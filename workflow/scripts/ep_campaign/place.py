"""Where starts run: what a measurement asks of this machine, or of a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.errors import Refusal
    from ep_campaign.plan import Plan
    from ep_worker.contract.spec import StartSpec


@dataclass(frozen=True)
class Fitness:
    """What a place is found to be before anything is measured there.

    Attributes:
        observed: What it offers, for the admission record.
        refusals: What stops the campaign.
        notes: What a reader of the numbers should know: `code` and `text`.
    """

    observed: dict[str, Any]
    refusals: list[Refusal]
    notes: list[dict[str, str]]


class Place(Protocol):
    """A place where all ranks of one start can be launched."""

    def fitness(self, plan: Plan, folder: Path, ep_size: int) -> Fitness:
        """Whether starts of an EP size can be measured here.

        Args:
            plan: The plan.
            folder: The results folder.
            ep_size: Ranks.
        """

    def launch(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any]:
        """Runs all ranks of a start to their end, and leaves their files in `folder`.

        Args:
            folder: The attempt's folder, with `spec.json` and traces.
            spec: What the ranks are told.
            attempt: Number of the attempt.
            image: The arm's container image by digest; None where the arm names none.

        Returns:
            How the processes ended (`ep_worker.outcome`): `outcome`, `status`, `reason_code`, `reason`, `ranks`.

        Raises:
            CampaignError: The place itself is out of reach: what runs may run on, and the attempt is not over.
        """

    def resume(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any] | None:
        """What `launch` would return of an attempt whose controller died, waiting for it if it still runs.

        None where nothing of it is left but its files.
        """
