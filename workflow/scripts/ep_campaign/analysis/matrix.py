"""What was planned beside what came of it: for every series of every arm its rounds, with a record or the lack of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from ep_campaign.summary import Missing
from ep_worker.contract.series import resolve
from ep_worker.contract.terms import Boundary, Loop, Mode, Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ep_campaign.analysis.rows import Attempt, Record
    from ep_campaign.plan import Plan, Start
    from ep_worker.contract.series import Series


class Where(NamedTuple):
    """Where arms are set beside each other: they do the same work there, timed alike."""

    cell: str
    boundary: Boundary
    mode: Mode
    loop: Loop


@dataclass(frozen=True)
class Matrix:
    """A plan and the records that count.

    Attributes:
        plan: Plan.
        series: What each arm was to measure, in the order of the plan's cells, then of the contract's terms, then of the
            plan's arms.
        starts: Planned starts by (EP size, profile, arm), by round.
        records: The records that count, by round.
        attempts: The attempt that counts of each start, by its id; a start that no job has finished is missing.
    """

    plan: Plan
    series: dict[tuple[Where, str], Series]
    starts: dict[tuple[int, str, str], dict[int, Start]]
    records: dict[tuple[Where, str], dict[int, Record]]
    attempts: dict[str, Attempt]

    @property
    def arms(self) -> list[str]:
        """Arms, the reference first."""
        return self.plan.arms

    @property
    def reference(self) -> str:
        """The arm that every other is compared with."""
        return str(self.plan.document["reference"])

    def is_primary(self, where: Where) -> bool:
        """Whether it is the round-trip at the primary boundary and mode."""
        return (where.boundary, where.mode) == self.plan.primary and where.loop is Loop.ROUNDTRIP

    def is_judged(self, where: Where) -> bool:
        """Whether verdicts are made there: at the primary boundary and mode, of each loop that the family declares."""
        return (where.boundary, where.mode) == self.plan.primary and where.loop in self.plan.loops

    def places(self) -> list[Where]:
        """Every place where some arm was to measure, in order."""
        return list(dict.fromkeys(where for where, _ in self.series))

    def arms_at(self, where: Where) -> list[str]:
        """The arms that were to measure there, in the plan's order."""
        return [arm for arm in self.arms if (where, arm) in self.series]

    def planned(self, where: Where, arm: str) -> dict[int, Start]:
        """The starts that were to measure it, by round."""
        ep_size, profile = cell_parts(where.cell)[:2]
        return self.starts[(ep_size, profile, arm)]

    def ok(self, where: Where, arm: str) -> dict[int, Record]:
        """The `ok` records, by round, rising."""
        found = self.records.get((where, arm), {})
        return {number: found[number] for number in sorted(found) if found[number].status == Status.OK.value}

    def missing(self, where: Where, arm: str) -> list[Missing]:
        """The planned starts without an `ok` record, by round, and why."""
        found = self.records.get((where, arm), {})
        planned = self.planned(where, arm)
        return [
            self._why(number, planned[number], found.get(number))
            for number in sorted(planned)
            if number not in found or found[number].status != Status.OK.value
        ]

    def _why(self, number: int, start: Start, record: Record | None) -> Missing:
        account = record or self.attempts.get(start.id)
        if account is None:
            reason = "no job of this start has ended"
            return Missing(round=number, attempt=None, status=None, reason_code="no_attempt", reason=reason)
        return Missing(
            round=number,
            attempt=account.attempt,
            status=Status(account.status),
            reason_code=account.reason_code,
            reason=account.reason,
        )


def cell_parts(cell: str) -> tuple[int, str, str, str]:
    """EP size, profile, route and dtype of a cell id."""
    ep_size, profile, route, dtype = cell.split("/")
    return int(ep_size.removeprefix("ep")), profile, route, dtype


def build_matrix(plan: Plan, records: Iterable[Record], attempts: Iterable[Attempt]) -> Matrix:
    """Index a plan and the rows that count; rows of other attempts are passed over."""
    starts: dict[tuple[int, str, str], dict[int, Start]] = {}
    for start in plan.starts:
        starts.setdefault((start.ep_size, start.profile, start.arm), {})[start.round] = start
    by_key: dict[tuple[Where, str], dict[int, Record]] = {}
    for record in records:
        if record.scored and record.status != Status.UNSUPPORTED.value:
            where = Where(record.cell, Boundary(record.boundary), Mode(record.mode), Loop(record.loop))
            by_key.setdefault((where, record.arm), {})[record.round] = record
    counting = {attempt.start: attempt for attempt in attempts if attempt.scored}
    return Matrix(plan, dict(_planned_series(plan, starts)), starts, by_key, counting)


def _planned_series(
    plan: Plan, starts: dict[tuple[int, str, str], dict[int, Start]]
) -> Iterator[tuple[tuple[Where, str], Series]]:
    """Every series of every arm; the same in each round, so that the first one's stands for all."""
    found: dict[tuple[Where, str], Series] = {}
    for (ep_size, profile, arm), by_round in starts.items():
        cells = [plan.cell(cell) for cell in next(iter(by_round.values())).cells]
        series, _ = resolve(cells, plan.measurement(profile, ep_size), plan.capability(arm, profile), plan.device)
        for item in series:
            found[(Where(item.cell, item.boundary, item.mode, item.loop), arm)] = item
    cells_in_order = [cell["id"] for cell in plan.document["cells"]]
    ranks = [{item: rank for rank, item in enumerate(terms)} for terms in (cells_in_order, Boundary, Mode, Loop)]
    arms = {arm: rank for rank, arm in enumerate(plan.arms)}
    keys = sorted(
        found, key=lambda key: (*(rank[part] for rank, part in zip(ranks, key[0], strict=True)), arms[key[1]])
    )
    yield from ((key, found[key]) for key in keys)
