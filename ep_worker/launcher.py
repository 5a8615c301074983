"""Starts the ranks of one node and sees them to their end.

torch is imported once, here, and the ranks are forked before anything is initialised: no thread runs yet, no device is
open, and what a rank would spend most of its start on is there already.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch.distributed import TCPStore  # type: ignore[attr-defined] # public, missing in torch's own types

from ep_worker import fabric, outcome
from ep_worker.contract.canonical import pretty_json, write_atomically
from ep_worker.contract.rankfile import log_path
from ep_worker.place import Endpoint, Place
from ep_worker.processes import STACKS_SIGNAL, WATCHED, die_with_parent, print_to, release_signals
from ep_worker.rank import EXIT_FAILED, run_rank

if TYPE_CHECKING:
    from collections.abc import Collection

    from ep_worker.outcome import Ended, Verdict

GRACE_S = 3.0
"""What ranks are given to end by themselves once one of them has failed."""
STACKS_S = 0.5
"""What ranks are given to write their stacks before they are killed."""

_LOOPBACK = "127.0.0.1"
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Node:
    """One launcher's share of a start.

    Attributes:
        rank: Its number, from 0.
        num_nodes: Launchers of the start.
        rendezvous: Where node 0 keeps the store; None where there is one node, which then takes a free port.
    """

    rank: int
    num_nodes: int
    rendezvous: Endpoint | None


def launch(place: Place, node: Node, durations_s: dict[str, float]) -> int:
    """Runs the ranks of one node and writes `launcher.json`; signals must be held (`processes.hold_signals`).

    Args:
        place: Place of the node's first rank.
        node: Which node this is.
        durations_s: What was spent before; parts are added.

    Returns:
        0: the account is written, whatever it says.
    """
    ranks = _Ranks(place)
    before = fabric.snapshot()
    try:
        listener = _listen(node)
        ranks.fork(listener, node)
        durations_s["fork"] = _since(place.launched_at_ns) - sum(durations_s.values())
        store = _serve(listener, place)
        verdict = ranks.watch()
        del store
    except OSError as error:
        ranks.stop()
        verdict = outcome.of_launch_failure(error)
    durations_s["total"] = _since(place.launched_at_ns)
    counters = {"before": before, "after": fabric.snapshot()}
    write_account(place, node.rank, verdict, ranks.ended, durations_s, counters)
    return 0


def write_account(
    place: Place,
    node_rank: int,
    verdict: Verdict,
    ended: Collection[Ended],
    durations_s: dict[str, float],
    counters: dict[str, Any] | None = None,
) -> None:
    """Writes `launcher.json`.

    Args:
        place: Place of the node's first rank.
        node_rank: Number of the node.
        verdict: How it went.
        ended: Ranks that have ended.
        durations_s: What took how long.
        counters: The fabric's NICs `before` the ranks began and `after` they ended.
    """
    account = {
        "schema": outcome.LAUNCHER_SCHEMA,
        "node_rank": node_rank,
        **verdict.as_json(),
        "ranks": [one.as_json() for one in sorted(ended, key=lambda one: one.rank)],
        "durations_s": {name: round(seconds, 4) for name, seconds in durations_s.items()},
        "fabric": counters or {},
    }
    write_atomically(place.out / outcome.LAUNCHER_FILE, pretty_json(account))


class _Ranks:
    """The forked ranks of one node."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._running: dict[int, tuple[int, int]] = {}  # process: rank, when it was forked
        self.ended: list[Ended] = []

    def fork(self, listener: socket.socket | None, node: Node) -> None:
        """Makes one process for each rank of the node.

        Raises:
            OSError: The system has no process to give.
        """
        place, launcher_pid = self._place, os.getpid()
        if listener is not None:
            store = Endpoint(_LOOPBACK, listener.getsockname()[1])
        else:
            assert node.rendezvous is not None
            store = node.rendezvous
        gc.freeze()  # what is imported stays shared: the collector will not write to its pages
        for local_rank in range(place.num_local_ranks):
            own = replace(place, rank=place.rank + local_rank, local_rank=local_rank, store=store)
            forked_at_ns = time.monotonic_ns()
            pid = os.fork()
            if pid == 0:
                _become(own, launcher_pid, listener)
            self._running[pid] = (own.rank, forked_at_ns)

    def watch(self) -> Verdict:
        """Waits until all ranks have ended, one has failed, the bound runs out, or somebody says stop."""
        bound_s = self._place.spec.watchdog_s
        deadline = self._place.launched_at_ns / _NS_PER_S + bound_s
        while self._running:
            told = signal.sigtimedwait(WATCHED, max(0.0, deadline - time.monotonic()))
            if told is None:
                late = sorted(rank for rank, _ in self._running.values())
                self.stop()
                return outcome.of_watchdog(late, self._place.num_local_ranks, bound_s)
            if told.si_signo != signal.SIGCHLD:
                self.stop()
                return outcome.of_interrupt(signal.Signals(told.si_signo))
            failed = [one for one in self._reap() if one.failed]
            if failed:
                # One that a signal killed goes first: the others may only have seen it die.
                first = min(failed, key=lambda one: one.signal is None)
                self._await_others()
                return outcome.of_failure(first)
        return outcome.FINISHED

    def stop(self) -> None:
        """Has every rank that still runs write its stacks, and kills it."""
        for number in (STACKS_SIGNAL, signal.SIGCONT):  # a stopped process writes nothing
            self._signal(number)
        if self._running:
            time.sleep(STACKS_S)
        self._signal(signal.SIGKILL)
        for pid in list(self._running):
            self._note(pid, os.waitpid(pid, 0)[1], stopped=True)

    def _await_others(self) -> None:
        """Gives the others a moment to write their own account, then ends them."""
        deadline = time.monotonic() + GRACE_S
        while self._running and (left_s := deadline - time.monotonic()) > 0:
            told = signal.sigtimedwait(WATCHED, left_s)
            if told is not None and told.si_signo != signal.SIGCHLD:
                break
            self._reap()
        self.stop()

    def _reap(self) -> list[Ended]:
        """Takes note of every rank that has ended; one signal may stand for several."""
        before = len(self.ended)
        for pid in list(self._running):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                self._note(pid, status, stopped=False)
        return self.ended[before:]

    def _note(self, pid: int, status: int, *, stopped: bool) -> None:
        rank, forked_at_ns = self._running.pop(pid)
        self.ended.append(outcome.ended(rank, pid, status, _since(forked_at_ns), stopped=stopped))

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._running:
            os.kill(pid, number)  # not waited for yet, so the number is still its own


