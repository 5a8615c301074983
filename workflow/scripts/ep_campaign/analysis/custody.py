"""Custody: attempts and failures of each arm, teardowns, time, money and budget."""

from __future__ import annotations

from collections import Counter, defaultdict
from statistics import median
from typing import TYPE_CHECKING

from ep_campaign.stats.verdict import Verdict
from ep_campaign.summary import Budget, Cost, Custody, Duration, FailureCount, Gangs, Launches, Role
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ep_campaign.analysis.rows import Attempt
    from ep_campaign.plan import Plan
    from ep_campaign.summary import Contrast

SECONDS_PER_HOUR = 3600.0
_GOOD = (Status.OK.value, Status.UNSUPPORTED.value)


def launched(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Attempts that began anything: those that a budget or admission closed beforehand have no place in the order."""
    return [attempt for attempt in attempts if attempt.sequence is not None]


def make_launches(plan: Plan, attempts: Sequence[Attempt]) -> tuple[Launches, ...]:
    """For each arm how many of its attempts failed, and how."""
    return tuple(_launches(plan, arm, [a for a in attempts if a.arm == arm]) for arm in plan.arms)


def _launches(plan: Plan, arm: str, attempts: Sequence[Attempt]) -> Launches:
    begun = launched(attempts)
    kinds = Counter((a.status, a.reason_code, a.infrastructure) for a in begun if a.status not in _GOOD)
    return Launches(
        arm=arm,
        num_starts=sum(start.arm == arm for start in plan.starts),
        num_ok_starts=sum(a.scored and a.status == Status.OK.value for a in attempts),
        num_not_run=sum(a.scored and a.status == Status.NOT_RUN.value for a in attempts),
        num_attempts=len(begun),
        num_failed=sum(kinds.values()),
        failures=tuple(
            FailureCount(status=Status(status), reason_code=code, infrastructure=infrastructure, num_attempts=count)
            for (status, code, infrastructure), count in sorted(kinds.items())
        ),
    )


def make_custody(attempts: Sequence[Attempt]) -> Custody:
    """Counts over all attempts."""
    begun = launched(attempts)
    tries = Counter(attempt.start for attempt in begun)
    return Custody(
        num_attempts=len(begun),
        num_interrupted=sum(attempt.reason_code == "interrupted" for attempt in begun),
        num_retried_starts=sum(count > 1 for count in tries.values()),
        num_late_starts=sum(attempt.late and attempt.scored for attempt in attempts),
        teardowns={how: sum(attempt.teardown == how for attempt in begun) for how in ("ok", "failed", "not_reached")},
        gangs=_gangs(begun),
    )


def _gangs(begun: Iterable[Attempt]) -> Gangs | None:
    pairs = [
        (a.gang_start_seconds, a.gang_end_seconds)
        for a in begun
        if a.gang_start_seconds is not None and a.gang_end_seconds is not None
    ]
    if not pairs:
        return None
    starts_s, ends_s = zip(*pairs, strict=True)
    return Gangs(num_attempts=len(pairs), start_s=median(starts_s), end_s=median(ends_s))


def make_durations(plan: Plan, attempts: Sequence[Attempt]) -> tuple[Duration, ...]:
    """Wall time by EP size and arm, in the plan's order."""
    seconds: dict[tuple[int, str], list[float]] = defaultdict(list)
    for attempt in launched(attempts):
        seconds[(attempt.ep_size, attempt.arm)].append(attempt.seconds or 0.0)
    return tuple(
        Duration(
            ep_size=size["ranks"],
            arm=arm,
            num_attempts=len(found),
            seconds=sum(found),
            node_hours=sum(found) * size["num_pods"] / SECONDS_PER_HOUR,
        )
        for size in plan.document["ep_sizes"]
        for arm in plan.arms
        if (found := seconds.get((size["ranks"], arm)))
    )


def make_cost(plan: Plan, durations: Iterable[Duration], contrasts: Iterable[Contrast]) -> Cost | None:
    """What the attempts cost, and what a verdict did."""
    price = plan.document["price_per_node_hour"]
    if price is None:
        return None
    family = [contrast for contrast in contrasts if contrast.role is Role.FAMILY and contrast.ruling is not None]
    num_verdicts = sum(c.ruling is not None and c.ruling.verdict is not Verdict.TOO_FEW_STARTS for c in family)
    total = price * sum(duration.node_hours for duration in durations)
    return Cost(
        currency=plan.document["currency"],
        price_per_node_hour=price,
        total=total,
        num_verdicts=num_verdicts,
        per_verdict=total / num_verdicts if num_verdicts else None,
    )


def make_budget(plan: Plan, attempts: Sequence[Attempt], admission_s: float) -> Budget:
    """The declared bound, what was spent of it, and the rounds that it closed.

    Args:
        plan: The plan.
        attempts: Every row of `attempts`.
        admission_s: Wall time of the brief runs of admission [s].
    """
    closed: dict[int, set[int]] = defaultdict(set)
    for attempt in attempts:
        if attempt.scored and attempt.status == Status.NOT_RUN.value:
            closed[attempt.ep_size].add(attempt.round)
    return Budget(
        budget_hours=plan.document["budget_hours"],
        spent_hours=(admission_s + sum(attempt.seconds or 0.0 for attempt in launched(attempts))) / SECONDS_PER_HOUR,
        admission_hours=admission_s / SECONDS_PER_HOUR,
        closed_rounds={str(size): tuple(sorted(rounds)) for size, rounds in sorted(closed.items())},
    )
