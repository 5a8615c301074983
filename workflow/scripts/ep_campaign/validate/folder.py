"""The results folder itself: is everything there that must be, is everything known that is there, do the digests hold?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ep_campaign.errors import CampaignError, refuse
from ep_campaign.identity import accepted_workers
from ep_campaign.jsonfile import read_object
from ep_campaign.numbers import plural
from ep_campaign.plan import read_plan
from ep_campaign.startfile import Outcome, read_outcome_file, read_start
from ep_campaign.validate.attempt import Attempt
from ep_campaign.validate.finding import Violation, missing, note, refusal, unreadable
from ep_worker.contract.canonical import canonical_json, sha256_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan, Start
    from ep_campaign.startfile import OutcomeRow

_OUTCOME = re.compile(r"outcome-(\d+)\.json")
_ATTEMPT = re.compile(r"attempt-(\d+)")
_RESUME = "run the campaign again: the same command measures what is missing"


def open_plan(results: Results) -> Plan:
    """The plan of a results folder, once it is known to describe its starts.

    Raises:
        CampaignError: It is missing, no plan of this version, altered, or not whole.
    """
    file = results.plan.name
    if not isinstance(read_object(results.plan, file).get("digest"), str):
        raise refuse("bad_plan", "has no digest; expected the file that plan wrote", file)
    plan = read_plan(results.plan)
    try:
        for start in plan.starts:
            plan.spec(start)
    except (KeyError, TypeError, ValueError, AttributeError, StopIteration) as error:
        message = f"does not describe its starts ({type(error).__name__}: {error}); expected the file that plan wrote"
        raise refuse("bad_plan", message, file) from None
    return plan


def check_plan(plan: Plan, results: Results) -> Iterator[Violation]:
    """`plan.json` is whole, of this version, unaltered, and the plan that is validated."""
    file = results.plan.name
    try:
        found = open_plan(results)
    except CampaignError as error:
        yield from unreadable(error, file)
        return
    if found.digest != plan.digest:
        yield refusal("plan_differs", file, "digest", found.digest, plan.digest)


def check_workers(results: Results) -> Iterator[Violation]:
    """`worker.json` is there and readable; that it accepts several workers is noted."""
    file = results.worker.name
    try:
        accepted = accepted_workers(results)
    except CampaignError as error:
        yield from unreadable(error, file)
        return
    if not accepted:
        yield refusal("missing_file", file, "", "nothing", "the digests of the workers that measured")
    if len(accepted) > 1:
        reasons = "; ".join(f"{item['worker_digest'][:16]}: {item['reason']}" for item in accepted)
        yield note("mixed_workers", file, "accepted", reasons, "one worker", "read verdicts with that in mind")


def check_admission(plan: Plan, results: Results) -> Iterator[Violation]:
    """Every EP size was admitted under this plan, and what its brief runs left is unaltered."""
    for ep_size in plan.num_rounds:
        path = results.admission(ep_size)
        file = str(path.relative_to(results.root))
        if not path.exists():
            yield missing("no_admission", file, "", "no file", "the admission record of this EP size", _RESUME)
            continue
        try:
            record = read_object(path, file)
            digest, arms = record.get("plan_digest"), record.get("arms")
        except CampaignError as error:
            yield from unreadable(error, file)
            continue
        if digest != plan.digest:
            yield refusal("plan_digest_differs", file, "plan_digest", str(digest), plan.digest)
        wanted = {start.arm for start in plan.starts if start.ep_size == ep_size}
        if absent := sorted(wanted - set(arms if isinstance(arms, dict) else ())):
            yield refusal("arm_not_admitted", file, "arms", f"no account of {', '.join(absent)}", "one of every arm")
        for record_path in sorted(path.with_suffix("").glob("*/attempt-*/start.json")):
            yield from _check_admission_run(plan, results, record_path)


def _check_admission_run(plan: Plan, results: Results, path: Path) -> Iterator[Violation]:
    file = str(path.relative_to(results.root))
    try:
        record = read_start(path, file)
    except CampaignError as error:
        yield from unreadable(error, file)
        return
    if record.kind != "admission":
        yield refusal("identity_differs", file, "kind", record.kind, "admission")
    if record.plan_digest != plan.digest:
        yield refusal("plan_digest_differs", file, "plan_digest", record.plan_digest, plan.digest)
    yield from check_named(path.parent, file.rpartition("/")[0], record.files)


def check_unknown(plan: Plan, results: Results) -> Iterator[Violation]:
    """No start, and nothing beside a start's attempts and outcomes, that this system did not write."""
    starts = results.root / "starts"
    for folder in sorted(path for path in starts.glob("*/*/*/*") if path.is_dir()):
        start_id = folder.relative_to(starts).as_posix()
        file = f"starts/{start_id}"
        if start_id not in plan.by_id:
            yield refusal("unknown_start", file, "", "a folder", "only starts of the plan", "move it out of the folder")
            continue
        for entry in sorted(folder.iterdir()):
            if not (_OUTCOME.fullmatch(entry.name) or _ATTEMPT.fullmatch(entry.name) or entry.name.startswith(".")):
                action = "move it away if it is not yours"
                yield note("unknown_file", f"{file}/{entry.name}", "", "an entry", "attempts and outcomes", action)


