"""Which kind of campaign a file or a results folder is, and what follows from it: the few places where kinds meet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.elastic.expand import load_elastic_plan
from ep_campaign.errors import refuse
from ep_campaign.expand import load_plan
from ep_campaign.load import read_yaml
from ep_campaign.plan import TIMED_KINDS
from ep_campaign.plan_document import read_document
from ep_campaign.validate.finding import State

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan

KINDS = (*TIMED_KINDS, "elastic")


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


def complete_any(results: Results) -> tuple[str, State]:
    """Completes a results folder of any kind; the campaign's name and the folder's state.

    Raises:
        CampaignError: As `completion.seal` does.
    """
    if _kind_of(results) == "elastic":
        from ep_campaign.elastic.completion import complete_elastic  # noqa: PLC0415 - tables, only where they are needed
        from ep_campaign.elastic.plan import read_elastic_plan  # noqa: PLC0415

        elastic = read_elastic_plan(results.plan)
        return elastic.name, complete_elastic(elastic, results)
    from ep_campaign.completion import complete  # noqa: PLC0415
    from ep_campaign.validate.folder import open_plan  # noqa: PLC0415

    plan = open_plan(results)
    return plan.name, complete(plan, results)


def ending_text(results: Results) -> tuple[str, State]:
    """What a run of any kind ends with in a terminal, and the folder's state.

    Raises:
        CampaignError: The folder was not analysed.
    """
    if _kind_of(results) == "elastic":
        from ep_campaign.elastic.ending import elastic_ending  # noqa: PLC0415

        return elastic_ending(results)
    from ep_campaign.summary import read_summary  # noqa: PLC0415
    from ep_campaign.verdict_table import verdict_table  # noqa: PLC0415

    summary = read_summary(results.statistics)
    return verdict_table(summary, results.root / "RESULTS.md"), State(summary.head.state.value)


def preview_any(campaign_path: Path, shapes_path: Path) -> str:
    """The plan of a campaign file of any kind as a table.

    Raises:
        CampaignError: As `load_any_plan`.
    """
    from ep_campaign.elastic.plan import ElasticPlan  # noqa: PLC0415

    plan = load_any_plan(campaign_path, shapes_path)
    if isinstance(plan, ElasticPlan):
        from ep_campaign.elastic.ending import elastic_preview  # noqa: PLC0415

        return elastic_preview(plan)
    from ep_campaign.preview import preview  # noqa: PLC0415

    return preview(plan)


def _kind_of(results: Results) -> str:
    """The kind that a folder's plan names; a folder without one is asked as a comparison, which says what is missing."""
    return str(read_document(results.plan)["kind"]) if results.plan.exists() else KINDS[0]
