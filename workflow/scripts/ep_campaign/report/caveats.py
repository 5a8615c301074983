"""What speaks against the numbers: diagnostics and vetoes, excluded rounds, missing and late starts, what cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.numbers import MISSING, listing, p_text, plural, span
from ep_campaign.report.document import Paragraph, Quoted, Rank, Section, Table, Text
from ep_campaign.report.words import rounds_words
from ep_campaign.stats.diagnostics import DRIFT_RHO, UNSTABLE_MIN_STARTS, UNSTABLE_RATIO, UNSTABLE_SHARE, VETO_P
from ep_campaign.stats.printable import SUMMARY_MIN_N
from ep_campaign.summary import Role

if TYPE_CHECKING:
    from ep_campaign.report.document import Block
    from ep_campaign.report.source import Source
    from ep_campaign.summary import Diagnostics, ExcludedRound

_OURS = "this project"
_UNTESTED = "not testable"
_RHO = "\N{GREEK SMALL LETTER RHO}"


def diagnostics_section(source: Source) -> Section:
    """Order, drift and unstable starts of each cell at the primary boundary and mode."""
    found = source.summary.diagnostics
    if not found:
        text = "No cell has a start at the primary boundary and mode: there is nothing to diagnose."
        return Section("diagnostics", "Diagnostics and vetoes", Rank.CAVEAT, (Paragraph(text),))
    rules = (
        f"Vetoes. Order effect: p < {VETO_P:g} (Friedman test of the places, each arm centred). Drift: p < {VETO_P:g} and "
        f"|{_RHO}| > {DRIFT_RHO:g} (Spearman, value against round). Unstable starts: at least {UNSTABLE_MIN_STARTS}, and over "
        f"{100 * UNSTABLE_SHARE:g} %, above {UNSTABLE_RATIO:g} x their arm's median. A veto turns a direction into not resolved; "
        "no start is ever dropped for its timing."
    )
    blocks = (Paragraph(_fired(found)), Paragraph(rules), _order_table(found), _arms_table(found))
    return Section("diagnostics", "Diagnostics and vetoes", Rank.CAVEAT, blocks)


def _fired(found: tuple[Diagnostics, ...]) -> str:
    vetoes = [f"order effect in {item.place}" for item in found if item.order is not None and item.order.veto]
    for item in found:
        vetoes += [f"drift of {arm.arm} in {item.place}" for arm in item.arms if arm.drift_veto]
        vetoes += [f"unstable starts of {arm.arm} in {item.place}" for arm in item.arms if arm.unstable_veto]
    if not vetoes:
        tested = [item for item in found if any(arm.num_starts >= SUMMARY_MIN_N for arm in item.arms)]
        few = (
            f" {plural(len(found) - len(tested), 'other')} had too few starts to test."
            if len(tested) < len(found)
            else ""
        )
        return f"No veto fired in {plural(len(tested), 'cell')} that could be tested.{few}"
    return f"{plural(len(vetoes), 'veto', 'vetoes')} fired: {listing(vetoes)}."


def _order_table(found: tuple[Diagnostics, ...]) -> Table:
    rows: list[tuple[Text, ...]] = []
    for item in found:
        order = item.order
        if order is None or order.num_rounds < SUMMARY_MIN_N:
            rows.append(
                (
                    item.place,
                    str(order.num_rounds) if order else "0 or 1",
                    MISSING,
                    "too few complete rounds",
                    _UNTESTED,
                )
            )
        else:
            ranks = ", ".join(f"{rank:.2f}" for rank in order.mean_ranks)
            veto = "yes" if order.veto else "no"
            rows.append((item.place, str(order.num_rounds), f"{p_text(order.p)} ({order.method})", ranks, veto))
    head = ("cell", "rounds", "p", "mean rank by place", "veto")
    return Table("Place in the round", head, tuple(rows), frozenset({"rounds"}))


def _arms_table(found: tuple[Diagnostics, ...]) -> Table:
    rows: list[tuple[Text, ...]] = []
    for item in found:
        for arm in item.arms:
            few = arm.num_starts < SUMMARY_MIN_N
            rho = MISSING if few or arm.rho is None else f"{arm.rho:+.2f}".replace("-", "\N{MINUS SIGN}")
            p = "too few starts" if few or arm.drift_p is None else f"{p_text(arm.drift_p)} ({arm.drift_method})"
            vetoes = [
                name for name, veto in (("drift", arm.drift_veto), ("unstable starts", arm.unstable_veto)) if veto
            ]
            unstable = span(arm.unstable_rounds)
            verdict = _UNTESTED if few else ", ".join(vetoes) or "no"
            rows.append((item.place, arm.arm, str(arm.num_starts), rho, p, unstable, verdict))
    head = ("cell", "arm", "starts", _RHO, "p", f"rounds above {UNSTABLE_RATIO:g} x median", "veto")
    return Table("Drift and unstable starts", head, tuple(rows), frozenset({"starts", _RHO}))


def exclusions_section(source: Source) -> Section:
    """Why the campaign is not complete, rounds left out of contrasts, and late starts."""
    head = source.summary.head
    blocks: list[Block] = []
    if head.state_reasons:
        rows = tuple((Quoted(note.code), Quoted(note.text)) for note in head.state_reasons)
        blocks.append(Table("Why the campaign is not complete", ("code", "what is missing"), rows))
    excluded = _excluded(source)
    if excluded.rows:
        blocks.append(Paragraph("A round counts for a contrast when both arms have an ok record in it. These do not:"))
        blocks.append(excluded)
    else:
        blocks.append(Paragraph("No round is excluded from any contrast at the primary boundary and mode."))
    if head.late_starts:
        late = tuple((item.start, str(item.attempt)) for item in head.late_starts)
        blocks.append(
            Paragraph("Late starts ran after their round had closed. They count; verdicts are also given without them.")
        )
        blocks.append(Table("Late starts", ("start", "attempt that counts"), late, frozenset({"attempt that counts"})))
    else:
        blocks.append(Paragraph("No start came late."))
    leftover = source.validation.get("census", {}).get("leftover_attempts", [])
    if leftover:
        blocks.append(
            Table("Attempts that no job accounts for", ("attempt",), tuple((Quoted(str(item)),) for item in leftover))
        )
    return Section("exclusions", "Exclusions", Rank.CAVEAT, tuple(blocks))


def _excluded(source: Source) -> Table:
    """Excluded rounds of primary contrasts; rounds, then cells, of one cause together."""
    rounds: dict[tuple[str, ...], list[int]] = {}
    for contrast in source.summary.contrasts:
        if contrast.role is Role.SECONDARY:
            continue
        for item in contrast.excluded:
            key = (contrast.place, contrast.arm, item.arm, _status(item), item.reason_code, item.reason)
            rounds.setdefault(key, []).append(item.round)
    cells: dict[tuple[str, ...], list[str]] = {}
    for (cell, *cause), numbers in rounds.items():
        cells.setdefault((rounds_words(numbers), *cause), []).append(cell)
    rows = tuple(
        (arm, numbers, _cells(source, where), without, status, Quoted(code), Quoted(reason))
        for (numbers, arm, without, status, code, reason), where in cells.items()
    )
    head = ("contrast of", "rounds", "cells", "arm without a record", "status", "code", "reason")
    return Table("Excluded rounds", head, rows)


def _cells(source: Source, cells: list[str]) -> str:
    return "all cells" if len(cells) == len(source.summary.head.cells) else ", ".join(cells)


def _status(item: ExcludedRound) -> str:
    return "none" if item.status is None else str(item.status.value)


def unsupported_section(source: Source) -> Section:
    """What arms are known not to do, with sources; cells of one cause together."""
    cells: dict[tuple[str, ...], list[str]] = {}
    for row in source.summary.unsupported:
        key = (row.mode, row.boundary, row.reason_code, row.reason, row.source, row.arm)
        cells.setdefault(key, []).append(row.cell)
    if not cells:
        text = "Every arm takes every cell, boundary and mode that was planned."
        return Section("unsupported", "Not supported", Rank.CAVEAT, (Paragraph(text),))
    arms: dict[tuple[str, ...], list[str]] = {}
    for (*cause, arm), where in cells.items():
        arms.setdefault((_cells(source, where), *cause), []).append(arm)
    rows = tuple(
        (", ".join(names), _any(mode), _any(boundary), where, reason, code, _OURS if origin == "ours" else origin)
        for (where, mode, boundary, code, reason, origin), names in arms.items()
    )
    head = ("arms", "mode", "boundary", "cells", "why", "code", "source")
    return Section("unsupported", "Not supported", Rank.CAVEAT, (Table("Known not to run", head, rows),))


def _any(name: str) -> str:
    return "all" if name == "*" else name
