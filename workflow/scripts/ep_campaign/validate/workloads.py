"""Did every arm get the same bytes, and the ones that the plan describes?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_campaign.errors import CampaignError
from ep_campaign.jsonfile import shown
from ep_campaign.validate.finding import Violation, note, refusal
from ep_campaign.workload import MAX_ELEMENTS, input_digests, rank_ordered, route_workload
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ep_campaign.startfile import WorkloadRecord
    from ep_campaign.validate.attempt import Attempt
    from ep_worker.contract.spec import StartSpec

Key = tuple[int, str, str]
_DIGESTS = ("route_sha256", "weights_sha256", "input_sha256")


class Workloads:
    """What was first seen of each (EP size, profile, route), and where."""

    def __init__(self) -> None:
        self._first: dict[Key, tuple[str, WorkloadRecord, StartSpec]] = {}

    def check(self, attempt: Attempt) -> Iterator[Violation]:
        """An attempt's digests and counts are those first seen; an ok record has them."""
        workloads = attempt.record.workload or {}
        for record in attempt.record.records:
            if record.status is Status.OK and workloads.get(record.route) is None:
                yield refusal(
                    "workload_missing",
                    attempt.file,
                    f"workload.{record.route}",
                    "null",
                    "digests of an ok record's route",
                )
                break
        for name, workload in sorted(workloads.items()):
            if workload is None:
                continue
            if name not in {route.name for route in attempt.spec.routes}:
                yield refusal("workload_unknown", attempt.file, f"workload.{name}", "a route", "routes of the plan")
                continue
            key = (attempt.start.ep_size, attempt.start.profile, name)
            file, first, _ = self._first.setdefault(key, (attempt.file, workload, attempt.spec))
            yield from _check_ranks(attempt, name, workload)
            for field in (*_DIGESTS, "counts"):
                mine, theirs = getattr(workload, field), getattr(first, field)
                if mine != theirs:
                    found = mine if isinstance(mine, str) else "other counts"
                    expected = f"that of {file}" + (f", {theirs}" if isinstance(theirs, str) else "")
                    action = "arms that did not get the same bytes cannot be compared: measure them again"
                    yield refusal("workload_differs", attempt.file, f"workload.{name}.{field}", found, expected, action)

    def recompute(self, root: Path) -> Iterator[Violation]:
        """What was first seen is what the contract's formulas give, evaluated here with numpy."""
        for key, (file, workload, spec) in sorted(self._first.items()):
            yield from _recompute(key, file, workload, spec, root)


def _check_ranks(attempt: Attempt, name: str, workload: WorkloadRecord) -> Iterator[Violation]:
    """A digest over all ranks is that of its ranks' digests."""
    for field in _DIGESTS:
        by_rank, whole = getattr(workload, f"{field}_by_rank"), getattr(workload, field)
        if len(by_rank) != attempt.spec.ep_size or rank_ordered(by_rank) != whole:
            place, found = f"workload.{name}.{field}_by_rank", f"{len(by_rank)} digests that give another whole"
            expected = f"one for each of {attempt.spec.ep_size} ranks, giving {whole}"
            yield refusal("workload_wrong", attempt.file, place, found, expected)


def _recompute(key: Key, file: str, workload: WorkloadRecord, spec: StartSpec, root: Path) -> Iterator[Violation]:
    route = spec.route(key[2])
    expected: dict[str, Any] = {"num_tokens": list(route.num_tokens)}
    num_tokens = sum(route.num_tokens)
    for what, columns in (("route", spec.shape.experts), ("input", spec.shape.hidden)):
        if num_tokens * columns > MAX_ELEMENTS:
            found = f"{num_tokens} tokens x {columns} columns"
            limit = f"at most {MAX_ELEMENTS} elements, which is what the host recomputes"
            action = "arms are still held against each other"
            yield note("digest_not_recomputed", file, f"workload.{route.name}.{what}_sha256", found, limit, action)
        elif what == "input":
            expected |= input_digests(spec, route)
        else:
            try:
                made = route_workload(spec, route, root)
            except (CampaignError, OSError) as error:
                yield refusal("trace_unreadable", route.trace, "", str(error), "the trace that the plan hashed")
                continue
            expected |= {**made.digests, "counts": made.counts.as_json(), "expert_load": made.expert_load}
    recorded = workload.model_dump(mode="json")
    for field, value in sorted(expected.items()):
        if recorded[field] != value:
            action = "the worker did not measure what the plan describes: measure again with one that does"
            wanted = f"{shown(value)}, from the contract's formulas"
            yield refusal(
                "workload_wrong", file, f"workload.{route.name}.{field}", shown(recorded[field]), wanted, action
            )
