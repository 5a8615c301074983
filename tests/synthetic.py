"""Whole results folders without a rank, a clock or torch: what the files of a campaign hold, and effects planted on purpose.

`make_results` writes, for every start of a plan, what its ranks would have left (events and raw times, through the
contract's own writer), and lets the contract's assembly turn them into `start.json` and `samples.bin.gz`. Every number
comes from a `Model`; what goes wrong comes from `Attempt`s by start id.
"""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from ep_campaign.layout import OUTCOME_SCHEMA, Results
from ep_campaign.workload import workload

from ep_worker.contract.assembly import assemble
from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically
from ep_worker.contract.provenance import FIELDS, not_applicable
from ep_worker.contract.rankfile import Event, RankWriter, log_path, sample_path
from ep_worker.contract.series import phases
from ep_worker.contract.terms import Boundary, Dtype, Mode, Phase, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import numpy.typing as npt
    from ep_campaign.plan import Plan, Start

    from ep_worker.contract.series import Series
    from ep_worker.contract.spec import StartSpec

WORKER_DIGEST = "5" * 64
TOLERANCE = 0.0078125
PHASE_SHARE = {Phase.LAYOUT: 0.1, Phase.DISPATCH: 0.5, Phase.COMBINE: 0.4, Phase.ROUNDTRIP: 1.0}
BOUNDARY_FACTOR = {Boundary.DISPATCH_READY: 1.0, Boundary.BF16_READY: 1.05, Boundary.GEMM_READY: 1.2}


@dataclass(frozen=True)
class Model:
    """Where latencies come from; spreads are standard deviations of natural logarithms (0.03 is about 3 %).

    Attributes:
        seed: Seed of every draw.
        base_us: Round-trip of the reference at `dispatch_ready`, BF16, host-started [us].
        arm_factor: Latency of an arm over the base, by arm; 1 where absent.
        cell_factor: The same for one arm in one cell, by (cell, arm).
        start_sd: Spread between starts.
        round_sd: Spread between rounds, common to all arms of a round.
        iteration_sd: Spread between iterations of a start.
        rank_sd: Spread between ranks within an iteration.
        order_effect: Growth for each place later in a round's order, as a logarithm.
        drift: Growth from round to round, as a logarithm.
        outlier_starts: Starts (by id) that are slower throughout, with their factor.
        spike_share: Share of iterations in which one rank takes twice as long.
    """

    seed: int = 1
    base_us: float = 200.0
    arm_factor: Mapping[str, float] = field(default_factory=dict)
    cell_factor: Mapping[tuple[str, str], float] = field(default_factory=dict)
    start_sd: float = 0.02
    round_sd: float = 0.01
    iteration_sd: float = 0.05
    rank_sd: float = 0.01
    order_effect: float = 0.0
    drift: float = 0.0
    outlier_starts: Mapping[str, float] = field(default_factory=dict)
    spike_share: float = 0.0

    def generator(self, *key: object) -> np.random.Generator:
        """Draws of one purpose, independent of every other purpose."""
        return np.random.default_rng([self.seed, crc32(repr(key).encode())])

    def start_level(self, start: Start, attempt: int) -> float:
        """Logarithm of a start's own factor: what all of its series share."""
        block = (start.ep_size, start.profile, start.round)
        return float(
            self.round_sd * self.generator("round", block).standard_normal()
            + self.start_sd * self.generator("start", start.id, attempt).standard_normal()
            + self.order_effect * (start.order_position - 1)
            + self.drift * (start.round - 1)
            + math.log(self.outlier_starts.get(start.id, 1.0) * self.arm_factor.get(start.arm, 1.0))
        )

    def times_ns(
        self, start: Start, attempt: int, series: Series, dtype: Dtype, shown: Sequence[Phase]
    ) -> npt.NDArray[np.int64]:
        """Raw times of one series, [sample, rank, phase]."""
        num_samples = series.iterations // series.chain_length
        draw = self.generator(start.id, attempt, series.key)
        factor = BOUNDARY_FACTOR[series.boundary] * self.cell_factor.get((series.cell, start.arm), 1.0)
        factor *= (0.8 if dtype is Dtype.FP8 else 1.0) * (0.9 if series.mode is Mode.CHAINED else 1.0)
        level = math.log(self.base_us * 1e3 * factor) + self.start_level(start, attempt)
        noise = self.iteration_sd * draw.standard_normal((num_samples, 1))
        noise = noise + self.rank_sd * draw.standard_normal((num_samples, start.ep_size))
        spike = (draw.random((num_samples, 1)) < self.spike_share) & (np.arange(start.ep_size) == 0)
        whole_SR = np.exp(level + noise) * np.where(spike, 2.0, 1.0) * series.chain_length
        share_P = np.array([PHASE_SHARE[phase] for phase in shown])
        if Phase.ROUNDTRIP in shown and len(shown) > 1:
            share_P[:-1] /= share_P[:-1].sum()
        times_ns: npt.NDArray[np.int64] = np.rint(whole_SR[:, :, None] * share_P).astype(np.int64)
        return times_ns


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
) -> Results:
    """A results folder of a plan, in which every start goes as `attempts` says; `()` for a start that never was.

    Args:
        root: Folder to make.
        plan: Plan.
        model: Where latencies come from.
        attempts: Attempts by start id; one that is ok for every other start.
        workers: Worker digests that the folder accepts.
    """
    model, planted, results = model or Model(), attempts or {}, Results(root)
    unknown = set(planted) - set(plan.by_id)
    if unknown:
        msg = f"{sorted(unknown)} are no starts of the plan"
        raise ValueError(msg)
    root.mkdir(parents=True)
    write_atomically(results.plan, plan.text())
    accepted = [{"digest": digest, "reason": "" if digest == workers[0] else "planted"} for digest in workers]
    write_atomically(results.worker, pretty_json({"schema": "ep-campaign/worker/1", "accepted": accepted}))
    numbered = [(start, n, item) for start in plan.starts for n, item in enumerate(planted.get(start.id, OK), 1)]
    in_time_first = sorted(numbered, key=lambda entry: entry[2].late)
    for sequence, (start, number, item) in enumerate(in_time_first, 1):
        _write_attempt(results, plan, start, number, item, sequence, model)
    for start in plan.starts:
        _write_outcomes(results, start, planted.get(start.id, OK))
    return results


