"""What the starts of each arm observed of their runtime, where they agree and where they do not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ep_campaign.summary import Observed
from ep_worker.contract.canonical import canonical_json
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ep_campaign.analysis.rows import Attempt
    from ep_campaign.plan import Plan


def make_observed(plan: Plan, attempts: Sequence[Attempt]) -> tuple[Observed, ...]:
    """By EP size and arm, in the plan's order."""
    counting = [attempt for attempt in attempts if attempt.scored and attempt.status == Status.OK.value]
    blocks = [(size, arm) for size in plan.num_rounds for arm in plan.arms]
    return tuple(
        _observed(size, arm, found)
        for size, arm in blocks
        if (found := [attempt for attempt in counting if (attempt.ep_size, attempt.arm) == (size, arm)])
    )


def _observed(ep_size: int, arm: str, attempts: Sequence[Attempt]) -> Observed:
    same, varying = _agreement(attempt.provenance for attempt in attempts)
    commits = {_commit(attempt) for attempt in attempts}
    return Observed(
        ep_size=ep_size,
        arm=arm,
        num_starts=len(attempts),
        images=tuple(sorted({attempt.image for attempt in attempts if attempt.image is not None})),
        worker_digests=tuple(
            sorted({d for attempt in attempts for d in (attempt.worker_digest or "").split(",") if d})
        ),
        git_commits=tuple(sorted(commit for commit in commits if commit is not None)),
        same=same,
        varying=varying,
    )


def _commit(attempt: Attempt) -> str | None:
    return None if attempt.git_commit is None else attempt.git_commit + ("+dirty" if attempt.git_dirty else "")


def _agreement(texts: Iterable[str | None]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields with one value over all ranks and starts, and the names of the others."""
    values: dict[str, set[str]] = {}
    split: set[str] = set()
    for text in texts:
        for name, entry in json.loads(text).items() if text is not None else ():
            if "value" in entry:
                values.setdefault(name, set()).add(canonical_json(entry["value"]))
            else:
                split.add(name)
    varying = split | {name for name, found in values.items() if len(found) > 1}
    same = {name: json.loads(next(iter(found))) for name, found in sorted(values.items()) if name not in varying}
    return same, tuple(sorted(varying))