def read_outcomes(results: Results, start: Start, found: list[Violation]) -> list[Outcome]:
    """The outcomes of a start, in the order of its jobs; what cannot be read, or disagrees, goes to `found`."""
    outcomes: list[Outcome] = []
    folder = results.start(start.id)
    entries = folder.iterdir() if folder.is_dir() else ()
    numbers = sorted(int(match[1]) for match in (_OUTCOME.fullmatch(entry.name) for entry in entries) if match)
    seen: set[int] = set()
    for number in numbers:
        path = results.outcome(start.id, number)
        file = str(path.relative_to(results.root))
        try:
            outcome = read_outcome_file(path, file)
        except CampaignError as error:
            found.extend(unreadable(error, file))
            continue
        found.extend(_check_outcome(outcome, file, start, number, seen))
        seen |= {row.attempt for row in outcome.attempts}
        outcomes.append(outcome)
    if not numbers:
        file = f"starts/{start.id}"
        found.append(missing("missing_start", file, "", "no outcome", "one outcome at least", _RESUME))
    return outcomes


def merge_unmeasured(plan: Plan, found: list[Violation]) -> list[Violation]:
    """The violations, with one in place of a missing start for each start of the plan, where nothing was measured at all."""
    others = [violation for violation in found if violation.code != "missing_start"]
    if len(found) - len(others) < len(plan.starts):
        return found
    expected = f"outcomes of {plural(len(plan.starts), 'start')}"
    return [*others, missing("nothing_measured", "starts", "", "no outcome", expected, _RESUME)]


def _check_outcome(outcome: Outcome, file: str, start: Start, first: int, seen: set[int]) -> Iterator[Violation]:
    numbers = [row.attempt for row in outcome.attempts]
    if outcome.start != start.id:
        yield refusal("outcome_disagrees", file, "start", outcome.start, start.id)
    if numbers != list(range(first, first + len(numbers))):
        yield refusal("outcome_disagrees", file, "attempts", str(numbers), f"attempts in sequence from {first}")
    if seen & set(numbers):
        twice = sorted(seen & set(numbers))
        yield refusal("outcome_disagrees", file, "attempts", f"{twice} again", "each attempt in one outcome")
    if outcome.status is not outcome.attempts[-1].status:
        found, expected = outcome.status.value, f"{outcome.attempts[-1].status.value}, that of the last attempt"
        yield refusal("outcome_disagrees", file, "status", found, expected)


