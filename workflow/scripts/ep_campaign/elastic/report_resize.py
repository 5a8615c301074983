"""Sections on live resizes and on the decision that follows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ep_campaign.numbers import MISSING, significant
from ep_campaign.report.document import Bullets, Figure, Paragraph, Rank, Section, Strong, Table

if TYPE_CHECKING:
    from ep_campaign.elastic.plan import ElasticPlan


def resizes(plan: ElasticPlan, statistics: dict[str, Any]) -> Section:
    """Every resize that was asked for, whatever came of it."""
    rows = statistics["resizes"]
    if not rows:
        text = "None was asked for, or none was measured."
        return Section("resizes", "Live resizes", Rank.ANSWER, (Paragraph(text),))
    under_load = [one for one in rows if one["under_load"]]
    blocks: list[Any] = [
        Paragraph(
            "Durations begin with the request. A resize has converged when every rule that the target can show has held on "
            "two looks in a row: bound, a completion on each rank, no scaling, and, where shown, generation, all five layers, "
            "stable width, retained members and no restarts. No time is finer than the longest "
            "pause between two looks, which stands beside it."
        ),
        _verdicts(rows),
    ]
    if under_load:
        blocks += [_costs(under_load), _availability(under_load), _timeline(under_load)]
    blocks += [
        Figure(
            f"resize-{state}-{arm}",
            f"Gaps between tokens during {state} over {arm}",
            "A stall shows as marks far above the rest inside the shaded time.",
        )
        for state in plan.resizes
        for arm in plan.arms
    ]
    return Section("resizes", "Live resizes", Rank.ANSWER, tuple(blocks))


def _label(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        f"{one['state']} {one['old_width']} to {one['new_width']}",
        one["arm"],
        str(one["round"]),
        "yes" if one["under_load"] else "no",
    )


def _verdicts(rows: list[dict[str, Any]]) -> Table:
    head = (
        *("resize", "arm", "round", "load", "verdict", "answered s", "forwards s", "converged s"),
        *("longest pause s", "members kept", "restarts"),
    )
    made = [
        (
            *_label(one),
            one["verdict"],
            *(significant(one[name], 3) for name in ("answered_s", "forwards_s", "converged_s", "poll_max_s")),
            _flag(one["members_retained"]),
            "not counted" if one["num_restarts"] is None else f"{one['num_restarts']:.0f}",
        )
        for one in rows
    ]
    return Table("Every resize", head, tuple(made), frozenset(head[5:9]))


def _costs(rows: list[dict[str, Any]]) -> Table:
    columns = {
        "gap p50 before ms": "gap_before_p50_ms",
        "largest gap ms": "gap_max_ms",
        "in steps": "gap_max_steps",
        "tok/s before": "rate_before_per_s",
        "during": "rate_during_per_s",
        "after": "rate_after_per_s",
        "tokens lost": "lost_tokens",
    }
    head = ("resize", "arm", "round", *columns)
    made = [(*_label(one)[:3], *(significant(one[name], 3) for name in columns.values())) for one in rows]
    return Table("What it cost those in flight", head, tuple(made), frozenset(head[3:]))


def _availability(rows: list[dict[str, Any]]) -> Table:
    """Clients and prober apart: a closed loop sends nothing while it waits, so that its zero says nothing of availability."""
    head = (
        "resize",
        "arm",
        "round",
        "load ok",
        "load 503",
        "probes ok",
        "probes 503",
        "prober: gone s",
        "looks: gone s",
    )
    made = [
        (
            *_label(one)[:3],
            f"{one['num_load_requests'] - one['num_client_errors']:.0f}/{one['num_load_requests']:.0f}",
            f"{one['num_client_503']:.0f}",
            f"{one['num_probes'] - one['num_probe_errors']:.0f}/{one['num_probes']:.0f}",
            f"{one['num_probe_503']:.0f}",
            _bounds(one["probe_gone_at_least_s"], one["probe_gone_at_most_s"]),
            _bounds(one["endpoint_gone_at_least_s"], one["endpoint_gone_at_most_s"]),
        )
        for one in rows
    ]
    caption = (
        "Availability (a closed loop's zero errors are no proof of it; the prober's times are bounded by its rate)"
    )
    return Table(caption, head, tuple(made))


def _timeline(rows: list[dict[str, Any]]) -> Table:
    """The first resize of each kind and arm, mark by mark, on the client's clock."""
    first: dict[tuple[str, ...], dict[str, Any]] = {}
    for one in sorted(rows, key=lambda one: one["round"]):
        first.setdefault(_label(one)[:2], one)
    marks = [
        (*label, mark, f"{at_s:.3f}")
        for label, one in first.items()
        for mark, at_s in sorted(json.loads(one["marks"]).items(), key=lambda item: (item[1], item[0]))
    ]
    caption = "Timeline of the first of each: when a rule first held, or a word was first seen, after the request"
    return Table(caption, ("resize", "arm", "mark", "s"), tuple(marks), frozenset({"s"}))


