"""From the files of all ranks to one `start.json` and one `samples.bin.gz`.

The same code serves a local start, whose files lie in the attempt's folder, and a gang of pods, whose files came back
through their logs. It believes no rank alone: a series is `ok` when every rank measured it and every oracle passed.
"""

from __future__ import annotations

import gzip
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.contract.accounting import RouteCounts, payload_bytes
from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically
from ep_worker.contract.capabilities import capability, placements
from ep_worker.contract.provenance import merge_provenance
from ep_worker.contract.rankfile import Event, interleave, read_events, read_samples
from ep_worker.contract.record import SAMPLE_AXES, SAMPLES_FILE, START_SCHEMA, latency_summary
from ep_worker.contract.spec import OVERHEAD, PROFILE
from ep_worker.contract.terms import Loop, Status, worst

if TYPE_CHECKING:
    from array import array

    from ep_worker.contract.series import Series
    from ep_worker.contract.spec import StartSpec

READ_ONLY = 0o444


class _Files:
    """Events of every rank, indexed by what assembly asks for."""

    def __init__(self, folder: Path, spec: StartSpec, inadmissible: dict[str, str] | None) -> None:
        self.folder, self.inadmissible = folder, inadmissible
        self.by_rank = [read_events(folder, rank) for rank in range(spec.ep_size)]

    def find(self, kind: Event, **match: Any) -> list[dict[str, Any] | None]:
        """For each rank its last event of a kind with these fields, or None."""
        return [
            next(
                (
                    event
                    for event in reversed(events)
                    if event["event"] == kind.value and all(event.get(key) == value for key, value in match.items())
                ),
                None,
            )
            for events in self.by_rank
        ]

    def failures(self) -> list[dict[str, Any]]:
        """Every rank's own account of why it gave up, with its rank."""
        return [
            {**event, "rank": rank}
            for rank, events in enumerate(self.by_rank)
            for event in events
            if event["event"] == Event.FAILURE.value
        ]


def assemble(folder: str | Path, spec: StartSpec, launcher: dict[str, Any], context: dict[str, Any]) -> dict[str, Any]:
    """Writes `samples.bin.gz` and `start.json` (read-only) from the ranks' files, and returns the start.

    Args:
        folder: The attempt's folder, with `rank-<r>.jsonl` and `rank-<r>.samples`.
        spec: What the ranks were told.
        launcher: How the processes ended: `outcome` (`finished`, `rank_failed`, `watchdog`, `rendezvous_timeout`,
            `interrupted`), `status`, `reason_code`, `reason`, `ranks`; and, where what carried the bytes is not what was
            asked, `inadmissible` with a `reason_code` and a `reason`: then nothing that was measured counts.
        context: Fields that only the controller knows (attempt, sequence, clock, ...), taken over as they are; but a start
            that is ok in spite of how its processes ended is no infrastructure failure.

    Raises:
        OSError: The disk is full; no start.json is left, so the attempt counts as interrupted.
    """
    base = Path(folder)
    files = _Files(base, spec, launcher.get("inadmissible"))
    gone = _why_unreached(files, launcher)
    stream = io.BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0, compresslevel=6, filename="") as zipped:
        records = _records(files, spec, gone, zipped)
    status = worst([Status(record["status"]) for record in records])
    start = {
        **context,
        "infrastructure": context.get("infrastructure", False) and status is not Status.OK,
        "schema": START_SCHEMA,
        "kind": spec.kind,
        "campaign": spec.campaign,
        "plan_digest": spec.plan_digest,
        "start": spec.start,
        "ep_size": spec.ep_size,
        "profile": spec.shape.profile,
        "arm": spec.arm.name,
        "backend": spec.arm.backend,
        "api_mode": spec.arm.api_mode.value,
        "status": status.value,
        "teardown": _teardown(files),
        "launcher": launcher,
        "failures": files.failures(),
        "provenance": _provenance(files, spec, launcher),
        "worker_digests": sorted({hello["worker_digest"] for hello in files.find(Event.HELLO) if hello}),
        "workload": {route.name: _workload(files, route.name) for route in spec.routes},
        "sample_axes": list(SAMPLE_AXES),
        "sample_unit": "ns",
        "records": records,
    }
    write_atomically(base / SAMPLES_FILE, stream.getvalue(), mode=READ_ONLY)
    start["files"] = {path.name: sha256_file(path) for path in sorted(base.iterdir()) if _is_sibling(path)}
    write_atomically(base / "start.json", pretty_json(start), mode=READ_ONLY)
    return start


