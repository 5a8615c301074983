"""The verdicts of a campaign as plain text: what a run ends with in a terminal, at most 120 columns wide."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import TYPE_CHECKING

from ep_campaign.numbers import listing, p_text, plural, ratio_text, significant, span
from ep_campaign.report.words import lost_rounds
from ep_campaign.summary import Role, State
from ep_worker.contract.terms import Loop

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.summary import Contrast, Launches, Level, Summary

WIDTH = 120
MAX_REASONS = 3
MAX_NAME = 28
_HEAD = ("", "latency [us]", "ratio and interval", "adjusted p", "verdict")
_NUMBERS = ("{:>12}", "{:<32}", "{:>10}")


def verdict_table(summary: Summary, report: Path) -> str:
    """The whole text.

    Args:
        summary: What `statistics.json` holds.
        report: Where the report lies.
    """
    sections = [
        _head(summary),
        *_cells(summary),
        _not_judged(summary),
        _launches(summary),
        _state(summary),
        f"Report: {report}",
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(summary: Summary) -> str:
    head, family = summary.head, summary.head.family
    if family.num_contrasts:
        judged = (
            f"{plural(family.num_contrasts, 'contrast')} against {head.reference}, {family.test.value.replace('_', '-')} test, "
            f"Holm at {family.alpha:g}, practical threshold {family.practical_threshold:.0%}"
        )
    else:
        judged = f"no declared family: ratios to {head.reference} are described, none is judged"
    legend = f"Latency: median over starts (of one or two: their values). Ratio: arm / {head.reference}; below 1 the arm is faster."
    return (
        f"{head.campaign}: {head.primary_boundary.value}, {head.primary_mode.value}, slowest rank, round-trip\n"
        f"{_wrapped(judged, '')}\n{_wrapped(legend, '')}"
    )


def _cells(summary: Summary) -> list[str]:
    """A block for each cell, with its arms in the plan's order."""
    levels: dict[str, list[Level]] = {}
    for level in summary.levels:
        if level.primary:
            levels.setdefault(level.cell, []).append(level)
    shown = [item for item in summary.contrasts if item.role is not Role.SECONDARY]
    contrasts = {(item.cell, item.arm): item for item in shown if item.loop is Loop.ROUNDTRIP}
    phases: dict[str, list[Contrast]] = {}
    for item in shown:
        if item.loop is not Loop.ROUNDTRIP:
            phases.setdefault(item.place, []).append(item)
    width = min(MAX_NAME, max((len(arm.name) for arm in summary.head.arms), default=0))
    head = _line(_HEAD[0], _HEAD[1:4], _HEAD[4], width)
    blocks: list[str] = []
    for cell, found in levels.items():
        rows = [_row(level, contrasts.get((cell, level.arm)), summary.head.reference, width) for level in found]
        blocks.append("\n".join([cell, *([head] if not blocks else []), *rows, *_unsupported(summary, cell)]))
    for place, alone in phases.items():
        rows = [_row(summary.level(item, item.arm), item, summary.head.reference, width) for item in alone]
        blocks.append("\n".join([place, *rows]))
    return blocks


def _row(level: Level, contrast: Contrast | None, reference: str, width: int) -> str:
    median = significant(level.median_us) if level.printable.summary else _values(level)
    if level.arm == reference:
        return _line(level.arm, (median, "reference", ""), _lack(level), width)
    if contrast is None:
        return _line(level.arm, (median, "", ""), _lack(level) or "no contrast: the reference does not run here", width)
    adjusted = p_text(contrast.adjusted_p) if contrast.printable.verdicts else ""
    return _line(level.arm, (median, _ratio(contrast), adjusted), _verdict(contrast), width)


def _values(level: Level) -> str:
    """One or two start values in place of a median."""
    return " ".join(significant(value) for value in level.values_us) or "-"


def _lack(level: Level) -> str:
    missing = Counter(
        "no attempt" if item.status is None else item.status.value.replace("_", " ") for item in level.missing
    )
    listed = ", ".join(f"{number} {status}" for status, number in sorted(missing.items()))
    return f"{len(level.rounds)} of {plural(level.num_rounds, 'start')} ok ({listed})" if missing else ""


