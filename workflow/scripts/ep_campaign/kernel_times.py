"""Kernel times by the profiler: one launch of each arm and profile, after the scored starts and in no process of theirs.

Profiling slows what it watches, so nothing here is ever joined with a latency; it says which kernels an arm runs, and for how long.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ep_campaign.attempt import run_attempt
from ep_worker.contract.canonical import pretty_json, write_atomically
from ep_worker.contract.probe import found_in, kernel_medians_ns
from ep_worker.contract.spec import PROFILE
from ep_worker.contract.terms import Loop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ep_campaign.layout import Results
    from ep_campaign.place import Place
    from ep_campaign.plan import Plan, Start
    from ep_worker.contract.series import Series
    from ep_worker.contract.spec import StartSpec

KERNEL_TIMES_SCHEMA = "ep-campaign/kernel-times/1"
PROFILE_FOLDERS = "*/*/attempt-*/start.json"
"""Beside a record, in the folder of its name: records of its launches, by profile, arm and attempt."""


def profile_arms(plan: Plan, results: Results, ep_size: int, place: Place) -> dict[str, Any]:
    """Profiles every arm and profile of an EP size and writes the record; what fails is a row with its reason.

    Raises:
        CampaignError: A launch cannot be recorded.
    """
    firsts: dict[tuple[str, str], Start] = {}
    for start in plan.starts:
        if start.ep_size == ep_size:
            firsts.setdefault((start.profile, start.arm), start)
    rows = [row for start in firsts.values() for row in _profile(plan, results, start, place)]
    record = {
        "schema": KERNEL_TIMES_SCHEMA,
        "ep_size": ep_size,
        "plan_digest": plan.digest,
        "rows": sorted(rows, key=lambda row: (row["cell"], plan.arms.index(row["arm"]))),
    }
    write_atomically(results.kernel_times(ep_size), pretty_json(record))
    return record


def _profile(plan: Plan, results: Results, start: Start, place: Place) -> list[dict[str, Any]]:
    folder = results.kernel_times(start.ep_size).with_suffix("") / start.profile / start.arm
    attempt = 1 + len(list(folder.glob("attempt-*")))
    spec = profiled(plan.spec(start, kind=PROFILE))
    image = plan.document["arms"][start.arm]["image"]
    record = run_attempt(place, results, folder / f"attempt-{attempt}", spec, start, attempt, image)
    return rows_of(record)


def rows_of(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row for each cell of a profiled launch: its figures, or why there are none."""
    return [{"cell": item["cell"], "arm": record["arm"], **_figures(item)} for item in record["records"]]


def _figures(record: Mapping[str, Any]) -> dict[str, Any]:
    found = found_in(record)
    said = {"status": record["status"], "reason_code": record["reason_code"], "reason": found.reason}
    return {**said, "median_ns": kernel_medians_ns([one["times_ns"] for one in found.by_rank]) if found.by_rank else {}}


def profiled(spec: StartSpec) -> StartSpec:
    """One round-trip series of each cell, at the first boundary that is measured: kernels are the same in all modes."""
    firsts: dict[str, Series] = {}
    for series in spec.series:
        if series.loop is Loop.ROUNDTRIP and series.same_as is None:
            firsts.setdefault(series.cell, series)
    return dataclasses.replace(spec, start=f"kernel-times/{spec.start}", series=tuple(firsts.values()), rejected=())


def lines(record: Mapping[str, Any]) -> list[str]:
    """What a record says, a line for each cell and arm."""
    return [
        f"profile {row['cell']} {row['arm']}: {row['status']} {row['reason'] or ', '.join(row['median_ns'])}"
        for row in record["rows"]
    ]
