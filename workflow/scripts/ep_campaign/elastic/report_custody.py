"""Sections on what the figures rest on: configuration, client, ledger, attempts, limits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ep_campaign.numbers import MISSING, significant
from ep_campaign.report.document import Bullets, Paragraph, Quoted, Rank, Section, Table

if TYPE_CHECKING:
    from ep_campaign.elastic.plan import ElasticPlan

BENIGN = (
    "ReplicasUpToDate is Unknown/RolloutNotObserved before and after a resize: normal.",
    "No Router is configured: a missing one is no failure.",
    "system_fingerprint keeps the words of the start-up after a growth: no evidence of width.",
)


def configuration(plan: ElasticPlan, statistics: dict[str, Any]) -> Section:
    """What is proved of the transport, and whatever else differs."""
    rows = []
    for where, value in statistics["provenance"].items():
        proof = value["transport"]
        direct = "not said" if proof["gpu_direct"] is None else "yes" if proof["gpu_direct"] else "no"
        rows.append((where, proof["name"] or "not proved", direct, Quoted(proof["evidence"])))
    found = statistics["arm_confounds"]
    arms = list(plan.arms)
    if len(arms) < 2:
        verdict = "One arm: no transports are compared."
    elif found:
        verdict = "Arms differ in more than their transport: what is compared is configurations, not transports."
    else:
        verdict = "No setting that was observed differs between arms but their transport."
    blocks: list[Any] = [
        Table("Transport, from the target's own logs", ("arm/state", "proved", "GPU Direct", "evidence"), tuple(rows)),
        Paragraph(verdict),
    ]
    if found:
        head = ("arm", "state", "field", "value", "reference", "declared reason")
        lines = [
            (
                one["arm"],
                one["state"],
                one["field"],
                Quoted(one["arm_value"]),
                Quoted(one["reference_value"]),
                one["declared"] or "none",
            )
            for one in found
        ]
        blocks.append(Table("Confounds between arms", head, tuple(lines)))
    if statistics["state_confounds"]:
        names = ("arm", "state", "field", "value", "reference state")
        widths = [
            (one["arm"], one["state"], one["field"], Quoted(one["state_value"]), Quoted(one["reference_value"]))
            for one in statistics["state_confounds"]
        ]
        blocks.append(Table("Confounds between widths", names, tuple(widths)))
    else:
        blocks.append(Paragraph("No setting that was observed differs between states but their width."))
    return Section("configuration", "Transport and configuration", Rank.CAVEAT, tuple(blocks))


def client(plan: ElasticPlan, statistics: dict[str, Any]) -> Section:
    """How far the client can be believed."""
    share = plan.document["limits"]["max_lateness_share"]
    head = ("start", "calibrated at", "TTFT bias p50 ms", "TTFT bias p95 ms", "gap error p95 ms")
    rows = [
        (
            one["start"],
            f"{one['calibration_concurrency']:.0f}",
            *(significant(one[name], 3) for name in ("ttft_bias_p50_ms", "ttft_bias_p95_ms", "gap_error_p95_ms")),
        )
        for one in statistics["attempts"]
        if one["calibration_concurrency"] is not None
    ]
    invalid = [
        (
            one["cell"],
            one["state"],
            one["arm"],
            f"{one['num_valid']}/{one['num_passes']}",
            "; ".join(one["invalid_reasons"]),
        )
        for one in statistics["levels"]
        if one["num_valid"] < one["num_passes"]
    ]
    text = (
        "Before its cells, each sweep measures its own client against a server whose delays are known, at the largest "
        "concurrency. "
        "A pass is invalid, and takes part in no verdict, where the lateness p99 of the client's loop exceeds "
        f"{share:g} of its median gap."
    )
    blocks: list[Any] = [Paragraph(text), Table("The client's own error", head, tuple(rows), frozenset(head[2:]))]
    names = ("cell", "state", "arm", "valid passes", "why not")
    blocks.append(Table("Passes that are invalid", names, tuple(invalid)))
    return Section("client", "The client", Rank.CAVEAT, tuple(blocks))


def custody(statistics: dict[str, Any]) -> Section:
    """Every attempt, with its ledger: what clients saw beside what servers logged."""
    head = ("start", "attempt", "counts", "status", "reason", "seconds", "clients saw", "servers logged", "teardown")
    rows = [
        (
            one["start"],
            str(one["attempt"]),
            "yes" if one["counted"] else "no",
            one["status"],
            Quoted(f"{one['reason_code']}: {one['reason'][:160]}") if one["reason_code"] else MISSING,
            significant(one["seconds"], 3),
            _calls(one["client_calls"], one["num_unseen"]),
            "no log" if one["server_calls"] is None else _calls(one["server_calls"], 0),
            one["teardown"],
        )
        for one in statistics["attempts"]
    ]
    found = [
        Quoted(f"{one['severity']} {one['file']}: {one['field']}: {one['found']} [{one['code']}]")
        for one in statistics["violations"]
        if one["code"] != "client_late"  # these have a section of their own
    ]
    blocks: list[Any] = [Table("Every attempt", head, tuple(rows), frozenset({"seconds"}))]
    blocks.append(Bullets(tuple(found)) if found else Paragraph("Validation found nothing else to say."))
    return Section("custody", "Attempts and ledger", Rank.EVIDENCE, tuple(blocks))


def _calls(text: str, unseen: int) -> str:
    counts = ", ".join(f"{status}: {count}" for status, count in json.loads(text).items()) or "none"
    return f"{counts}; {unseen} without an end" if unseen else counts


def limits(plan: ElasticPlan) -> Section:
    """What was not tested, and what no figure here says."""
    document = plan.document
    widths = sorted({width for state in plan.states.values() for width in state["widths"]})
    kinds = {cell["arrivals"] for cell in plan.cells.values()}
    items = [
        f"Widths {', '.join(map(str, widths))} only; nothing is said of others.",
        "States run in one order in every round: a drift of the machine within a round looks like an effect of width.",
        "Every start brings its target up anew, so that a width after a growth is reached without the load of before.",
        f"Arrivals: {', '.join(sorted(kinds))}; others were not tested.",
        "Per-rank HTTP serving, cross-node growth and failures of nodes were not tested.",
    ]
    if document["target"]["driver"] == "engine":
        items.insert(
            0, "The bundled engine is a functional stand-in: its figures say nothing of any accelerator or network."
        )
    if not any(
        b < a for state in plan.states.values() for a, b in zip(state["widths"], state["widths"][1:], strict=False)
    ):
        items.append("No smaller width was asked for.")
    blocks = (Bullets(tuple(items)), Paragraph("Known and benign:"), Bullets(BENIGN))
    return Section("limits", "Limits and what was not tested", Rank.CAVEAT, blocks)
