"""Writing the plan: once, with every trace that it names beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.identity import check_plan
from ep_campaign.kinds import load_any_plan
from ep_campaign.load import load_campaign
from ep_campaign.pipeline import SHAPES, campaign_path
from ep_campaign.plan import TIMED_KINDS
from ep_campaign.routes import read_trace
from ep_worker.contract.canonical import sha256_text, write_atomically

if TYPE_CHECKING:
    from ep_campaign.layout import Results

READ_ONLY = 0o444


def write_plan(campaign: str, results: Results) -> None:
    """Writes `plan.json` and the traces, read-only.

    Raises:
        CampaignError: The campaign is refused, or the folder holds another plan.
    """
    path = campaign_path(campaign)
    plan = load_any_plan(path, SHAPES)
    check_plan(plan, results)
    results.root.mkdir(parents=True, exist_ok=True)
    for route in load_campaign(path, SHAPES).routes if plan.kind in TIMED_KINDS else ():
        if route.trace is not None:
            text = read_trace(path.parent / route.trace)
            target = results.root / "traces" / f"{sha256_text(text)}.csv"
            target.parent.mkdir(exist_ok=True)
            write_atomically(target, text, mode=READ_ONLY)
    write_atomically(results.plan, plan.text(), mode=READ_ONLY)
