"""What a resize cost, joined from the driver's account and the load's records on one clock."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

from ep_campaign.drivers.convergence import Rule, Verdict
from ep_campaign.drivers.withdrawal import Withdrawal, withdrawals
from ep_campaign.elastic.metrics import NS_PER_MS, NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ep_campaign.elastic.loader import Loaded
    from ep_campaign.elastic.startfile import ElasticStartFile, ResizeFile

_OK, _SCALING = 200, 503


def resize_rows(record: ElasticStartFile, load: Loaded | None) -> list[dict[str, Any]]:
    """One row for each resize of a start, without the start's own columns.

    Args:
        record: What the start says.
        load: The load that ran throughout; None where none did.
    """
    return [_row(record, index, load) for index in range(len(record.resizes))]


def _row(record: ElasticStartFile, index: int, load: Loaded | None) -> dict[str, Any]:
    one = record.resizes[index]
    sent_ns = one.resize.sent_ns

    def since_s(at_ns: int | None) -> float | None:
        return None if at_ns is None else (at_ns - sent_ns) / NS_PER_S

    converged = one.verdict == Verdict.CONVERGED.value
    looks = one.looks_ns
    least, most = _gone(Withdrawal(**absence.model_dump()) for absence in one.endpoint_withdrawn)
    row = {
        "old_width": one.resize.old_width,
        "new_width": one.resize.new_width,
        "under_load": load is not None,
        "sent_ns": sent_ns,
        "ended_ns": one.ended_ns,
        "verdict": one.verdict,
        "reason": one.reason[:500],
        "answered_s": since_s(one.resize.answered_ns),
        "forwards_s": since_s(one.first_held_ns.get(Rule.RANK_FORWARDS.value)) if converged else None,
        "converged_s": since_s(one.ended_ns) if converged else None,
        "poll_max_s": max((b - a for a, b in itertools.pairwise(looks)), default=0) / NS_PER_S,
        "marks": json.dumps(_marks(one), sort_keys=True),
        "endpoint_gone_at_least_s": least,
        "endpoint_gone_at_most_s": most,
        **_members(one),
    }
    if load is not None:
        began_ns = record.resizes[index - 1].ended_ns if index else load.account["began_ns"]
        last = index + 1 == len(record.resizes)
        until_ns = None if last else record.resizes[index + 1].resize.sent_ns
        row |= _load_part(one, load, began_ns, until_ns)
    return row


def _marks(one: ResizeFile) -> dict[str, float]:
    """When each rule first held, and each word was first seen, after the request; what was there before it is left out."""
    sent_ns = one.resize.sent_ns
    found = {f"rule {name}": at_ns for name, at_ns in one.first_held_ns.items()}
    found |= {f"seen {word}": at_ns for word, at_ns in one.first_seen_ns.items()}
    return {name: round((at_ns - sent_ns) / NS_PER_S, 3) for name, at_ns in found.items() if at_ns >= sent_ns}


def _members(one: ResizeFile) -> dict[str, Any]:
    """Whether the members of before are there after, by their identities."""
    shown = [{member["name"]: member for member in seen["shown"]["members"]} for seen in one.seen]
    if not shown or not shown[0]:
        return {"members_retained": None, "num_restarts": None}
    before, after = shown[0], shown[-1]
    same = [after.get(name, {}).get("uid") == member["uid"] for name, member in before.items()]
    restarts = [member["num_restarts"] for member in after.values() if member["num_restarts"] is not None]
    return {"members_retained": all(same), "num_restarts": sum(restarts) if restarts else None}


def _load_part(one: ResizeFile, load: Loaded, began_ns: int, until_ns: int | None) -> dict[str, Any]:
    until_ns = until_ns or load.account["stopped_ns"] or load.account["clocks"][1]["monotonic_ns"]
    sent_ns, ended_ns = one.resize.sent_ns, one.ended_ns
    requests = [r for r in load.requests if r["phase"] == "load"]
    probes = [r for r in load.requests if r["phase"] == "probe"]
    tokens = sorted(chunk[0] for r in requests for chunk in r["chunks"] if chunk[1])
    before, during, after = (
        _rate(tokens, *span) for span in ((began_ns, sent_ns), (sent_ns, ended_ns), (ended_ns, until_ns))
    )
    gaps = _gaps(requests)
    usual = sorted((b - a) / NS_PER_MS for a, b in gaps if began_ns <= a and b <= sent_ns)
    touching = [(b - a) / NS_PER_MS for a, b in gaps if b >= sent_ns and a <= ended_ns]
    p50, largest = (usual[len(usual) // 2] if usual else None), max(touching, default=None)
    least, most = _gone(
        withdrawals([(r["done_ns"] or r["scheduled_ns"], r["status"] == _OK) for r in _in_order(probes)])
    )
    failed = [r for r in requests if not r["success"]]
    return {
        "num_client_errors": len(failed),
        "num_client_503": sum(r["status"] == _SCALING for r in failed),
        "num_load_requests": len(requests),
        "num_probes": len(probes),
        "num_probe_errors": sum(not r["success"] for r in probes),
        "num_probe_503": sum(r["status"] == _SCALING for r in probes),
        "probe_gone_at_least_s": least,
        "probe_gone_at_most_s": most,
        "gap_before_p50_ms": p50,
        "gap_max_ms": largest,
        "gap_max_steps": largest / p50 if largest is not None and p50 else None,
        "rate_before_per_s": before,
        "rate_during_per_s": during,
        "rate_after_per_s": after,
        "lost_tokens": None
        if before is None or during is None
        else (before - during) * (ended_ns - sent_ns) / NS_PER_S,
    }


def _in_order(probes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(probes, key=lambda r: r["done_ns"] or r["scheduled_ns"])


def _gaps(requests: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for one in requests:
        stamps = [chunk[0] for chunk in one["chunks"] if chunk[1]]
        found += itertools.pairwise(stamps)
    return found


def _rate(stamps: Sequence[int], begin_ns: int, end_ns: int) -> float | None:
    """Tokens a second in an interval; None for an empty one."""
    if end_ns <= begin_ns:
        return None
    return sum(begin_ns <= at < end_ns for at in stamps) / ((end_ns - begin_ns) / NS_PER_S)


def _gone(absences: Iterable[Withdrawal]) -> tuple[float, float | None]:
    """Certain and possible seconds of all absences together."""
    found = list(absences)
    most = [one.at_most_ns for one in found]
    bounded = [value for value in most if value is not None]
    least = sum(one.at_least_ns for one in found) / NS_PER_S
    return least, sum(bounded) / NS_PER_S if len(bounded) == len(most) else None