def _bounds(least: float | None, most: float | None) -> str:
    if least is None:
        return MISSING
    if least == 0 and most == 0:
        return "never seen gone"
    return f"{significant(least, 3)} to {'unbounded' if most is None else significant(most, 3)}"


def _flag(value: bool | None) -> str:
    return "not shown" if value is None else "yes" if value else "no"


def decision(plan: ElasticPlan, statistics: dict[str, Any]) -> Section:
    """From targets and price: the smallest width for each load, and when a growth repays itself."""
    targets = plan.document["targets"]
    found = statistics["decision"]
    currency = targets["currency"]
    text = (
        f"Targets: TTFT p95 at most {targets['ttft_p95_ms']:,g} ms, ITL p99 at most {targets['itl_p99_ms']:,g} ms, no failed "
        f"request; {targets['price_per_gpu_hour']:,g} {currency} a GPU-hour. A figure that n cannot carry is a miss. Goodput "
        "counts requests that meet both targets themselves. Nothing is said of loads that were not measured."
    )
    prices = (f"{currency} per 1M tokens", f"{currency} per 1,000 good requests")
    head = ("load", "arm", "state", "GPUs", "meets targets", "goodput per GPU-hour", *prices, "choice")
    rows = [
        (
            choice["cell"],
            choice["arm"],
            one["state"],
            str(one["num_gpus"]),
            "yes" if not one["misses"] else "; ".join(one["misses"]),
            significant(one["goodput_per_gpu_hour"], 3),
            significant(one["price_per_million_tokens"], 3),
            significant(one["price_per_1000_good_requests"], 3),
            Strong("smallest") if one["state"] == choice["chosen"] else MISSING,
        )
        for choice in found["choices"]
        for one in choice["options"]
    ]
    table = Table("Smallest width that meets the targets, by load", head, tuple(rows), frozenset({head[3], *head[5:8]}))
    return Section("decision", "Decision", Rank.ANSWER, (Paragraph(text), table, _repayments(found["repayments"])))


def _repayments(rows: list[dict[str, Any]]) -> Any:
    if not rows:
        return Paragraph("No growth converged under load: nothing can be said of what repays it.")
    return Bullets(tuple(_repayment(one) for one in rows))


def _repayment(one: dict[str, Any]) -> str:
    head = (
        f"{one['arm']}, {one['old_width']} to {one['new_width']} at concurrency {one['concurrency']}: "
        f"{significant(one['lost_tokens'], 3)} tokens lost (median of {one['num_resizes']})"
    )
    if one["gain_tokens_per_s"] is None:
        return f"{head}; no sweep measured both widths under that load, so that nothing says when they are made up."
    if one["gain_tokens_per_s"] <= 0:
        slower = significant(-one["gain_tokens_per_s"], 3)
        return f"{head}; the wider state is slower by {slower} tokens/s: they are never made up."
    return (
        f"{head}; the wider state gains {significant(one['gain_tokens_per_s'], 3)} tokens/s, so that "
        f"{significant(one['minutes'], 3)} minutes of this load make them up (the price of the added GPUs apart)."
    )
