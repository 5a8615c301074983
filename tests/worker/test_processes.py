"""How a start ends when something goes wrong with its processes: the record is truthful, and nothing survives."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from worker.specs import How, command, make_spec, write_spec

from ep_worker.contract.assembly import assemble
from ep_worker.contract.rankfile import read_events
from ep_worker.contract.terms import Boundary, Dtype
from ep_worker.processes import print_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_worker.contract.spec import StartSpec

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
ONE_SERIES = How(boundaries=(Boundary.DISPATCH_READY,), dtypes=(Dtype.BF16,), iterations=20_000)
WAIT_S = 30.0


def endless(**fields: Any) -> StartSpec:
    """A start that measures for most of a minute."""
    return make_spec("worker.faulty_arms:Endless", 2, how=ONE_SERIES, **fields)


def start(folder: Path, spec: StartSpec) -> subprocess.Popen[bytes]:
    """Launches a spec and returns once both ranks are measuring."""
    process = subprocess.Popen(command(folder, spec), env={**os.environ, "PYTHONPATH": str(TESTS)})
    wait_for(lambda: all(any(e["event"] == "oracle" for e in read_events(folder, rank)) for rank in range(2)))
    return process


def wait_for(condition: Any) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def pid_of(folder: Path, rank: int) -> int:
    """Process of a rank, as it said itself."""
    return int(read_events(folder, rank)[0]["pid"])


def alive(pid: int) -> bool:
    """Whether a process exists and is not a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def ended(folder: Path, spec: StartSpec, process: subprocess.Popen[bytes]) -> tuple[dict, dict]:
    """Waits for a launcher; its account, and the assembled start."""
    assert 0 == process.wait(timeout=WAIT_S)
    account = json.loads((folder / "launcher.json").read_text())
    assert not any(alive(one["pid"]) for one in account["ranks"])
    return account, assemble(folder, spec, account, {})


@pytest.fixture(autouse=True)
def no_survivors(tmp_path: Path) -> Iterator[None]:
    """Ends what a failed test has left."""
    yield
    for folder in (tmp_path, *tmp_path.glob("*/")):
        for rank in range(2):
            for event in read_events(folder, rank)[:1]:
                if alive(event["pid"]):
                    os.kill(event["pid"], signal.SIGKILL)


def test_a_killed_rank_is_a_crash_that_names_the_signal(tmp_path: Path) -> None:
    """SIGKILL of one rank: `crashed`, by the launcher's account, for the other rank only saw it die."""
    spec = endless()
    process = start(tmp_path, spec)
    os.kill(pid_of(tmp_path, 1), signal.SIGKILL)
    account, record = ended(tmp_path, spec, process)

    assert ("rank_failed", "crashed", "rank_killed", 1) == tuple(
        account[key] for key in ("outcome", "status", "reason_code", "first_failed_rank")
    )
    assert ("crashed", "rank_killed") == (record["records"][0]["status"], record["records"][0]["reason_code"])
    assert "was killed by SIGKILL" in record["records"][0]["reason"]


def test_a_stopped_rank_times_out_with_stacks(tmp_path: Path) -> None:
    """SIGSTOP of one rank: its peer gives up after the collective's bound, and the logs hold the stacks of both."""
    spec = endless(collective_timeout_s=2.0)
    process = start(tmp_path, spec)
    os.kill(pid_of(tmp_path, 1), signal.SIGSTOP)
    _, record = ended(tmp_path, spec, process)

    assert ("timed_out", "collective_timeout") == (record["status"], record["records"][0]["reason_code"])
    assert "rank 0: " in record["records"][0]["reason"]
    log = (tmp_path / "rank-1.log").read_text()
    assert "most recent call first" in log
    assert "/ep_worker/" in log
    assert "Traceback" in (tmp_path / "rank-0.log").read_text()


def test_the_watchdog_ends_a_start_with_stacks(tmp_path: Path) -> None:
    """A start beyond its bound: `timed_out`, every rank's stacks in its log, every process gone."""
    spec = endless(watchdog_s=4.0)
    account, record = ended(tmp_path, spec, start(tmp_path, spec))

    assert ("watchdog", "timed_out", "watchdog") == tuple(account[k] for k in ("outcome", "status", "reason_code"))
    assert "no rank finished within 4 s; stacks are in rank-*.log" == account["reason"]
    assert ["SIGKILL", "SIGKILL"] == [one["signal"] for one in account["ranks"]]
    assert ("timed_out", "watchdog") == (record["records"][0]["status"], record["records"][0]["reason_code"])
    for rank in range(2):
        assert "/ep_worker/" in (tmp_path / f"rank-{rank}.log").read_text()


def test_a_raising_arm_is_a_crash_with_its_message(tmp_path: Path) -> None:
    """An exception on one rank: its own words reach the record, its peer is freed, and provenance is kept."""
    spec = make_spec("worker.faulty_arms:Raising", 2, how=ONE_SERIES)
    process = subprocess.Popen(command(tmp_path, spec), env={**os.environ, "PYTHONPATH": str(TESTS)})
    account, record = ended(tmp_path, spec, process)

    assert "rank_failed" == account["outcome"]
    assert ("crashed", "backend_raised") == (record["records"][0]["status"], record["records"][0]["reason_code"])
    assert "rank 1: ValueError during measure: the tenth dispatch is too much" == record["records"][0]["reason"]
    assert [True, False] == [failure["secondary"] for failure in record["failures"]]
    assert record["provenance"]["torch_version"]["value"]
    assert "ValueError: the tenth dispatch is too much" in (tmp_path / "rank-1.log").read_text()


