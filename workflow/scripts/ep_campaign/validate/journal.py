"""Is every attempt that was ever begun still there, once? Deleting one that displeased would be a choice of results."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ep_campaign.journal import BEGIN, read_journal
from ep_campaign.validate.finding import Violation, refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ep_campaign.layout import Results
    from ep_campaign.validate.census import Fact

_RESTORE = "restore the folder from a copy; what was measured is never measured anew under the same number"


def check_journal(results: Results, facts: Sequence[Fact]) -> Iterator[Violation]:
    """The journal's scored beginnings and the attempts are the same, with the same sequence numbers."""
    file = results.journal.name
    begun = [entry for entry in read_journal(results) if entry["event"] == BEGIN and entry.get("kind") == "scored"]
    times = Counter((entry["start"], entry["attempt"]) for entry in begun)
    for (start, attempt), count in sorted(times.items()):
        what = f"{start} attempt {attempt}"
        folder = results.attempt(start, attempt)
        aside = len(
            list(folder.parent.glob(f"{folder.name}.unreadable*"))
        )  # set aside, still there, and so accounted for
        if count > 1 + aside:
            yield refusal("attempt_repeated", file, what, f"begun {count} times", f"{1 + aside}", _RESTORE)
        if not folder.is_dir():
            yield refusal("attempt_missing", file, what, "begun, and no folder of it", "its folder", _RESTORE)
    sequences = {(entry["start"], entry["attempt"]): entry["sequence"] for entry in begun}
    for item in facts:
        if item.sequence is None:
            continue
        noted = sequences.get((item.start.id, item.attempt))
        if noted != item.sequence:
            found = "no beginning" if noted is None else f"number {noted}"
            expected = f"number {item.sequence}, as its start.json says"
            yield refusal(
                "journal_disagrees", file, f"{item.start.id} attempt {item.attempt}", found, expected, _RESTORE
            )
