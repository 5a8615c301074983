"""The figures of a campaign. Their names follow from the plan and cost nothing; `figures.draw` makes them."""

from ep_campaign.figures.names import SUFFIXES, FigureId, Kind, figure_ids, figure_names

__all__ = ["SUFFIXES", "FigureId", "Kind", "figure_ids", "figure_names"]