def _become(place: Place, launcher_pid: int, listener: socket.socket | None) -> None:
    """Turns this forked process into a rank; does not return."""
    status = EXIT_FAILED
    try:
        die_with_parent(launcher_pid)
        release_signals()
        if listener is not None:
            listener.close()
        print_to(log_path(place.out, place.rank))
        os.environ.update(_environment(place))
        status = run_rank(place)
    except BaseException:  # noqa: BLE001 - a fork must never run on in its parent's code
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _environment(place: Place) -> dict[str, str]:
    """Variables that backends read to learn where they are; torchrun sets the same."""
    assert place.store is not None
    return {
        "RANK": str(place.rank),
        "WORLD_SIZE": str(place.spec.ep_size),
        "LOCAL_RANK": str(place.local_rank),
        "LOCAL_WORLD_SIZE": str(place.num_local_ranks),
        "MASTER_ADDR": place.store.host,
        "MASTER_PORT": str(place.store.port),
    }


def _listen(node: Node) -> socket.socket | None:
    """The store's socket, listening before any rank looks for it; None on other nodes than the first."""
    if node.rank != 0:
        return None
    if node.rendezvous is None:
        return socket.create_server((_LOOPBACK, 0), backlog=1024)
    if socket.has_dualstack_ipv6():
        address = ("", node.rendezvous.port)
        return socket.create_server(address, family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return socket.create_server(("", node.rendezvous.port), backlog=1024)


def _serve(listener: socket.socket | None, place: Place) -> TCPStore | None:
    """The store that the ranks of all nodes meet at. It lives here, not in rank 0, and so outlives every rank."""
    if listener is None:
        return None
    port = listener.getsockname()[1]
    return TCPStore(
        _LOOPBACK,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
        world_size=place.spec.ep_size,
    )


def _since(at_ns: int) -> float:
    return (time.monotonic_ns() - at_ns) / _NS_PER_S
