"""One attempt as the checks see it: its record beside the start and specification that the plan has for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan, Start
    from ep_campaign.startfile import StartFile
    from ep_worker.contract.capabilities import Capability
    from ep_worker.contract.spec import StartSpec


@dataclass(frozen=True)
class Attempt:
    """One attempt that a job accounts for.

    Attributes:
        plan: The plan.
        start: The start that it tries.
        spec: What its ranks must have been told.
        folder: Its folder.
        file: Path of its record, relative to the results folder.
        record: Its record.
        scored: Whether it is the attempt that counts: the last one of its start's last job.
        first_job: Whether its start's first job made it.
    """

    plan: Plan
    start: Start
    spec: StartSpec
    folder: Path
    file: str
    record: StartFile
    scored: bool
    first_job: bool

    @property
    def capability(self) -> Capability:
        """What the arm's interface can do."""
        return self.plan.capability(self.start.arm, self.start.profile)
