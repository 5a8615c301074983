"""A published campaign as text: what its file states beside this project's exact verdicts on the same starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.numbers import p_text, plural, ratio_text
from ep_campaign.published import mismatches, side_by_side
from ep_campaign.stats.published_compat import CANDIDATE

if TYPE_CHECKING:
    from ep_campaign.published import ContrastNumbers, SideBySide
    from ep_campaign.published_schema import PublishedCampaign

_FORM = "{:<26}{:<19}{:<36}{:<30}{:>10}  {}"
_HEAD = ("cell", "arm", "published: improvement [%]", "here: ratio, exact interval", "adjusted p", "verdict here")


def published_table(campaign: PublishedCampaign) -> str:
    """The whole text: whether the file follows from its own values, then one line a contrast.

    The published improvement is the candidate's over the arm, positive where the candidate is faster; the ratio is arm over
    candidate on latency, above 1 where the arm is slower.
    """
    rows = side_by_side(campaign, reference=CANDIDATE)
    wrong = mismatches(campaign)
    lines = [
        f"{plural(campaign.independent_starts_per_cell, 'start')} per cell and arm, reference {rows[0].reference.value}",
        "Every stated number follows from the file's own per-start values."
        if not wrong
        else f"Stated numbers that do not follow from the file's own per-start values: {len(wrong)}",
        *(f"  {item.where}: {item.field}: stated {item.stated}, recomputed {item.recomputed}" for item in wrong),
        "",
        _line(_HEAD),
        *(_line(_row(row)) for row in rows),
        "",
        f"Published intervals: {rows[0].coverage_note}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return _FORM.format(*cells).rstrip()


def _row(row: SideBySide) -> tuple[str, ...]:
    judged = row.judgement
    stated = _published(row.published) if row.published else "not compared"
    comparison = judged.comparison
    if comparison is None:
        return (row.cell, row.arm.value, stated, "no complete round", "", str(judged.decision))
    ours = ratio_text(comparison.ratio)
    if comparison.lo is not None:
        ours += f" [{ratio_text(comparison.lo)}, {ratio_text(comparison.hi)}]"
    return (row.cell, row.arm.value, stated, ours, p_text(judged.adjusted_p), str(judged.decision))


def _published(stated: ContrastNumbers) -> str:
    lo, hi = stated.bootstrap_95_percent_ci_improvement_percent
    supported = "supported" if stated.direction_supported else "not supported"
    return f"{stated.median_paired_improvement_percent:+.1f} [{lo:+.1f}, {hi:+.1f}] {supported}"
