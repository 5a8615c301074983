"""What a place says of custody: where and on what starts run. Nothing of it enters a plan's digest."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, field_validator, model_validator

from ep_campaign.campaign import IMAGE_BY_DIGEST, Section
from ep_campaign.custody.audit import AuditNeeds
from ep_campaign.custody.nodes import NodeNeeds
from ep_campaign.custody.transport import Fabric

Label = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$")]


class LeaseMode(StrEnum):
    """EXCLUSIVE: take the lease. OBSERVE: somebody holds it for us; look, and never write. OFF: no lease."""

    EXCLUSIVE = "exclusive"
    OBSERVE = "observe"
    OFF = "off"


class LeaseSection(Section):
    """The Lease of the node set."""

    name: Label = Field(default="ep-campaign", description="Name of the Lease object; one for each node set.")
    mode: LeaseMode = Field(
        default=LeaseMode.EXCLUSIVE,
        description="exclusive: take it; observe: expected_holder holds it for us, look only; off: nobody else comes near.",
    )
    duration_s: int = Field(
        default=60, ge=4, le=86_400, description="How long a renewal is good [s]; a quarter of it passes between two."
    )
    expected_holder: str = Field(default="", description="observe: who must hold the lease.")

    @model_validator(mode="after")
    def _somebody_to_observe(self) -> LeaseSection:
        if (self.mode is LeaseMode.OBSERVE) != bool(self.expected_holder):
            msg = f"mode is {self.mode.value}, expected_holder is {self.expected_holder!r}; observe needs one, others take none"
            raise ValueError(msg)
        return self


class NodesSection(Section):
    """What the named nodes must be."""

    instance_type: str = Field(default="", description="What each must be; empty for anything.")
    resources: dict[str, Annotated[int, Field(gt=0)]] = Field(
        default_factory=dict,
        description="Extended resources that each must have allocatable, and of which nobody else may hold any.",
    )
    protected: tuple[str, ...] = Field(default=(), description="Nodes that no start may ever use.")
    wait_s: float = Field(default=300.0, ge=0, description="How long pods on their way out are waited for [s].")

    def needs(self, names: tuple[str, ...], num_nodes: int, own: tuple[str, str]) -> NodeNeeds:
        """What is asked of the named nodes, of which so many must be there."""
        return NodeNeeds(
            names=names,
            resources=self.resources,
            exclusive=tuple(sorted(self.resources)),
            instance_type=self.instance_type,
            protected=self.protected,
            own=own,
            num_nodes=num_nodes,
        )


class AuditSection(Section):
    """What pods of a pinned image must see of their nodes, before the first scored start."""

    image: str = Field(description="Image by digest; any with Python 3.10 will do, such as that of an arm.")
    modules: dict[str, str] = Field(
        default_factory=dict, description="Kernel modules that must be loaded, with their least version; empty for any."
    )
    parameters: dict[str, str] = Field(
        default_factory=dict, description="Module parameters as module/parameter, and their values."
    )
    character_devices: tuple[str, ...] = Field(default=(), description="Device files that the pod must see.")
    nics: dict[str, int] = Field(default_factory=dict, description="Least number of NICs of each driver.")
    num_gpus: int = Field(default=0, ge=0, description="Least number of GPUs.")
    memlock_bytes: int = Field(default=0, ge=0, description="Least limit on locked memory [bytes].")

    @field_validator("image")
    @classmethod
    def _by_digest(cls, value: str) -> str:
        if not IMAGE_BY_DIGEST.match(value):
            msg = f"image {value!r} is not pinned by digest; expected repository@sha256:<64 hex digits>: a tag can move"
            raise ValueError(msg)
        return value

    def needs(self) -> AuditNeeds:
        """The same, as it is judged."""
        return AuditNeeds(
            modules=self.modules,
            parameters=self.parameters,
            character_devices=self.character_devices,
            nics=self.nics,
            num_gpus=self.num_gpus,
            memlock_bytes=self.memlock_bytes,
        )


class CustodySection(Section):
    """Whose the nodes are, and whether they are fit."""

    lease: LeaseSection = Field(default=LeaseSection(), description="The Lease of the node set.")
    nodes: NodesSection = Field(default=NodesSection(), description="What the named nodes must be.")
    audit: AuditSection | None = Field(default=None, description="What pods must see of their nodes; null: no audit.")
    fabric: Fabric = Field(
        default=Fabric.SOCKET, description="What must carry the bytes between nodes; socket and none need no proof."
    )
