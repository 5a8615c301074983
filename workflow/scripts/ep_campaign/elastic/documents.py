"""What is generated from the models of elastic campaigns: their JSON Schema and the tables of their fields."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ep_campaign.elastic.campaign import (
    ElasticArm,
    ElasticCampaign,
    ElasticCell,
    ElasticLimits,
    ElasticState,
    PromptModel,
    ResizeModel,
    SloTargets,
    Target,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

ELASTIC_SECTIONS: tuple[tuple[str, type[BaseModel]], ...] = (
    ("Campaign", ElasticCampaign),
    ("target", Target),
    ("arms", ElasticArm),
    ("states", ElasticState),
    ("cells", ElasticCell),
    ("prompt", PromptModel),
    ("resize", ResizeModel),
    ("targets", SloTargets),
    ("limits", ElasticLimits),
)

ELASTIC_README = """\
# Elastic campaign files

A file `config/campaigns/<name>.yaml` with `kind: elastic`. [docs/elastic.md](../docs/elastic.md) says what its words mean;
`elastic.schema.json` lets an editor complete and check it; `campaigns/cpu-elastic.yaml` and `campaigns/h100-width-2-4.yaml`
are examples. Manifests of deployments lie in `manifests/`: templates, in which a driver sets the width and nothing else.

The tables below are generated from the models in `workflow/scripts/ep_campaign/elastic/campaign.py` by `make documents`.
"""


def elastic_schema() -> str:
    """JSON Schema of an elastic campaign file."""
    return json.dumps(ElasticCampaign.model_json_schema(by_alias=True), indent=1, sort_keys=True) + "\n"