def read_attempts(
    plan: Plan, results: Results, start: Start, outcomes: list[Outcome], found: list[Violation]
) -> Iterator[tuple[Attempt, OutcomeRow]]:
    """Every attempt that an outcome names and that left a record, with its row there; what cannot be read goes to `found`."""
    rows = [(row, outcome is outcomes[0]) for outcome in outcomes for row in outcome.attempts]
    mentioned = {row.attempt for row, _ in rows}
    for number in sorted(set(results.attempts(start.id)) - mentioned):
        file = str(results.attempt(start.id, number).relative_to(results.root))
        action = "run the campaign again: it is harvested, or recorded as interrupted and tried anew"
        found.append(note("leftover_attempt", file, "", "an attempt", "attempts that an outcome names", action))
    spec = plan.spec(start)
    for index, (row, first_job) in enumerate(rows):
        folder = results.attempt(start.id, row.attempt)
        file = str((folder / "start.json").relative_to(results.root))
        if row.sha256 is None:
            found.append(missing("no_record", file, "", row.reason or "no record", "a record of the attempt", _RESUME))
            continue
        try:
            record = read_start(folder / "start.json", file)
        except CampaignError as error:
            found.extend(unreadable(error, file))
            continue
        attempt = Attempt(plan, start, spec, folder, file, record, index == len(rows) - 1, first_job)
        yield attempt, row


def check_row(attempt: Attempt, row: OutcomeRow) -> Iterator[Violation]:
    """The record is the one that its outcome accounts for."""
    digest = sha256_file(attempt.folder / "start.json")
    if digest != row.sha256:
        yield refusal("altered_file", attempt.file, "", f"SHA-256 {digest}", f"{row.sha256}, as its outcome says")
    for name in ("status", "infrastructure"):
        mine, told = getattr(attempt.record, name), getattr(row, name)
        if mine != told:
            yield refusal("outcome_disagrees", attempt.file, name, str(mine), f"{told}, as its outcome says")


def check_files(attempt: Attempt) -> Iterator[Violation]:
    """The files beside a record are those that it names, byte for byte; they are never summarised anew."""
    base = attempt.file.rpartition("/")[0]
    yield from check_named(attempt.folder, base, attempt.record.files)
    for path in sorted(attempt.folder.iterdir()):
        known = path.name in attempt.record.files or path.name in ("start.json", "traces")
        if not (known or path.name.startswith(".") or path.suffix == ".samples"):
            action = "move it away: a start's folder holds what its record names"
            yield refusal("unknown_file", f"{base}/{path.name}", "", "a file", "only files named in start.json", action)
    for route in attempt.spec.routes if not attempt.record.unrun else ():
        yield from _check_trace(attempt.folder / route.trace, f"{base}/{route.trace}", route.trace_sha256)


def check_named(folder: Path, base: str, files: dict[str, str]) -> Iterator[Violation]:
    """Every file that a record names is there and unaltered."""
    for name, digest in sorted(files.items()):
        path = folder / name
        if "/" in name or not path.is_file():
            yield refusal("missing_file", f"{base}/{name}", "", "no such file", f"the file of SHA-256 {digest[:16]}")
        elif (actual := sha256_file(path)) != digest:
            yield refusal("altered_file", f"{base}/{name}", "", f"SHA-256 {actual}", f"{digest}, as start.json says")


def _check_trace(path: Path, file: str, digest: str) -> Iterator[Violation]:
    if not digest:
        return
    if not path.is_file():
        yield refusal("missing_file", file, "", "no such file", f"the trace of SHA-256 {digest[:16]}")
    elif (actual := sha256_file(path)) != digest:
        yield refusal("altered_file", file, "", f"SHA-256 {actual}", f"{digest}, as the plan says")


def check_spec(attempt: Attempt) -> Iterator[Violation]:
    """The specification that the ranks were given is the plan's."""
    file = f"{attempt.file.rpartition('/')[0]}/spec.json"
    try:
        given = read_object(attempt.folder / "spec.json", file)
    except CampaignError as error:
        yield from unreadable(error, file)
        return
    expected = attempt.spec.as_json()
    differing = sorted(
        key for key in set(given) | set(expected) if canonical_json(given.get(key)) != canonical_json(expected.get(key))
    )
    if differing:
        found = f"other values of {', '.join(differing)}"
        yield refusal("spec_differs", file, differing[0], found, "the specification that the plan gives")
