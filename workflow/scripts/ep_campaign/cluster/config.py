"""What is particular to one cluster: a place file, `profiles/<name>/place.yaml`. Nothing of it enters a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from ep_campaign.custody.place import CustodySection
from ep_campaign.load import read_model

if TYPE_CHECKING:
    from pathlib import Path

PLACE_SCHEMA = "ep-campaign/place/1"


class ClusterPlace(BaseModel):
    """One cluster, as far as campaigns need to know it."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    schema_: str = Field(alias="schema", pattern=f"^{PLACE_SCHEMA}$", description="Version of this file format.")
    default_image: str | None = Field(
        default=None,
        pattern=r"^\S+@sha256:[0-9a-f]{64}$",
        description="Image by digest for arms that name none: Python 3.10 or newer, and torch.",
    )
    python: str = Field(default="python3", description="Python of the images: a name on their path, or a path.")
    port: int = Field(default=29500, ge=1024, le=65535, description="Port of the rendezvous on pod 0.")
    nodes: tuple[str, ...] = Field(default=(), description="Names of the nodes that may be used; empty for any.")
    one_pod_a_node: bool = Field(default=True, description="Whether two pods of one start must not share a node.")
    environment: dict[str, str] = Field(default_factory=dict, description="Variables of all ranks, alike for all arms.")
    labels: dict[str, str] = Field(
        default_factory=dict, description="Labels of every object, for example of a queue (kueue.x-k8s.io/queue-name)."
    )
    custody: CustodySection = Field(
        default=CustodySection(), description="Whose the nodes are, whether they are fit, and what joins them."
    )


def load_place(path: Path) -> ClusterPlace:
    """A place file.

    Raises:
        CampaignError: With everything that is wrong with it.
    """
    return read_model(path, ClusterPlace, "bad_place")
