"""Admission: before the first scored start of an EP size, is this place fit to measure, and does every arm work here?

What stops the campaign is refused at once (no disk, no memory, nothing to run ranks on). What concerns one arm is recorded:
its scored starts then say `inadmissible` and why, and never run.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ep_campaign.attempt import run_attempt
from ep_campaign.custody.transport import environment, stack_of
from ep_campaign.errors import CampaignError, Refusal
from ep_worker.contract.canonical import pretty_json, write_atomically
from ep_worker.contract.terms import Device, Loop, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ep_campaign.layout import Results
    from ep_campaign.place import Place
    from ep_campaign.plan import Plan
    from ep_worker.contract.spec import StartSpec

ADMISSION_SCHEMA = "ep-campaign/admission/1"
ITERATIONS, WARMUPS = 5, 2


def admit(plan: Plan, results: Results, ep_size: int, place: Place) -> dict[str, Any]:
    """Checks the place and runs every arm once, briefly; writes the admission record of an EP size.

    Raises:
        CampaignError: The place is not fit, with everything that is wrong with it; or nothing could be compared here.
    """
    found = place.fitness(plan, results.root, ep_size)
    if found.refusals:
        raise CampaignError(found.refusals)
    arms = {arm: _admit_arm(plan, results, ep_size, arm, place) for arm in plan.document["arms"]}
    refusals = arm_refusals(plan, ep_size, arms)
    if refusals:
        raise CampaignError(refusals)
    record = {
        "schema": ADMISSION_SCHEMA,
        "ep_size": ep_size,
        "plan_digest": plan.digest,
        "place": found.observed,
        "notes": found.notes,
        "arms": {arm: account for arm, account in arms.items() if account is not None},
    }
    write_atomically(results.admission(ep_size), pretty_json(record))
    return record


def lines(ep_size: int, record: Mapping[str, Any]) -> list[str]:
    """What an admission record says, a line for each arm and note."""
    arms = [
        f"admit EP {ep_size} {arm}: {account['status']} {account['reason']}".rstrip()
        for arm, account in record["arms"].items()
    ]
    return arms + [f"admit EP {ep_size} note: {note['text']}" for note in record["notes"]]


def arm_refusals(plan: Plan, ep_size: int, arms: Mapping[str, Mapping[str, Any] | None]) -> list[Refusal]:
    """Why nothing can be compared at this EP size: the reference, or every other arm, cannot run here."""
    closed = {arm for arm, account in arms.items() if account and account["status"] == Status.INADMISSIBLE.value}
    others = {arm for arm, account in arms.items() if account} - {plan.document["reference"]}
    if plan.document["reference"] not in closed and not (others and others <= closed):
        return []
    return [
        Refusal(
            str((arms[arm] or {})["reason_code"]),
            f"arm {arm!r} cannot run here, so EP {ep_size} has nothing to compare: {(arms[arm] or {})['reason']}",
            "admission",
        )
        for arm in arms
        if arm in closed
    ]


def _admit_arm(plan: Plan, results: Results, ep_size: int, arm: str, place: Place) -> dict[str, Any] | None:
    start = next((item for item in plan.starts if item.ep_size == ep_size and item.arm == arm), None)
    if start is None:
        return None
    folder = results.admission(ep_size).with_suffix("") / arm
    attempt = 1 + len(list(folder.glob("attempt-*")))
    image = plan.document["arms"][arm]["image"]
    record = run_attempt(
        place, results, folder / f"attempt-{attempt}", brief(plan.spec(start, kind="admission")), start, attempt, image
    )
    failed: dict[str, Any] = next(
        (r for r in record["records"] if r["status"] == record["status"] != Status.OK.value), {}
    )
    return {
        "attempt": attempt,
        "status": record["status"],
        "reason_code": failed.get("reason_code", ""),
        "reason": failed.get("reason", ""),
        "seconds": record["clock"]["seconds"],
    }


def brief(spec: StartSpec) -> StartSpec:
    """The shortest run that still proves an arm: each cell once, with its oracle, a few iterations, no phase alone."""
    shortened = [
        dataclasses.replace(series, iterations=ITERATIONS * series.chain_length, warmups=WARMUPS)
        for series in spec.series
        if series.loop is Loop.ROUNDTRIP
    ]
    arm = dataclasses.replace(spec.arm, environment={**spec.arm.environment, **_verbose(spec)})
    return dataclasses.replace(spec, start=f"admission/{spec.start}", series=tuple(shortened), arm=arm)


def _verbose(spec: StartSpec) -> dict[str, str]:
    """Variables by which an arm's libraries say what carries their bytes, where these cross from pod to pod."""
    crosses = spec.device is Device.CUDA and spec.ranks_per_pod < spec.ep_size
    return environment(stack_of(spec.arm.backend)) if crosses else {}