def _write_attempt(
    results: Results, plan: Plan, start: Start, number: int, item: Attempt, sequence: int, model: Model
) -> None:
    folder, spec = results.attempt(start.id, number), plan.spec(start)
    folder.mkdir(parents=True)
    context = _context(plan, start, number, item, sequence)
    if item.status is Status.NOT_RUN:
        closed = {"status": "not_run", "reason_code": "budget_spent", "reason": "the budget was spent", "records": []}
        names = {"start": start.id, "ep_size": start.ep_size, "profile": start.profile, "arm": start.arm}
        names |= {"schema": "ep-campaign/start/1", "kind": "scored", "campaign": plan.name, "files": {}}
        value = {**context, **names, **closed, "plan_digest": plan.digest}
        write_atomically(folder / "start.json", pretty_json(value), mode=0o444)
        return
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
    checked: set[tuple[str, Boundary]] = set()
    for series in measured:
        if (series.cell, series.boundary) not in checked:
            checked.add((series.cell, series.boundary))
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
        made = workload(spec, spec.route(route), root)
        loads = np.bincount(np.concatenate([e.ravel() for e in made.experts]) + 1, minlength=spec.shape.experts + 1)
        load = {"min": int(loads[1:].min()), "max": int(loads[1:].max()), "mean": float(loads[1:].mean())}
        num_tokens = list(spec.route(route).num_tokens)
        counts = made.counts.as_json()
        _WORKLOADS[key] = {**made.digests, "counts": counts, "num_tokens": num_tokens, "expert_load": load}
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