def _ratio(contrast: Contrast) -> str:
    if contrast.interval is not None:
        lo, hi = ratio_text(contrast.interval.lo), ratio_text(contrast.interval.hi)
        return f"{ratio_text(contrast.ratio)} [{lo}, {hi}] {100 * contrast.interval.level:.1f} %"
    if contrast.ratio_of_medians is not None:
        lo, hi = ratio_text(min(contrast.ratios)), ratio_text(max(contrast.ratios))
        return f"{ratio_text(contrast.ratio_of_medians)} (rounds {lo} to {hi})"
    return " ".join(ratio_text(ratio) for ratio in contrast.ratios) or "-"


def _verdict(contrast: Contrast) -> str:
    """The verdict, what it was without late starts, and how many rounds do not count."""
    if contrast.role is Role.FAMILY and contrast.ruling is not None:
        said = str(contrast.ruling)
        if contrast.ruling_without_late not in (None, contrast.ruling):
            said += f"; without late starts {contrast.ruling_without_late}"
    elif contrast.ruling is not None:
        said = str(contrast.ruling)
    else:
        said = "not judged"
    if not contrast.rounds and contrast.excluded:
        return lost_rounds(contrast)
    lost = contrast.num_rounds - len(contrast.rounds)
    return f"{said}; {len(contrast.rounds)} of {plural(contrast.num_rounds, 'round')}" if lost else said


def _line(name: str, numbers: tuple[str, ...], verdict: str, width: int) -> str:
    """One row; a verdict too long for it goes on below itself."""
    shown = name if len(name) <= width else f"{name[: width - 1]}\N{HORIZONTAL ELLIPSIS}"
    cells = [form.format(value) for form, value in zip(_NUMBERS, numbers, strict=True)]
    left = "  ".join(["", shown.ljust(width), *cells, ""])
    lines = textwrap.wrap(verdict, WIDTH - len(left)) or [""]
    return "\n".join([(left + lines[0]).rstrip(), *(" " * len(left) + line for line in lines[1:])])


def _unsupported(summary: Summary, cell: str) -> list[str]:
    """Arms that the plan rejected at the primary boundary and mode of a cell."""
    head = summary.head
    concerned = [
        row
        for row in summary.unsupported
        if row.cell == cell
        and row.boundary in ("*", head.primary_boundary.value)
        and row.mode in ("*", head.primary_mode.value)
    ]
    return [_wrapped(f"{row.arm}: unsupported ({row.reason}; {row.source})", "  ") for row in concerned]


def _not_judged(summary: Summary) -> str:
    """Why verdicts are missing: the sentences, each once, with the EP sizes that they are about."""
    sizes: dict[str, list[int]] = {}
    for item in summary.contrasts:
        if item.role is not Role.SECONDARY and item.rounds and (sentence := item.printable.sentence):
            sizes.setdefault(sentence, []).append(item.ep_size)
    return "\n".join(
        _wrapped(f"EP {listing(map(str, sorted(set(found))))}: {sentence}", "") for sentence, found in sizes.items()
    )


def _launches(summary: Summary) -> str:
    failed = [item for item in summary.launches if item.num_failed]
    if not failed:
        return f"Failed launches: none of {plural(summary.custody.num_attempts, 'attempt')}"
    return "\n".join(["Failed launches:", *(_wrapped(_failures(item), "  ") for item in failed)])


def _failures(launches: Launches) -> str:
    kinds = [f"{failure.num_attempts} {failure.status.value} ({failure.reason_code})" for failure in launches.failures]
    more = f", and {plural(len(kinds) - MAX_REASONS, 'other kind')}" if len(kinds) > MAX_REASONS else ""
    head = f"{launches.arm}: {launches.num_failed} of {plural(launches.num_attempts, 'attempt')}"
    return f"{head}: {', '.join(kinds[:MAX_REASONS])}{more}"


def _state(summary: Summary) -> str:
    head = summary.head
    lines = [f"State: {head.state.value if head.state is State.COMPLETE else head.state.value.upper()}"]
    lines += [_wrapped(f"{reason.code}: {reason.text}", "  ") for reason in head.state_reasons]
    lines += [
        f"  EP {size}: rounds {span(rounds)} were not begun" for size, rounds in summary.budget.closed_rounds.items()
    ]
    if head.late_starts:
        lines.append(f"  {plural(len(head.late_starts), 'start')} came late")
    if head.mixed_workers:
        lines.append("  records come from more than one worker version")
    return "\n".join(lines)


def _wrapped(text: str, indent: str) -> str:
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ")
