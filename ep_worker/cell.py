"""One cell at one boundary: make the arm, check it, time every series, check it again, give it back."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ep_worker import bag
from ep_worker.backends import find
from ep_worker.backends.protocol import Problem
from ep_worker.collectives import agree
from ep_worker.contract.rankfile import Event
from ep_worker.contract.series import phases
from ep_worker.contract.spec import OVERHEAD, PROFILE, SCORED
from ep_worker.contract.terms import Status
from ep_worker.failure import MAX_REASON_CHARS, Stage
from ep_worker.gates import compiled_since, not_as_asked, require_one_collective_library
from ep_worker.oracle import Oracle
from ep_worker.reason import Reason
from ep_worker.roundtrip import RoundTrip
from ep_worker.timing import CaptureError, run_series
from ep_worker.trip import Trip
from ep_worker.workload import input_rows

if TYPE_CHECKING:
    from ep_worker.barrier import Barrier
    from ep_worker.contract.capabilities import Capability
    from ep_worker.contract.rankfile import RankWriter
    from ep_worker.contract.series import Cell, Series
    from ep_worker.contract.terms import Boundary
    from ep_worker.device import Machine
    from ep_worker.oracle import OutputError
    from ep_worker.place import Place
    from ep_worker.workload import Workload


@dataclass
class Progress:
    """How far a rank has come, for its account and its clock.

    Attributes:
        stage: What it is doing.
        first_timed_at_ns: When its first timed iteration began [monotonic ns]; 0 before that.
        last_timed_at_ns: When its last timed iteration so far had ended; 0 before that.
        close_failures: What arms raised when they were given back.
    """

    stage: Stage = Stage.JOIN
    first_timed_at_ns: int = 0
    last_timed_at_ns: int = 0
    close_failures: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Rank:
    """What a rank measures with."""

    place: Place
    machine: Machine
    barrier: Barrier
    writer: RankWriter
    entry: Capability
    progress: Progress


class CellRun:
    """One arm's object for one cell and boundary, with its oracle."""

    def __init__(self, rank: Rank, cell: Cell, boundary: Boundary, workload: Workload) -> None:
        spec = rank.place.spec
        rank.progress.stage = Stage.BUILD
        problem = Problem(
            rank.place.rank,
            spec.ep_size,
            spec.shape,
            cell.dtype,
            rank.machine.device,
            workload.expert_AK[workload.own].contiguous(),
            workload.weight_AK[workload.own].contiguous(),
            spec.arm.knobs,
        )
        self._rank = rank
        self._key = {"cell": cell.id, "boundary": boundary.value}
        self._backend = find(spec.arm.backend, spec.arm.api_mode)(problem)
        self._trip = RoundTrip(self._backend, problem, rank.entry, boundary)
        if spec.kind == SCORED:
            require_one_collective_library()  # a backend may bring its own when it is made
        self._made_with = dict(self._backend.resolved())
        self._oracle = Oracle(spec, workload, self._trip, rank.entry.bf16_accumulations)
        self._x_TH = input_rows(spec, workload.own_tokens)

    def run(self, series: list[Series]) -> None:
        """Checks, times, checks again, and closes; what is refused by a check is not timed."""
        self._rank.progress.stage = Stage.MEASURE
        if self._check("before", 0, None):
            trip = Trip(self._trip, self._oracle, self._x_TH)
            run = {PROFILE: self._profile, OVERHEAD: self._compare}.get(self._rank.place.spec.kind, self._time)
            for one in series:
                run(one, trip)
            self._check("after", 1, trip.worst)
        self._rank.writer.settle()
        self._close()

    def _check(self, stage: str, number: int, timed: OutputError | None) -> bool:
        verdict = self._oracle.check(number).as_json()
        if timed is not None:
            verdict["timed_output_error"] = timed.max_token_error
            if verdict["passed"] and timed.finding is not None:
                verdict.update(passed=False, reason_code=timed.finding.code.value, reason=timed.finding.text)
        self._rank.writer.event(Event.ORACLE, **self._key, stage=stage, **verdict)
        return agree(verdict["passed"], self._rank.machine.device)

    def _time(self, series: Series, trip: Trip) -> None:
        rank, entry = self._rank, self._rank.entry
        key = {**self._key, "mode": series.mode.value, "loop": series.loop.value}
        names = phases(series, entry)
        steps = trip.steps(series.loop, fresh_layout=entry.separable_layout)
        try:
            timed = run_series(series, names, steps, rank.machine, rank.barrier, lambda: trip.turn(series.loop))
        except CaptureError as error:
            refused = {"status": Status.CRASHED.value, "reason_code": Reason.CAPTURE_FAILED.value}
            rank.writer.event(Event.SERIES, **key, **refused, reason=str(error)[:MAX_REASON_CHARS])
            return
        progress = rank.progress
        progress.first_timed_at_ns = progress.first_timed_at_ns or timed.began_at_ns
        progress.last_timed_at_ns = timed.ended_at_ns
        trip.look(series.loop)
        refusal = self._refusal(timed.began_at_ns)
        if refusal is not None:
            refused = {"status": Status.INADMISSIBLE.value, "reason_code": refusal[0].value}
            rank.writer.event(Event.SERIES, **key, **refused, reason=refusal[1][:MAX_REASON_CHARS])
            return
        rank.writer.event(
            Event.SERIES,
            **key,
            status=Status.OK.value,
            reason_code="",
            reason="",
            phases=[name.value for name in names],
            num_samples=timed.num_samples,
            offset=rank.writer.samples(timed.times_ns),
            resolved=self._resolved(),
        )

    def _profile(self, series: Series, trip: Trip) -> None:
        """Kernel times of whole round-trips, instead of their timing."""
        from ep_worker.probes import kernels  # noqa: PLC0415 - imports the profiler, which no timed process shall

        rank, spec = self._rank, self._rank.place.spec
        steps = trip.steps(series.loop, fresh_layout=rank.entry.separable_layout)
        times = kernels.kernel_times(
            spec.arm.backend, spec.device, steps, rank.machine, rank.barrier, lambda: trip.turn(series.loop)
        )
        trip.look(series.loop)
        self._tell(series, {"times_ns": kernels.as_json(times)})

    def _compare(self, series: Series, trip: Trip) -> None:
        """This harness against a minimal loop over the same calls, instead of a series."""
        from ep_worker.probes import overhead  # noqa: PLC0415 - no start needs it

        rank = self._rank
        fresh = rank.entry.separable_layout
        calls = overhead.Calls(self._backend, trip, fresh_layout=fresh)
        names = phases(series, rank.entry)
        blocks = overhead.compare(series, names, trip, calls, rank.machine, rank.barrier, fresh_layout=fresh)
        self._tell(series, {"blocks": blocks})

    def _tell(self, series: Series, found: dict[str, Any]) -> None:
        """Writes what was measured instead of a series, under the series' name."""
        key = {**self._key, "mode": series.mode.value, "loop": series.loop.value}
        well = {"status": Status.OK.value, "reason_code": "", "reason": ""}
        self._rank.writer.event(Event.PROBE, **key, **well, found={"mode": series.mode.value, **found})

    def _refusal(self, began_at_ns: int) -> tuple[Reason, str] | None:
        """Why the times of a loop that has just ended are not the arm's own; None where they are."""
        spec = self._rank.place.spec
        if spec.kind != SCORED:
            return None
        compiled = compiled_since(began_at_ns, os.environ)
        if compiled is not None:
            text = f"found {compiled} written while the loop was timed, expected every kernel to be there after its warm-ups"
            return Reason.COMPILED_WHILE_TIMED, f"{text}: run more warm-ups, or warm the cache before the start"
        text_of_knobs = not_as_asked(spec.arm.knobs, self._made_with, self._backend.resolved())
        return None if text_of_knobs is None else (Reason.KNOB_NOT_AS_ASKED, text_of_knobs)

    def _resolved(self) -> dict[str, Any]:
        return {
            **self._backend.resolved(),
            "barrier": self._rank.barrier.name,
            "bag_sums": bag.method(self._trip.problem.device),
        }

    def _close(self) -> None:
        """Gives the arm's object back, no peer using it any more; a failure is noted and takes no result away."""
        self._rank.machine.settle()
        self._rank.barrier()
        try:
            self._backend.close()
        except Exception as error:  # noqa: BLE001 - whatever a backend raises here, its results stand
            self._rank.progress.close_failures.append(f"{self._key['cell']}: {type(error).__name__}: {error}")
