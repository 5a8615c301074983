"""`python -m ep_worker launch SPEC OUT`: one start, from its spec to its files.

`collect` prints these files (`collect.py`), `run` runs a bundle of starts (`bundle.py`), `break`, `kernels` and `overhead`
check this worker itself (`selfcheck.py`).
By itself it starts all ranks of its node. Under torchrun or srun, which start the ranks themselves, it is one rank.

Exit status: 0 where a truthful account exists, also of a failed start (under a foreign launcher: the rank's own); 2 where
the arguments or the spec are malformed; 3 where no account could be written.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ep_worker.alive import hold
from ep_worker.collect import collect
from ep_worker.contract.rankfile import log_path
from ep_worker.contract.spec import read_spec
from ep_worker.own_digest import own_digest
from ep_worker.place import Endpoint, Place
from ep_worker.processes import die_with_parent, hold_signals, print_to

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ep_worker.contract.spec import StartSpec

SELF_CHECKS = ("break", "kernels", "overhead")
EXIT_REFUSED = 2
EXIT_NO_ACCOUNT = 3

_BEFORE_IMPORT = {
    # numpy, which torch imports, would start threads, and a process with threads must not fork.
    "OPENBLAS_NUM_THREADS": "1",
}
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Foreign:
    """Where a first rank stands; for a rank that torchrun or srun started, as these say it."""

    rank: int
    num_ranks: int
    local_rank: int
    num_local_ranks: int


def main(arguments: Sequence[str], began_at_ns: int) -> int:
    """Runs the command.

    Args:
        arguments: Command line without the program.
        began_at_ns: When the process began, on the machine's monotonic clock.
    """
    if arguments[:1] and arguments[0] in SELF_CHECKS:
        from ep_worker.selfcheck import main as check  # noqa: PLC0415 - no launch of a start needs it

        return check(arguments)
    parent_pid = os.getppid()
    options = _parser().parse_args(arguments)
    if options.command == "run":
        return _run_bundle(options.bundle, options.seconds)
    if options.command == "collect":
        collect(options.out, options.stream)
        return 0
    try:
        spec = read_spec(options.spec)
        foreign = None if options.num_nodes is not None else foreign_place(os.environ, spec.ep_size)
        rendezvous = None if options.rendezvous is None else Endpoint.parse(options.rendezvous)
        num_nodes = _num_nodes(spec, options, rendezvous, foreign)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"ep_worker launch: {options.spec}: {error}\n")
        return EXIT_REFUSED
    die_with_parent(parent_pid)
    _set_environment(spec, alone=num_nodes == 1 and foreign is None)
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        if options.alive:
            hold(options.out)  # for good: the descriptor closes with the last process that has it
        num_local = spec.ep_size // num_nodes
        here = foreign or Foreign(options.node_rank * num_local, spec.ep_size, 0, num_local)
        place = Place(
            spec=spec,
            spec_folder=options.spec.resolve().parent,
            out=options.out,
            rank=here.rank,
            local_rank=here.local_rank,
            num_local_ranks=here.num_local_ranks,
            store=None,
            worker_digest=own_digest(),
            launched_at_ns=began_at_ns,
        )
        if foreign is not None:
            return _run_one(place, rendezvous)
        return _run_node(place, options.node_rank, num_nodes, rendezvous)
    except OSError as error:
        sys.stderr.write(f"ep_worker launch: no account of this start could be written to {options.out}: {error}\n")
        return EXIT_NO_ACCOUNT


def _run_bundle(folder: Path, seconds: float) -> int:
    """Runs a bundle; 0 also where time ran out, for the same command goes on."""
    from ep_worker.bundle import run_bundle  # noqa: PLC0415 - no launch of a start needs it

    try:
        left = run_bundle(folder, seconds)
    except ValueError as error:
        sys.stderr.write(f"ep_worker run: {error}\n")
        return EXIT_REFUSED
    print(f"{left} starts are left" if left else "every start has returned", flush=True)
    return 0


def _set_environment(spec: StartSpec, *, alone: bool) -> None:
    """Sets what must stand before torch is imported; `alone` where all ranks are on this machine."""
    os.environ.update(spec.arm.environment)
    if spec.arm.build:
        sys.path[:0] = spec.arm.build
        # Compilers and helpers that a backend starts must find the same build.
        path = [*spec.arm.build, *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
    for name, value in _BEFORE_IMPORT.items():
        os.environ.setdefault(name, value)
    if alone:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # a host name need not resolve for ranks of one machine


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ep_worker", description="Runs one start.")
    commands = parser.add_subparsers(required=True, dest="command")
    launch = commands.add_parser("launch", help="run the ranks of one start and leave their files in a folder")
    launch.add_argument("spec", type=Path, metavar="SPEC", help="specification of the start, JSON")
    launch.add_argument("out", type=Path, metavar="OUT", help="folder for everything that the start leaves")
    launch.add_argument("--node-rank", type=int, default=0, metavar="N", help="number of this node, from 0")
    launch.add_argument("--num-nodes", type=int, metavar="M", help="launchers of this start; 1 where not given")
    launch.add_argument("--rendezvous", metavar="HOST:PORT", help="where node 0 listens; needed beyond one node")
    launch.add_argument("--alive", action="store_true", help="hold a lock in OUT until the last process has ended")
    bundle = commands.add_parser("run", help="run the starts of a bundle, one after another, as far as time allows")
    bundle.add_argument("bundle", type=Path, metavar="BUNDLE", help="folder that pack.py wrote")
    bundle.add_argument("--seconds", type=float, default=float("inf"), metavar="S", help="time that this may take [s]")
    printing = commands.add_parser("collect", help="wait for a launch --alive, then print its files as frames")
    printing.add_argument("out", type=Path, metavar="OUT", help="the folder of that launch")
    printing.add_argument("stream", metavar="STREAM", help="what names this attempt and pod, in every frame")
    return parser


def _num_nodes(
    spec: StartSpec, options: argparse.Namespace, rendezvous: Endpoint | None, foreign: Foreign | None
) -> int:
    """How many launchers there are.

    Raises:
        ValueError: The options do not fit one another or the spec.
    """
    num_nodes = 1 if options.num_nodes is None else int(options.num_nodes)
    if foreign is not None:
        return num_nodes
    if num_nodes < 1 or not 0 <= options.node_rank < num_nodes:
        msg = f"--node-rank is {options.node_rank} of --num-nodes {num_nodes}, expected 0 up to one less"
        raise ValueError(msg)
    if num_nodes > 1 and num_nodes * spec.ranks_per_pod != spec.ep_size:
        msg = f"{num_nodes} nodes of {spec.ranks_per_pod} ranks are not the {spec.ep_size} ranks of the spec"
        raise ValueError(msg)
    if num_nodes > 1 and rendezvous is None:
        msg = "--rendezvous HOST:PORT is needed beyond one node"
        raise ValueError(msg)
    return num_nodes


def foreign_place(environment: Mapping[str, str], ep_size: int) -> Foreign | None:
    """A rank's place where torchrun or srun started this process as one of its ranks; else None.

    Raises:
        ValueError: They started another number of ranks than the spec has.
    """
    if "TORCHELASTIC_RUN_ID" in environment:
        found = [int(environment[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")]
        foreign = Foreign(*found)
    elif "SLURM_PROCID" in environment and environment.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        local = int(environment["SLURM_STEP_TASKS_PER_NODE"].partition("(")[0].partition(",")[0])
        names = ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID")
        rank, num_ranks, local_rank = (int(environment[name]) for name in names)
        foreign = Foreign(rank, num_ranks, local_rank, local)
    else:
        return None
    if foreign.num_ranks != ep_size:
        msg = f"this process is one of {foreign.num_ranks} ranks, the spec has {ep_size}: start as many"
        raise ValueError(msg)
    return foreign


def _run_node(place: Place, node_rank: int, num_nodes: int, rendezvous: Endpoint | None) -> int:
    """Imports everything that ranks need, once, and forks them."""
    hold_signals()
    before_s = (time.monotonic_ns() - place.launched_at_ns) / _NS_PER_S
    from ep_worker import launcher  # noqa: PLC0415 - imports torch, which reads the environment that was just set

    import_s = (time.monotonic_ns() - place.launched_at_ns) / _NS_PER_S - before_s
    node = launcher.Node(node_rank, num_nodes, rendezvous)
    return launcher.launch(place, node, {"prepare": before_s, "import": import_s})


def _run_one(place: Place, rendezvous: Endpoint | None) -> int:
    """Runs the one rank that this process is; rank 0 leaves the account of what it saw."""
    print_to(log_path(place.out, place.rank))
    if rendezvous is not None:
        os.environ.update({"MASTER_ADDR": rendezvous.host, "MASTER_PORT": str(rendezvous.port)})
    faulthandler.dump_traceback_later(place.spec.watchdog_s, exit=True)
    from ep_worker import launcher, outcome  # noqa: PLC0415 - as above
    from ep_worker.rank import run_rank  # noqa: PLC0415

    status = run_rank(place)
    if place.rank == 0:
        seconds = (time.monotonic_ns() - place.launched_at_ns) / _NS_PER_S
        own = outcome.ended(0, os.getpid(), status << 8, seconds, stopped=False)
        verdict = outcome.of_failure(own) if own.failed else outcome.FINISHED
        launcher.write_account(place, 0, verdict, [own], {"total": seconds})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # past the destructors of backends, which may wait for peers that are gone
