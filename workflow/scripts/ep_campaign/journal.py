"""The journal: every attempt's beginning and end, in order. It is evidence: what was begun can be told from what is there."""

from __future__ import annotations

import fcntl
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ep_campaign.layout import Results

BEGIN, END = "begin", "end"


def append_begin(results: Results, entry: dict[str, Any]) -> int:
    """Appends the beginning of an attempt and returns its sequence number: its place among all beginnings, from 1.

    Args:
        results: The results folder.
        entry: `start`, `attempt`, `kind`, `ep_size`, `round`, `at_utc`.
    """
    return _append(results, {"event": BEGIN, **entry})


def append_end(results: Results, start_id: str, attempt: int, seconds: float) -> None:
    """Counts the time of an attempt that has ended: what budgets are held against."""
    _append(results, {"event": END, "start": start_id, "attempt": attempt, "seconds": seconds})


def read_journal(results: Results) -> list[dict[str, Any]]:
    """Every whole line of the journal; a torn one is nobody's."""
    if not results.journal.exists():
        return []
    lines = results.journal.read_text(encoding="ascii", errors="replace").splitlines()
    return [entry for line in lines if (entry := _parsed(line)) is not None]


def _append(results: Results, entry: dict[str, Any]) -> int:
    results.journal.parent.mkdir(parents=True, exist_ok=True)
    with results.journal.open("a+", encoding="ascii", errors="replace") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.seek(0)
        lines = stream.readlines()
        known = [parsed["sequence"] for line in lines if (parsed := _parsed(line)) is not None]
        last = max(known) if known else _last_recorded(results)
        sequence = last + int(entry["event"] == BEGIN)
        torn = bool(lines) and not lines[-1].endswith("\n")  # the disk was full, or power went: keep it to itself
        stream.write("\n" * torn + json.dumps({**entry, "sequence": sequence}, sort_keys=True) + "\n")
    return sequence


def _last_recorded(results: Results) -> int:
    """The largest sequence number of any record: a journal that was lost must not number anew."""
    found = [0]
    for path in results.root.glob("**/attempt-*/start.json"):
        try:
            found.append(int(json.loads(path.read_text(encoding="ascii")).get("sequence") or 0))
        except (OSError, ValueError, AttributeError, TypeError):
            continue  # validation names what is wrong with it
    return max(found)


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
        whole = (
            isinstance(entry["sequence"], int) and isinstance(entry["start"], str) and isinstance(entry["attempt"], int)
        )
        return entry if whole and entry["event"] in (BEGIN, END) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
