"""Whole results folders without a rank, a clock or torch: what the files of a campaign hold, and effects planted on purpose.

`make_results` writes, for every start of a plan, what its ranks would have left (events and raw times, through the
contract's own writer), and lets the contract's assembly turn them into `start.json` and `samples.bin.gz`. Every number
comes from a `Model`; what goes wrong comes from `Attempt`s by start id.
"""

from __future__ import annotations

import shutil
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from latency_model import Model

from ep_campaign.admission import ADMISSION_SCHEMA
from ep_campaign.completion import checksum_line, evidence
from ep_campaign.identity import accept_worker
from ep_campaign.journal import append_begin
from ep_campaign.layout import OUTCOME_SCHEMA, Results
from ep_campaign.products import ALWAYS, Stage, record_products
from ep_campaign.workload import input_digests, route_workload
from ep_worker.contract.assembly import assemble
from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically
from ep_worker.contract.provenance import FIELDS, not_applicable
from ep_worker.contract.rankfile import Event, RankWriter, log_path, sample_path
from ep_worker.contract.record import START_SCHEMA
from ep_worker.contract.series import phases
from ep_worker.contract.terms import Status
from ep_worker.contract.tolerance import tolerance

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ep_campaign.plan import Plan, Start
    from ep_worker.contract.series import Series
    from ep_worker.contract.spec import StartSpec

WORKER_DIGEST = "5" * 64
TOLERANCE = tolerance(2)


@dataclass(frozen=True)
class Attempt:
    """How one attempt at a start goes.

    Attributes:
        status: Its end: `ok`; `crashed` and `inadmissible` (rank 1's own account), `timed_out` (the watchdog's),
            `incorrect` (the oracle after timing); `not_run` (closed by the budget: no records).
        cell: incorrect only: the one cell it concerns; None for all.
        after_series: crashed only: how many series every rank finishes first.
        reason_code: Reason code of a failure.
        infrastructure: Whether the controller takes it for a failure of the machine, and tries again in the slot.
        late: Begun by a later job, after every round of the campaign had closed.
        teardown: `ok`, `failed` or `not_reached`.
        interrupted: The controller died: files of the ranks, no `start.json`, no outcome.
        environment: Variables that the ranks observed beyond those of the arm.
        provenance: Fields that replace those of `provenance_fields`.
        worker_digest: Worker that ran.
    """

    status: Status = Status.OK
    cell: str | None = None
    after_series: int = 1
    reason_code: str = "planted"
    infrastructure: bool = False
    late: bool = False
    teardown: str = "ok"
    interrupted: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    worker_digest: str = WORKER_DIGEST


OK = (Attempt(),)


