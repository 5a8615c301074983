"""The five-layer observation document, read strictly: a field that is missing or renamed is an error, not a `not yet`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ep_campaign.jsonfile import as_model, parse_object

LAYERS = ("desired", "admitted", "allocated", "ray", "effective")


class Layer(BaseModel):
    """One layer of width; `value` says nothing where it is not known."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, strict=True)

    known: bool = Field(alias="Known")
    value: int = Field(alias="Value")
    reason: str = Field(alias="Reason")


class Observation(BaseModel):
    """What the GPUStack operator writes of an elastic deployment, and our own engine of itself.

    `stable_width` stays at the old width during a resize; `reason` is empty on the pass that completes one. Neither the
    state nor the reason is therefore proof of anything.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, strict=True)

    deployment_uid: str = Field(alias="deploymentUID")
    observed_generation: int = Field(alias="observedGeneration")
    desired: Layer
    admitted: Layer
    allocated: Layer
    ray: Layer
    effective: Layer
    state: str
    reason: str
    stable_width: int = Field(alias="stableWidth")
    master_uid: str = Field(alias="masterUID")

    def layers(self) -> dict[str, Layer]:
        """The five layers, in the order in which a resize passes through them."""
        return {name: getattr(self, name) for name in LAYERS}


def read_observation(text: str, where: str) -> Observation:
    """Reads the document.

    Raises:
        CampaignError: `not_json` and the like, or `observation_drift`, once for each field that is missing, unknown or
            of another type: the target's version writes another document than this system reads.
    """
    value: dict[str, Any] = parse_object(text, where)
    return as_model(Observation, value, "observation_drift", where)
