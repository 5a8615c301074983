"""The ledger: what the clients sent, counted by answer, against the calls that the server itself logged."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ep_campaign.drivers.convergence import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ep_campaign.elastic.loader import Loaded
    from ep_campaign.elastic.startfile import ElasticStartFile

_OK = 200
_NUM_LAST_WORDS = 2
"""An ordinary and a streamed request follow each resize that converged."""


def client_ledger(record: ElasticStartFile, runs: Iterable[Loaded]) -> tuple[dict[str, int], int]:
    """Completion calls by status as all clients saw them, and how many ended without one."""
    counts: Counter[str] = Counter()
    unseen = 0
    for run in runs:
        for one in run.requests:
            if one["path"] == "/health" or one["error_class"] == "connect":
                continue  # neither is in the server's ledger of completions
            if one["status"] is None or one["error_class"] in ("cut", "timed_out", "disconnected"):
                unseen += 1
            else:
                counts[str(one["status"])] += 1
    for resize in record.resizes:
        counts.update(str(status) for status in resize.calls)
        if resize.verdict == Verdict.CONVERGED.value:
            if resize.last_words is None:
                counts[str(_OK)] += _NUM_LAST_WORDS
            else:
                unseen += _NUM_LAST_WORDS
    return dict(sorted(counts.items())), unseen


def server_ledger(record: ElasticStartFile) -> dict[str, int] | None:
    """Completion calls by status that the servers logged during the start; None where a log could not be read."""
    total: Counter[str] = Counter()
    if not record.server_log or len(record.server_log) != len(record.server_log_before):
        return None
    for before, after in zip(record.server_log_before, record.server_log, strict=True):
        if before is None or after is None:
            return None
        total.update({status: count - before.get(status, 0) for status, count in after.items()})
    return {status: count for status, count in sorted(total.items()) if count}


def reconcile(client: dict[str, int], unseen: int, server: dict[str, int]) -> str | None:
    """Why the two do not agree; None where they do: calls whose end no client saw may stand under any status."""
    statuses = sorted(set(client) | set(server))
    surplus = {one: server.get(one, 0) - client.get(one, 0) for one in statuses}
    fewer = {status: count for status, count in surplus.items() if count < 0}
    more = sum(count for count in surplus.values() if count > 0)
    if fewer or more > unseen:
        return f"clients saw {client} and {unseen} without an end, servers logged {server}"
    return None
