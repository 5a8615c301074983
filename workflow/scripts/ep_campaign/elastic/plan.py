"""The plan of an elastic campaign as every stage reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ep_campaign.plan_document import PlanDocument, read_document

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class ElasticStart:
    """One start: a serving sweep, or one live resize.

    Attributes:
        id: `w<width>/<state>/round-<RR>/<arm>`, also its folder under `starts/`.
        position: Place in the campaign's order, from 0.
        round: From 1.
        width: The last width.
        state: What is done with the width.
        arm: Configuration of the target.
        order_position: Place among the arms of its round and state, from 1.
    """

    id: str
    position: int
    round: int
    width: int
    state: str
    arm: str
    order_position: int


@dataclass(frozen=True)
class ElasticPlan(PlanDocument):
    """A resolved elastic campaign."""

    @cached_property
    def starts(self) -> tuple[ElasticStart, ...]:
        """Every start, in order."""
        return tuple(ElasticStart(**item) for item in self.document["starts"])

    @cached_property
    def by_id(self) -> dict[str, ElasticStart]:
        """Starts by id."""
        return {start.id: start for start in self.starts}

    @property
    def arms(self) -> dict[str, dict[str, Any]]:
        """Arms as they are shown everywhere: the reference first, then as declared."""
        reference = self.document["reference"]
        return self._ordered("arms", [reference, *(one for one in self.document["order"]["arms"] if one != reference)])

    @property
    def states(self) -> dict[str, dict[str, Any]]:
        """States, as declared."""
        return self._ordered("states", self.document["order"]["states"])

    @property
    def cells(self) -> dict[str, dict[str, Any]]:
        """Cells, as declared, which is the order in which a sweep runs them."""
        return self._ordered("cells", self.document["order"]["cells"])

    def _ordered(self, part: str, names: list[str]) -> dict[str, dict[str, Any]]:
        """A part in its declared order, which the sorted keys of a JSON file do not keep."""
        return {name: self.document[part][name] for name in names}

    @property
    def gpus_per_width(self) -> int:
        """Accelerators of one unit of width."""
        return int(self.document["target"]["gpus_per_width"])

    def state(self, name: str) -> dict[str, Any]:
        """A declared state."""
        return dict(self.document["states"][name])

    def num_gpus(self, state: str) -> int:
        """Accelerators that a state holds at its last width."""
        declared = self.state(state)
        return int(declared["widths"][-1] * declared["deployments"] * self.gpus_per_width)

    def num_slots(self, state: str) -> int:
        """Requests that are served at a time at the last width; more wait."""
        declared = self.state(state)
        return int(declared["widths"][-1] * declared["deployments"] * self.document["target"]["max_num_seqs"])

    @property
    def sweeps(self) -> list[str]:
        """Names of the states that sweep, in order."""
        return [name for name, state in self.states.items() if state["kind"] == "sweep"]

    @property
    def resizes(self) -> list[str]:
        """Names of the states that resize under load, in order."""
        return [name for name, state in self.states.items() if state["kind"] == "resize"]


def read_elastic_plan(path: Path) -> ElasticPlan:
    """The plan of a results folder.

    Raises:
        CampaignError: As `read_document` does.
    """
    return ElasticPlan(read_document(path))
