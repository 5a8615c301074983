"""What it took: failed launches, custody of the attempts, what the spread resolves, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.numbers import count, percent, plural, significant, span
from ep_campaign.report.document import Bullets, Paragraph, Quoted, Rank, Section, Table, Text
from ep_campaign.stats.resolution import POWER
from ep_campaign.summary import Role
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from ep_campaign.report.document import Block
    from ep_campaign.report.source import Source
    from ep_campaign.summary import Advice

_SECONDS_PER_MINUTE = 60
_TEARDOWNS = ("ok", "failed", "not_reached")


def launches_section(source: Source) -> Section:
    """Failed launches of each arm: k of n attempts, a result of its own."""
    launches = source.summary.launches
    rows: list[tuple[Text, ...]] = [
        (
            item.arm,
            f"{item.num_failed} of {item.num_attempts}",
            f"{item.num_ok_starts} of {item.num_starts}",
            str(item.num_not_run),
        )
        for item in launches
    ]
    numbers = frozenset({"starts not run"})
    columns = ("arm", "failed attempts", "starts ok", "starts not run")
    blocks: list[Block] = [Table("Launches", columns, tuple(rows), numbers)]
    kinds = [(item.arm, failure) for item in launches for failure in item.failures]
    if kinds:
        found: list[tuple[Text, ...]] = [
            (
                arm,
                failure.status.value,
                Quoted(failure.reason_code),
                "machine" if failure.infrastructure else "arm",
                str(failure.num_attempts),
            )
            for arm, failure in kinds
        ]
        head = ("arm", "how it ended", "reason code", "taken for a fault of the", "attempts")
        blocks.append(Table("Failures by kind", head, tuple(found), frozenset({"attempts"})))
        blocks.append(_reasons(source))
    else:
        blocks.append(Paragraph("No launch failed."))
    return Section("launches", "Failed launches", Rank.CAVEAT, tuple(blocks))


def _reasons(source: Source) -> Table:
    """What failed attempts say of themselves; equal accounts together."""
    starts: dict[tuple[str, str, str], list[str]] = {}
    for arm, census in source.validation.get("census", {}).get("arms", {}).items():
        for failure in census["failures"]:
            if failure["status"] == Status.NOT_RUN.value:
                continue  # closed by a declared rule before it began: no launch, no failure
            key = (arm, failure["status"], failure["reason"])
            starts.setdefault(key, []).append(f"{failure['start']} attempt {failure['attempt']}")
    rows = tuple(
        (arm, status, Quoted(reason), str(len(where)), where[0])
        for (arm, status, reason), where in sorted(starts.items())
    )
    head = ("arm", "how it ended", "reason", "attempts", "first of them")
    return Table("What failed attempts say", head, rows, frozenset({"attempts"}))


def custody_section(source: Source) -> Section:
    """Counts over all attempts, and admission."""
    custody, evidence = source.summary.custody, source.evidence
    teardowns = ", ".join(f"{custody.teardowns.get(how, 0)} {how.replace('_', ' ')}" for how in _TEARDOWNS)
    items: list[Text] = [
        f"Attempts launched: {count(custody.num_attempts)}; interrupted, their controller having died: {custody.num_interrupted}.",
        f"Starts with more than one attempt: {custody.num_retried_starts}. Late starts: {custody.num_late_starts}.",
        f"Teardowns of backends: {teardowns}.",
        f"Oracle checks passed: {count(evidence.num_checks_passed)}; failed: {count(evidence.num_checks_failed)}.",
    ]
    if custody.gangs is not None:
        gangs = custody.gangs
        before, after = significant(gangs.start_s, 2), significant(gangs.end_s, 2)
        items.append(
            f"Added by the cluster, median of {plural(gangs.num_attempts, 'gang')} on the controller's clock: {before} s until all "
            f"pods ran, {after} s until the proof that nothing is left."
        )
    items += _admission(source)
    return Section("custody", "Custody", Rank.EVIDENCE, (Bullets(tuple(items)),))


def _admission(source: Source) -> list[Text]:
    items: list[Text] = []
    for size in source.plan.num_rounds:
        record = source.evidence.admission.get(size)
        if record is None:
            items.append(f"Admission of EP {size}: no record.")
            continue
        arms = ", ".join(f"{arm} {account['status']}" for arm, account in sorted(record.get("arms", {}).items()))
        items.append(f"Admission of EP {size}: {arms or 'accepted'}.")
        items += [(f"Admission note of EP {size}: ", Quoted(note["text"]), ".") for note in record.get("notes", [])]
    return items


def resolution_section(source: Source) -> Section:
    """What the observed spread can resolve, and how many iterations it advises."""
    summary = source.summary
    blocks: list[Block] = []
    sizes = [item for item in summary.contrasts if item.role is Role.FAMILY and item.resolvable_percent is not None]
    if sizes:
        rows = tuple(
            (
                item.place,
                item.arm,
                str(len(item.rounds)),
                percent(item.ratio_sd_log),
                significant(item.resolvable_percent, 3),
            )
            for item in sizes
        )
        head = ("cell", "arm", "rounds", "spread of ratios [%]", "resolvable [%]")
        blocks.append(
            Paragraph(
                f"Resolvable: the smallest difference that as many rounds show with a power of {POWER:g} at the observed spread. "
                f"The plan assumed a spread of starts of {percent(summary.head.family.assumed_start_cv)} %."
            )
        )
        blocks.append(Table("Resolvable differences", head, rows, frozenset(head[2:])))
    else:
        blocks.append(Paragraph("No contrast of a family has starts enough to say what difference could be resolved."))
    blocks.append(_spread_table(source))
    if summary.advice:
        blocks.append(_advice_table(summary.advice))
    else:
        blocks.append(Paragraph("There are too few starts to advise a number of iterations."))
    return Section("resolution", "Spread and resolution", Rank.EVIDENCE, tuple(blocks))


def _spread_table(source: Source) -> Table:
    rows = tuple(
        (item.place, arm.arm, str(arm.num_starts), percent(arm.start_sd_log, decimals=2))
        for item in source.summary.diagnostics
        for arm in item.arms
        if arm.start_sd_log is not None
    )
    head = ("cell", "arm", "starts", "spread of starts [%]")
    return Table("Observed spread between starts (standard deviation of logarithms)", head, rows, frozenset(head[2:]))


def _advice_table(advice: tuple[Advice, ...]) -> Table:
    rows = tuple(
        (
            f"EP {item.ep_size}",
            item.profile,
            count(item.iterations),
            "more are always worth it" if item.advised_iterations is None else count(item.advised_iterations),
            significant(item.standard_error_penalty, 3),
            percent(item.start_sd_log, decimals=2),
            percent(item.iteration_sd_log, decimals=2),
            significant(item.start_cost_s, 3),
            significant(item.iteration_cost_s, 3),
        )
        for item in advice
    )
    head = (
        "EP size",
        "profile",
        "iterations",
        "advised",
        "standard error, declared over advised",
        "between starts [%]",
        "between iterations [%]",
        "cost of a start [s]",
        "of one more iteration [s]",
    )
    return Table(
        "Iterations that the campaign's own spread advises, for equal machine time", head, rows, frozenset(head[2:])
    )


def cost_section(source: Source) -> Section:
    """Time, money and budget."""
    summary = source.summary
    rows = tuple(
        (
            f"EP {item.ep_size}",
            item.arm,
            str(item.num_attempts),
            significant(item.seconds / _SECONDS_PER_MINUTE, 3),
            significant(item.node_hours, 3),
        )
        for item in summary.durations
    )
    head = ("EP size", "arm", "attempts", "minutes", "node-hours")
    blocks: list[Block] = [Table("Time of all attempts, admission not among them", head, rows, frozenset(head[2:]))]
    cost, budget = summary.cost, summary.budget
    if cost is None:
        blocks.append(Paragraph("The campaign declares no price."))
    else:
        each = f", {significant(cost.per_verdict, 3)} for each" if cost.per_verdict is not None else ""
        price = f"{cost.price_per_node_hour!r} {cost.currency} a node-hour"
        total = f"{significant(cost.total)} {cost.currency} for {plural(cost.num_verdicts, 'judged contrast')}{each}"
        blocks.append(Paragraph(f"At {price}: {total}."))
    spent = f"{significant(budget.spent_hours, 3)} h were spent, {significant(budget.admission_hours, 3)} h of them on admission"
    if budget.budget_hours is None:
        blocks.append(Paragraph(f"No budget was declared; {spent}."))
    else:
        closed = "; ".join(
            f"EP {size}: rounds {span(rounds)}" for size, rounds in budget.closed_rounds.items() if rounds
        )
        bound = f"Of a budget of {budget.budget_hours!r} h {spent}."
        more = (
            " To measure more, declare a larger budget under a new campaign name: a results folder holds one plan."
            if closed
            else ""
        )
        blocks.append(Paragraph(f"{bound} Rounds that it closed: {closed or 'none'}.{more}"))
    return Section("cost", "Time and cost", Rank.DETAIL, tuple(blocks))
