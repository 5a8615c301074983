"""Validation: is a results folder what its plan says, whole, unaltered and consistent? It reads and changes nothing.

`validate` collects every violation before it returns. One attempt is held at a time, so that memory does not grow with the
campaign; what must agree between attempts is remembered in a few words each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.errors import CampaignError
from ep_campaign.identity import accepted_workers
from ep_campaign.validate import correctness, figures, folder, kernel_times, matrix, runtime, sealed
from ep_campaign.validate.builds import Builds, check_build
from ep_campaign.validate.census import Fact, census, check_complete, check_sequence, fact
from ep_campaign.validate.finding import Severity, State, Validation, Violation, sort_violations
from ep_campaign.validate.journal import check_journal
from ep_campaign.validate.workloads import Workloads

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan
    from ep_campaign.validate.attempt import Attempt

__all__ = ["Severity", "State", "Validation", "Violation", "validate"]


def validate(plan: Plan, results: Results) -> Validation:
    """Everything that is wrong with a results folder, and its census.

    Args:
        plan: The plan that the folder must hold.
        results: The folder.
    """
    found = [
        *folder.check_plan(plan, results),
        *folder.check_workers(results),
        *folder.check_admission(plan, results),
        *kernel_times.check_kernel_times(plan, results),
        *folder.check_unknown(plan, results),
        *sealed.check_kinds(results),
        *sealed.check_sealed(results),
    ]
    accepted, workloads, together = _accepted(results), Workloads(), runtime.Runtime(plan)
    seen = Builds(plan)
    facts: list[Fact] = []
    for start in plan.starts:
        outcomes = folder.read_outcomes(results, start, found)
        for attempt, row in folder.read_attempts(plan, results, start, outcomes, found):
            found.extend(folder.check_row(attempt, row))
            found.extend(folder.check_files(attempt))
            found.extend(_check_attempt(attempt, accepted, workloads, together))
            if attempt.scored and runtime.has_ok(attempt):
                seen.see(attempt)
            facts.append(fact(attempt))
    found.extend(workloads.recompute(results.root))
    found.extend(together.compare_arms())
    found.extend(seen.compare())
    found.extend(check_complete(plan, facts))
    found.extend(check_sequence(facts))
    found.extend(check_journal(results, facts))
    violations = sort_violations(folder.merge_unmeasured(plan, found))
    leftover = [violation.file for violation in violations if violation.code == "leftover_attempt"]
    return Validation(plan.name, plan.digest, violations, census(plan, facts, leftover))


def _accepted(results: Results) -> set[str]:
    try:
        return {item["worker_digest"] for item in accepted_workers(results)}
    except CampaignError:
        return set()  # check_workers says so


def _check_attempt(
    attempt: Attempt, accepted: set[str], workloads: Workloads, together: runtime.Runtime
) -> Iterator[Violation]:
    yield from matrix.check_identity(attempt)
    if attempt.record.unrun:
        return
    yield from folder.check_spec(attempt)
    yield from matrix.check_series(attempt)
    yield from matrix.check_statuses(attempt)
    yield from matrix.check_twins(attempt)
    yield from figures.check_samples(attempt)
    yield from figures.check_payload_bytes(attempt)
    yield from figures.check_bandwidth(attempt)
    yield from correctness.check_oracle(attempt)
    yield from workloads.check(attempt)
    yield from runtime.check_image(attempt)
    if runtime.has_ok(attempt):
        yield from runtime.check_provenance(attempt)
        yield from runtime.check_worker(attempt, accepted)
        yield from runtime.check_asked(attempt)
        yield from check_build(attempt)
        if attempt.scored:
            yield from together.check(attempt)
