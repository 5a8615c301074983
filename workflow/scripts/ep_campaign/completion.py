"""The last stage: checksums over everything that is evidence, then the mark that says whether anything is missing.

`SHA256SUMS` covers every file but logs, benchmarks, hidden files, itself and the marks. `CAMPAIGN_COMPLETE` is written after
it, and only over a folder that validates now as it did before it was summarised. A folder with something missing gets
`PARTIAL` instead, which says what.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeVar

from ep_campaign.aggregate import read_validation
from ep_campaign.errors import CampaignError, Refusal
from ep_campaign.layout import UNSUMMED
from ep_campaign.plan_document import PlanDocument
from ep_campaign.products import ALWAYS, Stage, wrong_products
from ep_campaign.validate import Severity, State, Validation, validate
from ep_worker.contract.canonical import canonical_json, pretty_json, sha256_file, write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan

AnyPlan = TypeVar("AnyPlan", bound=PlanDocument)

MARK_SCHEMA = "ep-campaign/mark/1"


def complete(plan: Plan, results: Results) -> State:
    """Completes the folder of a comparison; as `seal`."""
    return seal(plan, results, validate, ALWAYS)


def seal(
    plan: AnyPlan,
    results: Results,
    validate_now: Callable[[AnyPlan, Results], Validation],
    always: Mapping[Stage, tuple[str, ...]],
) -> State:
    """Writes `SHA256SUMS`, then `CAMPAIGN_COMPLETE` or `PARTIAL`; returns which of both states it is.

    Args:
        plan: Plan of any kind of campaign.
        results: Folder.
        validate_now: The validation of that kind.
        always: What each stage of that kind writes whatever the plan is.

    Raises:
        CampaignError: A product is missing or edited, or the folder changed since it was validated; no mark is left.
        OSError: The disk is full; no mark is left.
    """
    retract(results)
    told = read_validation(plan, results)
    found = validate_now(plan, results)
    refusals = [*_changed(told, found, results), *_wrong_products(results, always)]
    if refusals:
        raise CampaignError(refusals)
    files = list(evidence(results))
    _require_raw(plan, results, files)
    write_atomically(results.checksums, b"".join(checksum_line(results.root, path) for path in files))
    mark = _mark(found, results, len(files))
    if found.state is State.COMPLETE:
        write_atomically(results.complete, pretty_json(mark))
    else:
        missing = [str(violation) for violation in found.of(Severity.PARTIAL)]
        write_atomically(results.partial, pretty_json({**mark, "missing": missing}))
    return found.state


def retract(results: Results) -> None:
    """Takes both marks back: a summary that has begun anew is neither complete nor partial yet."""
    for path in (results.complete, results.partial):
        path.unlink(missing_ok=True)


def evidence(results: Results) -> Iterator[Path]:
    """Every file that the checksums cover, in the order of its name's bytes."""
    marks = {results.checksums, results.complete, results.partial}
    found = []
    for folder, names, files in os.walk(results.root):
        here = results.root / os.path.relpath(folder, results.root)
        names[:] = [n for n in names if not (n.startswith(".") or (here == results.root and n in UNSUMMED))]
        found += [here / name for name in files if not name.startswith(".")]
    yield from sorted((path for path in found if path not in marks), key=os.fsencode)


def checksum_line(root: Path, path: Path) -> bytes:
    """A line of `SHA256SUMS` as `sha256sum` writes it, odd file names escaped."""
    name = os.fsencode(path.relative_to(root).as_posix())
    escaped = name.replace(b"\\", b"\\\\").replace(b"\n", b"\\n").replace(b"\r", b"\\r")
    prefix = b"\\" if escaped != name else b""
    return prefix + sha256_file(path).encode() + b"  " + escaped + b"\n"


def _changed(told: dict[str, Any], found: Validation, results: Results) -> Iterator[Refusal]:
    if canonical_json(told) != canonical_json(found.as_json()):
        message = f"the folder is now {found.state.value} and differs from what was validated: summarise it again"
        yield Refusal("changed_since_validation", message, results.validation.name)


def _require_raw(plan: PlanDocument, results: Results, files: list[Path]) -> None:
    """Whatever the state is, the raw files that lie where the plan puts them are among those that are summed."""
    wanted = [
        results.plan,
        results.worker,
        *results.root.glob("admission/*.json"),
        *results.root.glob("kernel-times/*.json"),
    ]
    for start_id in plan.start_ids:
        wanted += results.start(start_id).glob("outcome-*.json")
        wanted += results.start(start_id).glob("attempt-*/start.json")
    there = set(files)
    refusals = [
        Refusal("not_summed", "is evidence, and no checksum covers it", path.relative_to(results.root).as_posix())
        for path in wanted
        if path.exists() and path not in there
    ]
    if refusals:
        raise CampaignError(refusals)


def _wrong_products(results: Results, always: Mapping[Stage, tuple[str, ...]]) -> Iterator[Refusal]:
    for stage in Stage:
        yield from wrong_products(results, stage, always)


def _mark(found: Validation, results: Results, num_files: int) -> dict[str, Any]:
    """What a mark says; no clock time, so that an unchanged folder keeps its mark's bytes."""
    arms = found.census["arms"].values()
    return {
        "schema": MARK_SCHEMA,
        "campaign": found.campaign,
        "plan_digest": found.plan_digest,
        "state": found.state.value,
        "sha256sums_sha256": sha256_file(results.checksums),
        "num_files": num_files,
        "num_starts": found.census["num_starts"],
        "num_ok_starts": found.census["num_ok_starts"],
        "num_attempts": sum(arm["num_attempts"] for arm in arms),
    }