def _provenance(files: _Files, spec: StartSpec, launcher: dict[str, Any]) -> dict[str, Any]:
    """What all ranks observed; and the image that a cluster says it ran, which no rank can see."""
    merged = merge_provenance(files.find(Event.PROVENANCE))
    image_ids = launcher.get("image_ids") or []
    if merged and image_ids:
        by_rank = [
            image_ids[rank // spec.ranks_per_pod] if rank // spec.ranks_per_pod < len(image_ids) else None
            for rank in range(spec.ep_size)
        ]
        alike = all(image == by_rank[0] for image in by_rank)
        merged["image_id"] = {"value": by_rank[0]} if alike else {"by_rank": by_rank}
    return merged


def _is_sibling(path: Path) -> bool:
    """Whether a file is evidence of the start: all but its record, and the ranks' raw times that samples.bin.gz holds."""
    return path.is_file() and path.name != "start.json" and not path.name.startswith(".") and path.suffix != ".samples"


def _why_unreached(files: _Files, launcher: dict[str, Any]) -> tuple[Status, str, str]:
    """Status, code and reason of whatever no rank reached: the first rank's own account, else the launcher's.

    A rank that only saw a peer die is no account of why: then the launcher's, which knows how the peer ended.
    """
    failures = [event for event in files.failures() if not event.get("secondary", False)]
    if failures and launcher["outcome"] in ("finished", "rank_failed"):
        cause = min(failures, key=lambda event: event.get("at_ns", 0))
        return Status(cause["status"]), cause["reason_code"], f"rank {cause['rank']}: {cause['reason']}"
    return Status(launcher["status"]), launcher["reason_code"], launcher["reason"]


def _records(
    files: _Files, spec: StartSpec, gone: tuple[Status, str, str], zipped: gzip.GzipFile
) -> list[dict[str, Any]]:
    entry = capability(spec.arm.backend, spec.arm.api_mode)
    cells = {cell.id: cell for cell in spec.cells}
    offset = 0
    records: list[dict[str, Any]] = []
    by_key: dict[tuple[str, str, str, str], dict[str, Any]] = {}
    for series in spec.series:
        cell = cells[series.cell]
        record: dict[str, Any] = {
            **series.as_json(),
            "route": cell.route,
            "dtype": cell.dtype.value,
            **(placements(entry, cell.dtype, series.boundary) if entry else {}),
        }
        if series.same_as is not None:
            twin = by_key[(series.cell, series.same_as.value, series.mode.value, series.loop.value)]
            shared = ("status", "reason_code", "reason", "latency", "oracle", "payload_bytes", "resolved")
            record.update({key: twin[key] for key in shared if key in twin})
            record["samples"] = None
        else:
            offset += _measure_record(record, files, spec, series, gone, zipped, offset)
        by_key[series.key] = record
        records.append(record)
    for rejected in spec.rejected:
        cell = cells[rejected.cell]
        records.append(
            {
                **rejected.as_json(),
                "route": cell.route,
                "dtype": cell.dtype.value,
                "loop": Loop.ROUNDTRIP.value,
                "status": Status.UNSUPPORTED.value,
            }
        )
    return records


def _measure_record(
    record: dict[str, Any],
    files: _Files,
    spec: StartSpec,
    series: Series,
    gone: tuple[Status, str, str],
    zipped: gzip.GzipFile,
    offset: int,
) -> int:
    """Fills one record in place; returns the bytes that its samples add to the uncompressed stream."""
    probing = spec.kind in (PROFILE, OVERHEAD)
    kind = Event.PROBE if probing else Event.SERIES
    events = files.find(kind, **{name: record[name] for name in ("cell", "boundary", "mode", "loop")})
    oracle = {stage: _oracle(files, series.cell, record["boundary"], stage) for stage in ("before", "after")}
    record["oracle"] = oracle
    status, code, reason = _status(events, oracle, gone)
    if status is Status.OK and files.inadmissible is not None:
        status = Status.INADMISSIBLE
        code, reason = files.inadmissible["reason_code"], files.inadmissible["reason"]
    record.update({"status": status.value, "reason_code": code, "reason": reason, "samples": None})
    done = [event for event in events if event is not None]
    if status is not Status.OK:
        return 0
    first = done[0]
    if probing:
        record["probe"] = [event["found"] for event in done]
        return 0
    num_samples, num_phases = first["num_samples"], len(first["phases"])
    try:
        by_rank = [
            read_samples(files.folder, rank, e["offset"], num_samples * num_phases) for rank, e in enumerate(done)
        ]
    except (ValueError, FileNotFoundError) as error:
        lost = {
            "status": Status.CRASHED.value,
            "reason_code": "incomplete_files",
            "reason": f"samples are lost: {error}",
        }
        record.update(lost)
        return 0
    times_ns: array[int] = interleave(by_rank, num_samples, num_phases)
    data = times_ns.tobytes()
    zipped.write(data)
    record["samples"] = {
        "offset_bytes": offset,
        "shape": [num_samples, spec.ep_size, num_phases],
        "phases": first["phases"],
    }
    route = spec.route(record["route"])
    record["latency"] = latency_summary(
        times_ns, spec.ep_size, first["phases"], series.chain_length, sum(route.num_tokens)
    )
    record["resolved"] = first["resolved"]
    record["payload_bytes"] = _payload_bytes(files, spec, record)
    return len(data)


def _status(
    events: list[dict[str, Any] | None], oracle: dict[str, dict[str, Any] | None], gone: tuple[Status, str, str]
) -> tuple[Status, str, str]:
    refused = [event for event in events if event is not None and event["status"] != Status.OK.value]
    if refused:
        event = max(refused, key=lambda item: list(Status).index(Status(item["status"])))
        return Status(event["status"]), event["reason_code"], event["reason"]
    for stage in ("before", "after"):
        result = oracle[stage]
        if result is not None and not result["passed"]:
            return Status.INCORRECT, result["reason_code"], f"oracle {stage} timing: {result['reason']}"
    if any(event is None for event in events) or any(result is None for result in oracle.values()):
        return (
            gone if gone[0] is not Status.OK else (Status.CRASHED, "incomplete_files", "a rank left no result for it")
        )
    return Status.OK, "", ""


def _oracle(files: _Files, cell: str, boundary: str, stage: str) -> dict[str, Any] | None:
    """One check over all ranks: passed where all passed, with the worst rank's error; None where a rank is missing."""
    results = files.find(Event.ORACLE, cell=cell, boundary=boundary, stage=stage)
    done = [result for result in results if result is not None]
    if len(done) < len(results):
        return next(({**_checks(r), "passed": False} for r in done if not r["passed"]), None)
    failed = [result for result in done if not result["passed"]]
    worst_rank = max(range(len(done)), key=lambda rank: (not done[rank]["passed"], done[rank]["max_token_error"]))
    return {**_checks(failed[0] if failed else done[worst_rank]), "worst_rank": worst_rank}


def _checks(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in ("event", "cell", "boundary", "stage")}


def _workload(files: _Files, route: str) -> dict[str, Any] | None:
    events = [event for event in files.find(Event.WORKLOAD, route=route) if event is not None]
    if not events:
        return None
    first = events[0]
    if any(event != first for event in events):
        return {"by_rank": events}  # no rank is believed over another: validation refuses the start
    return {key: value for key, value in first.items() if key not in ("event", "route")}


def _payload_bytes(files: _Files, spec: StartSpec, record: dict[str, Any]) -> dict[str, dict[str, int]] | None:
    workload = _workload(files, record["route"])
    if workload is None or "counts" not in workload:
        return None
    counts = RouteCounts.from_json(workload["counts"])
    dtype = next(cell.dtype for cell in spec.cells if cell.id == record["cell"])
    return payload_bytes(counts, dtype, spec.shape.hidden)


def _teardown(files: _Files) -> str:
    """`ok`, `failed` (a rank reported it), or `not_reached` (a rank never said)."""
    events = files.find(Event.TEARDOWN)
    if any(event is not None and event["status"] != "ok" for event in events):
        return "failed"
    return "ok" if all(event is not None for event in events) else "not_reached"
