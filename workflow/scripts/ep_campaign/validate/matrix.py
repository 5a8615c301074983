"""Does an attempt say of itself, and of every series, what the plan says? Nothing missing, nothing extra, nothing twice."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ep_campaign.validate.finding import Violation, refusal
from ep_worker.contract.capabilities import placements
from ep_worker.contract.record import SAMPLE_AXES, problems
from ep_worker.contract.terms import Loop, Status, worst

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.startfile import Record
    from ep_campaign.validate.attempt import Attempt

Key = tuple[str, str, str, str]


def check_identity(attempt: Attempt) -> Iterator[Violation]:
    """The record names the campaign, plan, start, place and arm that the plan has for its folder."""
    record, start, spec = attempt.record, attempt.start, attempt.spec
    if record.plan_digest != spec.plan_digest:
        yield refusal("plan_digest_differs", attempt.file, "plan_digest", record.plan_digest, spec.plan_digest)
    expected: dict[str, Any] = {
        "kind": "scored",
        "campaign": spec.campaign,
        "start": start.id,
        "attempt": int(attempt.folder.name.removeprefix("attempt-")),
        "position": start.position,
        "round": start.round,
        "order_position": start.order_position,
        "ep_size": start.ep_size,
        "profile": start.profile,
        "arm": start.arm,
    }
    if not record.unrun:
        expected |= {"backend": spec.arm.backend, "api_mode": spec.arm.api_mode}
        expected |= {"sample_axes": SAMPLE_AXES, "sample_unit": "ns"}
    for name, value in expected.items():
        found = getattr(record, name)
        if found != value:
            yield refusal("identity_differs", attempt.file, name, str(found), str(value))


def check_series(attempt: Attempt) -> Iterator[Violation]:
    """The records are exactly the series and the rejected rows that the plan resolves, each once, each as declared."""
    records = attempt.record.records
    times = Counter(record.key for record in records)
    expected = expected_fields(attempt)
    for key, count in sorted(times.items()):
        if count > 1:
            yield refusal("duplicate_record", attempt.file, _name(key), f"{count} records", "one")
    for key in sorted(set(expected) - set(times)):
        yield refusal("missing_record", attempt.file, _name(key), "no record", "one record for each planned series")
    for key in sorted(set(times) - set(expected)):
        yield refusal("extra_record", attempt.file, _name(key), "a record", "planned series only")
    for record in records:
        for name, value in expected.get(record.key, {}).items():
            found = _plain(getattr(record, name))
            if found != value:
                yield refusal("series_differs", attempt.file, f"{_name(record.key)}.{name}", str(found), str(value))


def expected_fields(attempt: Attempt) -> dict[Key, dict[str, Any]]:
    """For each record that an attempt must hold, the fields that follow from the plan."""
    cells = {cell.id: cell for cell in attempt.spec.cells}
    expected: dict[Key, dict[str, Any]] = {}
    for series in attempt.spec.series:
        cell = cells[series.cell]
        fields = series.as_json() | {"route": cell.route, "dtype": cell.dtype.value, "source": None}
        expected[series.key] = fields | placements(attempt.capability, cell.dtype, series.boundary)
    for row in attempt.spec.rejected:
        cell = cells[row.cell]
        fields = row.as_json() | {"route": cell.route, "dtype": cell.dtype.value}
        key = (row.cell, row.boundary.value, row.mode.value, Loop.ROUNDTRIP.value)
        expected[key] = fields | {"status": Status.UNSUPPORTED.value}
    return expected


def check_statuses(attempt: Attempt) -> Iterator[Violation]:
    """A record holds what its status allows, only planned rejections are unsupported, a start is as bad as its worst."""
    supported = {series.key for series in attempt.spec.series}
    for record in attempt.record.records:
        for problem in problems(record.model_dump(mode="json")):
            yield refusal("bad_record", attempt.file, _name(record.key), problem, "fields that its status allows")
        if record.status is Status.OK and record.resolved is None:
            problem = "status ok without what the backend resolved"
            yield refusal("bad_record", attempt.file, _name(record.key), problem, "fields that its status allows")
        if record.status is Status.UNSUPPORTED and record.key in supported:
            expected = "a status of something that was tried: the capability table does not reject it"
            yield refusal("unplanned_rejection", attempt.file, _name(record.key), "unsupported", expected)
    if attempt.record.unrun:
        return
    found, expected_status = attempt.record.status, worst([record.status for record in attempt.record.records])
    if found is not expected_status:
        expected = f"{expected_status.value}, the worst of its records"
        yield refusal("status_differs", attempt.file, "status", found.value, expected)


def check_twins(attempt: Attempt) -> Iterator[Violation]:
    """A record that shares another boundary's measurement says the same as that one, and holds no samples of its own."""
    by_key = {record.key: record for record in attempt.record.records}
    for record in attempt.record.records:
        if record.same_as is None:
            continue
        twin = by_key.get((record.cell, record.same_as.value, record.mode.value, record.loop.value))
        if twin is None:
            continue  # check_series says so
        for name in ("status", "latency", "oracle", "payload_bytes", "resolved"):
            if getattr(record, name) != getattr(twin, name):
                field = f"{_name(record.key)}.{name}"
                yield refusal("twin_differs", attempt.file, field, "another value", f"that of {record.same_as.value}")
        if record.samples is not None:
            yield refusal("twin_differs", attempt.file, f"{_name(record.key)}.samples", "samples", "null")


def record_name(record: Record) -> str:
    """How messages name a record."""
    return _name(record.key)


def _name(key: Key) -> str:
    return "records[{}]".format(" ".join(key))


def _plain(value: Any) -> Any:
    return getattr(value, "value", value)
