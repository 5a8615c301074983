"""Which figures a campaign has, and what each is called: from the plan alone, before anything ran.

No plotting library is imported here: a Snakefile asks this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ep_campaign.plan import Plan

SUFFIXES = (".svg", ".png")


class Kind(StrEnum):
    """What a figure shows."""

    FOREST = "forest"
    LEVELS = "levels"
    ROUNDS = "rounds"
    BOUNDARIES = "boundaries"
    DIAGNOSTICS = "diagnostics"
    EP_SIZES = "ep-sizes"
    TOKENS = "tokens"


OF_A_PROFILE = (Kind.LEVELS, Kind.ROUNDS, Kind.BOUNDARIES, Kind.DIAGNOSTICS)
"""Kinds that are drawn once for each EP size and profile."""


@dataclass(frozen=True)
class FigureId:
    """One figure.

    Attributes:
        kind: What it shows.
        ep_size: Ranks; None where it covers all.
        profile: Profile; None where it covers all.
    """

    kind: Kind
    ep_size: int | None = None
    profile: str | None = None

    @property
    def name(self) -> str:
        """Name of its files, without suffix."""
        parts = [self.kind.value, *([f"ep{self.ep_size}"] if self.ep_size else []), *filter(None, [self.profile])]
        return "-".join(parts)

    @property
    def of(self) -> str:
        """What it covers, for its title."""
        if self.ep_size is None:
            return "all cells"
        return f"EP {self.ep_size}, {self.profile}" if self.profile else f"EP {self.ep_size}"


def figure_ids(plan: Plan) -> tuple[FigureId, ...]:
    """Every figure of a campaign, in the order of its report: the verdicts' figure first."""
    sizes = [entry["ranks"] for entry in plan.document["ep_sizes"]]
    found = [FigureId(Kind.FOREST)]
    if plan.token_profiles():
        found += [FigureId(Kind.TOKENS, size) for size in sizes]
    # A sweep has its curves: four figures for each of its many profiles would hide them.
    found += [
        FigureId(kind, size, profile)
        for size in sizes
        for profile in plan.document["profiles"]
        if profile not in plan.sweep
        for kind in OF_A_PROFILE
    ]
    if len(sizes) > 1:
        found.append(FigureId(Kind.EP_SIZES))
    return tuple(found)


def figure_names(plan: Plan) -> list[str]:
    """Names of a campaign's figures, without suffix."""
    return [figure.name for figure in figure_ids(plan)]
