"""Which kind of campaign a file or a results folder is, and the plan that follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.elastic.expand import load_elastic_plan
from ep_campaign.errors import refuse
from ep_campaign.expand import load_plan
from ep_campaign.load import read_yaml

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.plan import Plan

KINDS = ("comparison", "elastic")


def load_any_plan(campaign_path: Path, shapes_path: Path) -> Plan | ElasticPlan:
    """The plan of a campaign file of any kind.

    Raises:
        CampaignError: `unknown_kind`, or every refusal that the file earns.
    """
    value = read_yaml(campaign_path)
    kind = value.get("kind", KINDS[0]) if isinstance(value, dict) else KINDS[0]
    if kind not in KINDS:
        raise refuse("unknown_kind", f"found {kind!r}, expected one of {', '.join(KINDS)}", f"{campaign_path}: kind")
    if kind == "elastic":
        return load_elastic_plan(value, campaign_path)
    return load_plan(campaign_path, shapes_path)
