"""What one rank does, from its first line to its last."""

from __future__ import annotations

import os
import socket
import time
import traceback
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import distributed as dist

from ep_worker.backends import find
from ep_worker.cell import CellRun, Progress, Rank
from ep_worker.contract.capabilities import capability
from ep_worker.contract.rankfile import Event, RankWriter
from ep_worker.contract.spec import SCORED
from ep_worker.device import open_machine
from ep_worker.failure import MissingBackendError, Stage, account
from ep_worker.gates import require_quiet
from ep_worker.join import join
from ep_worker.observe import Observer
from ep_worker.outcome import EXIT_RENDEZVOUS
from ep_worker.reason import Reason
from ep_worker.timing import timer_floor_ns
from ep_worker.workload import describe, make_workload

if TYPE_CHECKING:
    from ep_worker.barrier import Barrier
    from ep_worker.contract.capabilities import Capability
    from ep_worker.contract.series import Series
    from ep_worker.contract.spec import StartSpec
    from ep_worker.contract.terms import Boundary
    from ep_worker.place import Place

EXIT_FAILED = 1

_NS_PER_S = 1_000_000_000


def run_rank(place: Place) -> int:
    """Runs one rank; its exit status is 0, or says that its own files hold why not."""
    writer = RankWriter(place.out, place.rank)
    process = {"pid": os.getpid(), "hostname": socket.gethostname()}
    writer.event(Event.HELLO, rank=place.rank, worker_digest=place.worker_digest, **process)
    return _Run(place, writer).run()


class _Run:
    """A rank's run: its files, and what must still be said when something raises."""

    def __init__(self, place: Place, writer: RankWriter) -> None:
        self._place = place
        self._writer = writer
        self._progress = Progress()
        self._observer: Observer | None = None
        self._barrier: Barrier | None = None

    def run(self) -> int:
        """Everything, with whatever raises turned into this rank's account."""
        try:
            with torch.inference_mode():
                self._measure()
        except Exception as error:  # noqa: BLE001 - the account must be written whatever it is
            return self._give_up(error)
        return 0

    def _measure(self) -> None:
        place, spec = self._place, self._place.spec
        entry = _entry(spec)
        machine = open_machine(place)
        self._barrier = join(place, machine)
        self._writer.event(Event.JOINED, seconds_since_launch=self._since_launch(), barrier=self._barrier.name)
        os.environ.update(_torchrun_names(place))
        self._progress.stage = Stage.WORKLOAD
        self._observer = Observer(place)
        workloads = {
            route.name: make_workload(spec, route, place.rank, machine.device, place.spec_folder)
            for route in spec.routes
        }
        for workload in workloads.values():
            self._writer.event(Event.WORKLOAD, **describe(spec, workload))
        self._observer.timer_floor_ns = timer_floor_ns(machine, self._barrier)
        # Once now and once at the end: what a killed rank measured must still say where.
        self._observe()
        rank = Rank(place, machine, self._barrier, self._writer, entry, self._progress)
        if spec.kind == SCORED:
            require_quiet(os.environ)
        for cell in spec.cells:
            for boundary, series in by_boundary([one for one in spec.series if one.cell == cell.id]):
                CellRun(rank, cell, boundary, workloads[cell.route]).run(series)
        self._progress.stage = Stage.REPORT
        self._finish()

    def _finish(self) -> None:
        """Results first, then teardown: a fault of the latter takes nothing away."""
        self._observe()
        first_ns, last_ns = self._progress.first_timed_at_ns, self._progress.last_timed_at_ns
        to_first_s = round((first_ns - self._place.launched_at_ns) / _NS_PER_S, 6) if first_ns else None
        self._writer.event(Event.RESULTS, seconds_to_first_timed_iteration=to_first_s)
        self._writer.settle()
        failures = list(self._progress.close_failures)
        backend = find(self._place.spec.arm.backend, self._place.spec.arm.api_mode)
        try:
            dist.barrier()  # a peer that still uses a buffer must not see it go
            backend.release()
            if not backend.ends_device:
                dist.destroy_process_group()
        except Exception as error:  # noqa: BLE001 - reported, not fatal: the results are on disk
            failures.append(f"{type(error).__name__}: {error}")
        since_last_s = round((time.monotonic_ns() - last_ns) / _NS_PER_S, 6) if last_ns else None
        self._writer.event(
            Event.TEARDOWN,
            status="failed" if failures else "ok",
            reason="; ".join(failures),
            seconds_since_last_timed_iteration=since_last_s,
        )
        self._writer.settle()

    def _observe(self) -> None:
        if self._observer is not None:
            self._writer.event(Event.PROVENANCE, fields=self._observer.fields())

    def _give_up(self, error: Exception) -> int:
        """Writes this rank's account, then whatever is known of where it ran, and tells waiting peers."""
        at_ns = time.monotonic_ns()
        failure = account(error, self._progress.stage)
        self._writer.event(
            Event.FAILURE,
            status=failure.status.value,
            reason_code=failure.reason_code.value,
            reason=failure.reason,
            secondary=failure.secondary,
            at_ns=at_ns,
        )
        self._writer.settle()
        if self._barrier is not None:
            self._barrier.abort()
        traceback.print_exception(error)  # to the log; the account holds its last line only
        try:
            self._observe()
        except Exception as second:  # noqa: BLE001 - the first failure is the one that counts
            traceback.print_exception(second)
        self._writer.settle()
        return EXIT_RENDEZVOUS if failure.reason_code is Reason.RENDEZVOUS_TIMEOUT else EXIT_FAILED

    def _since_launch(self) -> float:
        return round((time.monotonic_ns() - self._place.launched_at_ns) / _NS_PER_S, 6)


def _torchrun_names(place: Place) -> dict[str, str]:
    """The variables by which backends that are used to torchrun learn where they are."""
    numbers = {
        "RANK": place.rank,
        "WORLD_SIZE": place.spec.ep_size,
        "LOCAL_RANK": place.local_rank,
        "LOCAL_WORLD_SIZE": place.num_local_ranks,
    }
    return {name: str(number) for name, number in numbers.items()}


def _entry(spec: StartSpec) -> Capability:
    """What the arm can do.

    Raises:
        MissingBackendError: A folder of its build is not there, it cannot be imported, or it does not say what it can do in
            this API mode.
    """
    missing = [folder for folder in spec.arm.build if not Path(folder).is_dir()]
    if missing:
        # Without this check an installed build would answer in the place of the one that was asked for.
        msg = f"there is no folder {', '.join(missing)} here, which arm {spec.arm.name!r} names as its build: put the build there"
        raise MissingBackendError(msg)
    find(spec.arm.backend, spec.arm.api_mode)
    entry = capability(spec.arm.backend, spec.arm.api_mode)
    if entry is None:
        msg = f"backend {spec.arm.backend!r} says nothing of API mode {spec.arm.api_mode.value!r}: mend the arm's name or mode"
        raise MissingBackendError(msg)
    return entry


def by_boundary(series: list[Series]) -> list[tuple[Boundary, list[Series]]]:
    """A cell's series that are measured, boundary by boundary in the order in which these first appear."""
    measured = [one for one in series if one.same_as is None]
    order = list(dict.fromkeys(one.boundary for one in measured))
    ordered = sorted(measured, key=lambda one: order.index(one.boundary))
    return [(boundary, list(group)) for boundary, group in groupby(ordered, key=lambda one: one.boundary)]