def test_an_interrupted_launcher_leaves_its_account(tmp_path: Path) -> None:
    """SIGTERM to the launcher: the ranks end, the account says by what, and the attempt counts as infrastructure."""
    spec = endless()
    process = start(tmp_path, spec)
    process.terminate()
    account, record = ended(tmp_path, spec, process)

    assert ("interrupted", "interrupted") == (account["outcome"], account["reason_code"])
    assert "SIGTERM" in account["reason"]
    assert "crashed" == record["status"]


def test_nothing_survives_the_launcher(tmp_path: Path) -> None:
    """SIGKILL of the launcher, which can then do nothing for its ranks: the kernel ends them."""
    process = start(tmp_path, endless())
    ranks = [pid_of(tmp_path, rank) for rank in range(2)]
    process.kill()
    process.wait()

    wait_for(lambda: not any(map(alive, ranks)))
    assert not (tmp_path / "launcher.json").exists()


def test_nothing_survives_the_launchers_parent(tmp_path: Path) -> None:
    """SIGKILL of whoever started the launcher ends the launcher, and so its ranks."""
    arguments = command(tmp_path, endless())
    code = f"import subprocess; p = subprocess.Popen({arguments!r}); print(p.pid, flush=True); p.wait()"
    parent = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(TESTS)}
    )
    assert parent.stdout is not None
    launcher = int(parent.stdout.readline())
    wait_for(lambda: all(read_events(tmp_path, rank) for rank in range(2)))
    ranks = [pid_of(tmp_path, rank) for rank in range(2)]
    assert all(map(alive, [launcher, *ranks]))
    parent.kill()
    parent.wait()
    parent.stdout.close()

    wait_for(lambda: not any(map(alive, [launcher, *ranks])))


def test_ranks_that_do_not_find_one_another_time_out(tmp_path: Path) -> None:
    """One node of two: the rank that waits says who is missing, and the launcher that it was the rendezvous."""
    spec = replace(endless(), ranks_per_pod=1, rendezvous_timeout_s=1.0)
    with socket.create_server(("127.0.0.1", 0)) as free:
        options = ("--num-nodes", "2", "--rendezvous", f"127.0.0.1:{free.getsockname()[1]}")
    process = subprocess.Popen(command(tmp_path, spec, *options), env={**os.environ, "PYTHONPATH": str(TESTS)})
    account, record = ended(tmp_path, spec, process)

    assert ("rendezvous_timeout", "timed_out") == (account["outcome"], account["status"])
    assert "rendezvous_timeout" == record["records"][0]["reason_code"]
    assert "ranks [1] of 2 did not arrive within 1 s" in record["failures"][0]["reason"]


def test_a_taken_port_is_a_failed_launch(tmp_path: Path) -> None:
    """A node that cannot listen where the others look for it leaves an account of that, and status 0."""
    spec = replace(endless(), ranks_per_pod=1)
    with socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True) as taken:
        options = ("--num-nodes", "2", "--rendezvous", f"127.0.0.1:{taken.getsockname()[1]}")
        done = subprocess.run(command(tmp_path, spec, *options), check=False, timeout=WAIT_S)
    account = json.loads((tmp_path / "launcher.json").read_text())

    assert 0 == done.returncode
    assert ("launch_failed", []) == (account["reason_code"], account["ranks"])


def test_a_rank_reads_nothing_and_prints_to_its_log(tmp_path: Path) -> None:
    """Standard input is empty; what native code writes to standard output or error lands in the rank's log."""
    log = tmp_path / "rank-0.log"
    pid = os.fork()
    if pid == 0:
        print_to(log)
        os.write(1, b"native\n")
        os.write(2, repr(os.read(0, 10)).encode())
        os._exit(0)
    os.waitpid(pid, 0)

    assert "native\nb''" == log.read_text()


def test_the_environment_of_the_arm_is_set_before_torch(tmp_path: Path) -> None:
    """What the arm asks for is in the process that imports torch, and is recorded."""
    how = How(boundaries=(Boundary.DISPATCH_READY,), dtypes=(Dtype.BF16,))
    spec = make_spec("torch-agrs", 2, how=how, environment={"TORCH_DISTRIBUTED_DEBUG": "INFO", "NOT_RECORDED": "1"})
    write_spec(tmp_path, spec)
    _, record = ended(tmp_path, spec, subprocess.Popen(command(tmp_path, spec)))
    environment = record["provenance"]["environment"]["value"]

    assert "INFO" == environment["TORCH_DISTRIBUTED_DEBUG"]
    assert "lo" == environment["GLOO_SOCKET_IFNAME"]
    assert "NOT_RECORDED" not in environment


def test_under_torchrun_each_process_is_one_rank(tmp_path: Path) -> None:
    """torchrun starts the ranks; each runs in its own process, meets the others through its store, and rank 0 accounts."""
    how = How(boundaries=(Boundary.DISPATCH_READY,), dtypes=(Dtype.BF16,))
    spec = make_spec("torch-a2a", 2, how=how)
    python, *arguments = command(tmp_path, spec)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    process = subprocess.Popen([python, *torchrun, *arguments], stderr=subprocess.DEVNULL)
    account, record = ended(tmp_path, spec, process)

    assert ("finished", "ok") == (account["outcome"], record["status"])
    assert [0] == [one["rank"] for one in account["ranks"]]
    assert "spin" == read_events(tmp_path, 1)[1]["barrier"]
