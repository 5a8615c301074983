"""Draws every figure of a campaign, whatever there is to show; one without data says why in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.figures.boundaries import draw_boundaries
from ep_campaign.figures.diagnostics import draw_diagnostics
from ep_campaign.figures.ep_sizes import draw_ep_sizes
from ep_campaign.figures.forest import draw_forest
from ep_campaign.figures.levels import draw_levels
from ep_campaign.figures.names import Kind, figure_ids
from ep_campaign.figures.rounds import draw_rounds
from ep_campaign.figures.style import save, style
from ep_campaign.figures.tokens import draw_tokens
from ep_campaign.figures.view import View

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan
    from ep_campaign.summary import Summary

_DRAW = {
    Kind.FOREST: draw_forest,
    Kind.LEVELS: draw_levels,
    Kind.ROUNDS: draw_rounds,
    Kind.BOUNDARIES: draw_boundaries,
    Kind.DIAGNOSTICS: draw_diagnostics,
    Kind.EP_SIZES: draw_ep_sizes,
    Kind.TOKENS: draw_tokens,
}


def draw_figures(plan: Plan, summary: Summary, folder: Path) -> list[Path]:
    """Writes every figure of a plan as SVG and PNG; the same inputs give the same bytes.

    Args:
        plan: The plan, which says what figures there are.
        summary: What they show.
        folder: Where they go; made if it is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    view = View(plan, summary)
    paths = []
    with style():
        for figure_id in figure_ids(plan):
            paths += save(_DRAW[figure_id.kind](view, figure_id), folder, figure_id.name)
    return paths