def make_results(
    root: Path,
    plan: Plan,
    model: Model | None = None,
    attempts: Mapping[str, Sequence[Attempt]] | None = None,
    *,
    workers: Sequence[str] = (WORKER_DIGEST,),
    traces: Path | None = None,
) -> Results:
    """A results folder of a plan, in which every start goes as `attempts` says; `()` for a start that never was.

    Args:
        root: Folder to make.
        plan: Plan.
        model: Where latencies come from.
        attempts: Attempts by start id; one that is ok for every other start.
        workers: Worker digests that the folder accepts.
        traces: The file of every trace route.
    """
    model, planted, results = model or Model(), attempts or {}, Results(root)
    unknown = set(planted) - set(plan.by_id)
    if unknown:
        msg = f"{sorted(unknown)} are no starts of the plan"
        raise ValueError(msg)
    root.mkdir(parents=True)
    write_atomically(results.plan, plan.text())
    for digest in workers:
        accept_worker(results, digest, "planted")
    if traces is not None:
        for name in sorted({route.trace for route in plan.spec(plan.starts[0]).routes if route.trace}):
            (root / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(traces, root / name)
    account = {"attempt": 1, "status": "ok", "reason_code": "", "reason": "", "seconds": 0.0}
    arms = dict.fromkeys(plan.document["arms"], account)
    for ep_size in plan.num_rounds:
        admission = {"schema": ADMISSION_SCHEMA, "ep_size": ep_size, "plan_digest": plan.digest, "arms": arms}
        results.admission(ep_size).parent.mkdir(exist_ok=True)
        write_atomically(results.admission(ep_size), pretty_json(admission))
    numbered = [(start, n, item) for start in plan.starts for n, item in enumerate(planted.get(start.id, OK), 1)]
    begun = [entry for entry in numbered if entry[2].status is not Status.NOT_RUN]
    in_time_first = sorted(begun, key=lambda entry: entry[2].late)
    for sequence, (start, number, item) in enumerate(in_time_first, 1):
        begun_at = {"start": start.id, "attempt": number, "round": start.round, "ep_size": start.ep_size}
        assert sequence == append_begin(results, {**begun_at, "kind": "scored", "at_utc": "2026-11-30T00:00:00Z"})
        _write_attempt(results, plan, start, number, item, sequence, model)
    for start, number, item in numbered:
        if item.status is Status.NOT_RUN:
            _write_unrun(results.attempt(start.id, number), plan, start, number)
    for start in plan.starts:
        _write_outcomes(results, start, planted.get(start.id, OK))
    return results


def _write_attempt(
    results: Results, plan: Plan, start: Start, number: int, item: Attempt, sequence: int, model: Model
) -> None:
    folder, spec = results.attempt(start.id, number), plan.spec(start)
    folder.mkdir(parents=True)
    context = _context(plan, start, number, item, sequence)
    write_atomically(folder / "spec.json", pretty_json(spec.as_json()))
    for name in [route.trace for route in spec.routes if route.trace]:
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(results.root / name, folder / name)
    for rank in range(start.ep_size):
        log_path(folder, rank).write_text("", encoding="ascii")
        writer = RankWriter(folder, rank)
        _write_rank(writer, results, plan, start, spec, number, rank, item, model)
        for stream in (writer._samples, writer._events):
            stream.close()
    launcher = _launcher(start, item)
    write_atomically(folder / "launcher.json", pretty_json(launcher))
    if not item.interrupted:
        assemble(folder, spec, launcher, context)
    for rank in range(start.ep_size):
        sample_path(folder, rank).unlink()


def _write_unrun(folder: Path, plan: Plan, start: Start, number: int) -> None:
    """The record of a start that its budget closed: it began nothing, so it has no sequence number and no clock."""
    folder.mkdir(parents=True)
    record = {
        "schema": START_SCHEMA,
        "campaign": plan.name,
        "plan_digest": plan.digest,
        "kind": "scored",
        "start": start.id,
        "attempt": number,
        "sequence": None,
        "position": start.position,
        "round": start.round,
        "order_position": start.order_position,
        "ep_size": start.ep_size,
        "profile": start.profile,
        "arm": start.arm,
        "status": "not_run",
        "reason_code": "budget_spent",
        "reason": "no further round begins: the budget does not hold another",
        "infrastructure": False,
        "records": [],
        "files": {},
    }
    write_atomically(folder / "start.json", pretty_json(record), mode=0o444)


def _write_rank(
    writer: RankWriter,
    results: Results,
    plan: Plan,
    start: Start,
    spec: StartSpec,
    number: int,
    rank: int,
    item: Attempt,
    model: Model,
) -> None:
    """The events of one rank, in the order in which a rank writes them."""
    writer.event(Event.HELLO, pid=100 + rank, hostname="synthetic", worker_digest=item.worker_digest)
    if item.status is Status.TIMED_OUT:
        return
    writer.event(Event.JOINED, seconds=0.5)
    for route in spec.routes:
        writer.event(Event.WORKLOAD, route=route.name, **_workload(results.root, plan, start, spec, route.name))
    writer.event(Event.PROVENANCE, fields=provenance_fields(spec, item))
    if item.status is Status.INADMISSIBLE:
        _fail(writer, item, rank)
        return
    entry = plan.capability(start.arm, start.profile)
    measured = [series for series in spec.series if series.same_as is None]
    if item.status is Status.CRASHED:
        measured = measured[: item.after_series]
    checked: set[tuple[str, str]] = set()
    for series in measured:
        if (series.cell, series.boundary.value) not in checked:
            checked.add((series.cell, series.boundary.value))
            _write_oracle(writer, series, item)
        shown = phases(series, entry)
        times_ns = model.times_ns(start, number, series, plan.cell(series.cell).dtype, shown)[:, rank, :]
        writer.event(
            Event.SERIES,
            **{key: value for key, value in series.as_json().items() if key in ("cell", "boundary", "mode", "loop")},
            status="ok",
            reason_code="",
            reason="",
            phases=[phase.value for phase in shown],
            num_samples=len(times_ns),
            offset=writer.samples(array("q", times_ns.tobytes())),
            resolved={"num_sms": not_applicable("a CPU has none"), "buffer_bytes": 4096},
        )
    if item.status is Status.CRASHED:
        _fail(writer, item, rank)
        return
    writer.event(Event.RESULTS)
    if item.teardown != "not_reached":
        writer.event(Event.TEARDOWN, status=item.teardown)


def _write_oracle(writer: RankWriter, series: Series, item: Attempt) -> None:
    wrong = item.status is Status.INCORRECT and item.cell in (None, series.cell)
    for stage in ("before", "after"):
        failed = wrong and stage == "after"
        writer.event(
            Event.ORACLE,
            cell=series.cell,
            boundary=series.boundary.value,
            stage=stage,
            passed=not failed,
            reason_code="wrong_value" if failed else "",
            reason="token 3 of rank 0: planted" if failed else "",
            max_token_error=0.5 if failed else 0.002,
            tolerance=TOLERANCE,
            num_pairs=16,
            num_expert_rows=16,
        )


def _fail(writer: RankWriter, item: Attempt, rank: int) -> None:
    reason = {"reason_code": item.reason_code, "reason": "planted", "at_ns": 1000 - rank, "secondary": rank != 1}
    writer.event(Event.FAILURE, status=item.status.value, **reason)


_WORKLOADS: dict[tuple[str, int, str, str], dict[str, Any]] = {}


def _workload(root: Path, plan: Plan, start: Start, spec: StartSpec, route: str) -> dict[str, Any]:
    key = (plan.digest, start.ep_size, start.profile, route)
    if key not in _WORKLOADS:
        declared = spec.route(route)
        made = route_workload(spec, declared, root)
        sent = {"num_tokens": list(declared.num_tokens), "counts": made.counts.as_json()}
        digests = {**made.digests, **input_digests(spec, declared)}
        _WORKLOADS[key] = {**digests, **sent, "expert_load": made.expert_load}
    return _WORKLOADS[key]


def provenance_fields(spec: StartSpec, item: Attempt) -> dict[str, Any]:
    """Every field of the contract, as a rank of a CPU start might have observed it."""
    seen: dict[str, Any] = {
        entry.name: not_applicable("synthetic") if spec.device in entry.optional_on else f"synthetic {entry.name}"
        for entry in FIELDS
    }
    seen |= {"num_cpus": 2, "memory_total_bytes": 1 << 34, "threads_per_rank": spec.threads_per_rank}
    seen |= {"hostname": "synthetic", "affinity": [0, 1], "load_average": [0.5, 1.5], "timer_floor_ns": 50}
    seen |= {"peak_rss_bytes": 1 << 28, "collective_library": "gloo", "torch_version": "2.13.0"}
    seen["environment"] = {"OMP_NUM_THREADS": "1", **spec.arm.environment, **item.environment}
    return seen | dict(item.provenance)


def _launcher(start: Start, item: Attempt) -> dict[str, Any]:
    outcome, status, code, reason = "finished", "ok", "", ""
    if item.status in (Status.CRASHED, Status.INADMISSIBLE):
        outcome, status, code, reason = "rank_failed", item.status.value, item.reason_code, "rank 1 ended with 1"
    elif item.status is Status.TIMED_OUT:
        outcome, status, code, reason = "watchdog", "timed_out", "watchdog", "no rank finished within 60 s"
    exits = [{"rank": rank, "pid": 100 + rank, "exit_code": int(status != "ok")} for rank in range(start.ep_size)]
    return {"outcome": outcome, "status": status, "reason_code": code, "reason": reason, "ranks": exits}


def _context(plan: Plan, start: Start, number: int, item: Attempt, sequence: int) -> dict[str, Any]:
    """What only the controller knows of an attempt."""
    hours, minutes = divmod(sequence, 60)
    return {
        "attempt": number,
        "sequence": sequence,
        "position": start.position,
        "round": start.round,
        "order_position": start.order_position,
        "infrastructure": item.infrastructure,
        "clock": {
            "began_utc": f"2026-11-30T{hours:02d}:{minutes:02d}:00Z",
            "ended_utc": f"2026-11-30T{hours:02d}:{minutes:02d}:30Z",
            "seconds": 30.0,
        },
        "controller": {"git_commit": "0" * 40, "git_dirty": False, "hostname": "synthetic"},
        "image": plan.document["arms"][start.arm]["image"],
    }


def _write_outcomes(results: Results, start: Start, items: Sequence[Attempt]) -> None:
    """One outcome for each job: a late attempt begins a job of its own."""
    jobs: list[list[int]] = []
    for number, item in enumerate(items, 1):
        if item.interrupted:
            continue
        if item.late or not jobs:
            jobs.append([])
        jobs[-1].append(number)
    for job in jobs:
        tried = [_outcome_row(results, start, number, items[number - 1]) for number in job]
        value = {"schema": OUTCOME_SCHEMA, "start": start.id, "status": tried[-1]["status"], "attempts": tried}
        write_atomically(results.outcome(start.id, job[0]), pretty_json(value))


def _outcome_row(results: Results, start: Start, number: int, item: Attempt) -> dict[str, Any]:
    return {
        "attempt": number,
        "status": item.status.value,
        "reason_code": "" if item.status is Status.OK else item.reason_code,
        "reason": "" if item.status is Status.OK else "planted",
        "infrastructure": item.infrastructure,
        "sha256": sha256_file(results.attempt(start.id, number) / "start.json"),
    }


def record_all_products(results: Results) -> None:
    """Records whatever products lie in a folder as what their stages wrote."""
    for stage, names in ALWAYS.items():
        figures = sorted(results.figures.glob("*")) if stage is Stage.PLOTS else []
        record_products(results, stage, [*(results.root / name for name in names), *figures])


def seal_folder(results: Results, mark: Path) -> None:
    """Checksums over what lies there, and a mark over them, whatever validation would say."""
    write_atomically(results.checksums, b"".join(checksum_line(results.root, path) for path in evidence(results)))
    write_atomically(mark, pretty_json({"sha256sums_sha256": sha256_file(results.checksums)}))
