"""The head: what the plan declares, how far the campaign got, and what a reader should know first."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.summary import Arm, Cell, EpSize, Family, Head, LateStart, Note, Payload, Profile, State
from ep_worker.contract.accounting import CONVENTIONS
from ep_worker.contract.terms import ApiMode, Dtype

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ep_campaign.analysis.matrix import Matrix
    from ep_campaign.analysis.rows import Attempt
    from ep_campaign.plan import Plan

NOT_RUN = "not_run"
"""Validation's code for a start that the budget closed."""


def make_head(matrix: Matrix, attempts: Sequence[Attempt], validation: Mapping[str, Any]) -> Head:
    """The head of a validated campaign."""
    plan, document = matrix.plan, matrix.plan.document
    boundary, mode = plan.primary
    state, reasons = campaign_state(validation)
    return Head(
        campaign=plan.name,
        kind=document["kind"],
        plan_digest=plan.digest,
        description=document["description"],
        device=plan.device,
        seed=document["seed"],
        order=document["order"],
        reference=matrix.reference,
        primary_boundary=boundary,
        primary_mode=mode,
        family=_family(plan),
        arms=tuple(_arm(name, document["arms"][name]) for name in plan.arms),
        profiles=tuple(_profile(name, profile) for name, profile in document["profiles"].items()),
        ep_sizes=tuple(EpSize(**size) for size in document["ep_sizes"]),
        cells=_cells(matrix),
        state=state,
        state_reasons=reasons,
        late_starts=_late_starts(attempts),
        mixed_workers=any(row["code"] == "mixed_workers" for row in validation["violations"]),
        warnings=(*_plan_notes(plan), *_grouped(_of(validation, "note")), *_analysis_notes(plan)),
    )


def campaign_state(validation: Mapping[str, Any]) -> tuple[State, tuple[Note, ...]]:
    """How far the campaign got, and why no further."""
    lacking = _of(validation, "partial")
    if not lacking:
        return State.COMPLETE, ()
    only_budget = all(row["code"] == NOT_RUN for row in lacking)
    return State.ENDED_BY_BUDGET if only_budget else State.PARTIAL, _grouped(lacking)


def _of(validation: Mapping[str, Any], severity: str) -> list[dict[str, str]]:
    return [row for row in validation["violations"] if row["severity"] == severity]


def _grouped(violations: Iterable[dict[str, str]]) -> tuple[Note, ...]:
    """One note a code: its first case, and how many more there are."""
    by_code: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in violations:
        by_code[row["code"]].append(row)
    notes = []
    for code, rows in sorted(by_code.items()):
        first = rows[0]
        place = f"{first['file']}: {first['field']}" if first["field"] else first["file"]
        more = f"; and {len(rows) - 1} more" if len(rows) > 1 else ""
        notes.append(
            Note(
                code=code,
                text=f"{place}: found {first['found']}, expected {first['expected']}; {first['action']}{more}",
            )
        )
    return tuple(notes)


def _family(plan: Plan) -> Family:
    family = plan.document["family"]
    return Family(
        num_contrasts=len(plan.contrasts),
        alpha=family["alpha"],
        practical_threshold=family["practical_threshold"],
        test=PairedTest(family["test"]),
        min_rounds=family["min_rounds"],
        assumed_start_cv=family["assumed_start_cv"],
    )


def _arm(name: str, arm: dict[str, Any]) -> Arm:
    return Arm(**{**arm, "name": name, "api_modes": {p: ApiMode(mode) for p, mode in arm["api_modes"].items()}})


def _profile(name: str, profile: dict[str, Any]) -> Profile:
    return Profile(name=name, shape_source=profile["shape_source"], **profile["shape"], **profile["measurement"])


def _cells(matrix: Matrix) -> tuple[Cell, ...]:
    routes = {
        (profile, int(size), route["name"]): route
        for profile, sizes in matrix.plan.document["routes"].items()
        for size, found in sizes.items()
        for route in found
    }
    payloads = _payloads(matrix)
    cells = []
    for cell in matrix.plan.document["cells"]:
        route = routes[(cell["profile"], cell["ep_size"], cell["route"])]
        cells.append(
            Cell(
                id=cell["id"],
                ep_size=cell["ep_size"],
                profile=cell["profile"],
                route=cell["route"],
                route_kind=route["kind"],
                dtype=Dtype(cell["dtype"]),
                scored=cell["scored"],
                num_input_tokens=sum(route["num_tokens"]),
                payload_bytes=payloads.get(cell["id"]),
            )
        )
    return tuple(cells)


def _payloads(matrix: Matrix) -> dict[str, dict[str, Payload]]:
    """Bytes by cell and convention; validation has made sure that every record of a cell says the same."""
    found: dict[str, dict[str, Payload]] = {}
    for (where, _), records in matrix.records.items():
        for record in records.values():
            if where.cell in found:
                break
            bytes_by_name = {name: record.payload_bytes(name) for name in CONVENTIONS}
            payloads = {
                name: Payload(all_bytes=whole, remote_bytes=remote)
                for name, (whole, remote) in bytes_by_name.items()
                if whole is not None and remote is not None
            }
            if payloads:
                found[where.cell] = payloads
    return found


def _late_starts(attempts: Iterable[Attempt]) -> tuple[LateStart, ...]:
    return tuple(
        LateStart(
            start=attempt.start,
            ep_size=attempt.ep_size,
            profile=attempt.profile,
            round=attempt.round,
            arm=attempt.arm,
            attempt=attempt.attempt,
        )
        for attempt in attempts
        if attempt.scored and attempt.late
    )


def _plan_notes(plan: Plan) -> tuple[Note, ...]:
    return tuple(Note(**row) for row in plan.document["warnings"])


def _analysis_notes(plan: Plan) -> tuple[Note, ...]:
    """What follows from the plan alone and concerns how results read."""
    notes = []
    if not plan.contrasts:
        text = "the campaign declares no family: every number is described, none is judged"
        notes.append(Note(code="nothing_judged", text=text))
    for profile in plan.document["profiles"]:
        modes = {name: plan.document["arms"][name]["api_modes"][profile] for name in plan.arms}
        if len(set(modes.values())) > 1:
            listed = ", ".join(f"{name} {mode}" for name, mode in modes.items())
            text = f"arms serve {profile} through different API modes ({listed}): they differ in more than the backend"
            notes.append(Note(code="api_modes_differ", text=text))
    return tuple(notes)
