"""The command's arguments, and what the launcher says of how its ranks ended."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from worker.specs import command, launch, make_spec, write_spec

from ep_worker import outcome
from ep_worker.contract.series import Series
from ep_worker.contract.terms import Boundary, Loop, Mode, Status
from ep_worker.launch import Foreign, foreign_place
from ep_worker.outcome import Outcome
from ep_worker.place import Endpoint
from ep_worker.rank import by_boundary
from ep_worker.reason import Reason

if TYPE_CHECKING:
    from pathlib import Path


def refused(folder: Path, *options: str, text: str | None = None) -> str:
    """What the command says where it must refuse its arguments."""
    spec = write_spec(folder, make_spec(ranks=2))
    if text is not None:
        spec.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "ep_worker", "launch", str(spec), str(folder / "out"), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert 2 == done.returncode
    assert not (folder / "out").exists()
    return done.stderr


class TestRefusals:
    """Malformed input ends with status 2 and one line, before torch is imported and before anything is written."""

    @pytest.mark.parametrize(
        ("text", "says"),
        [
            ("{", "Expecting property name"),
            ("[]", "expected a JSON object"),
            ('{"schema": "ep-campaign/spec/0"}', "this worker reads 'ep-campaign/spec/1'"),
            ('{"schema": "ep-campaign/spec/1"}', "not complete and exact: KeyError"),
        ],
    )
    def test_a_spec_that_is_none(self, tmp_path: Path, text: str, says: str) -> None:
        """What is wrong with the file is said on one line."""
        line = refused(tmp_path, text=text)

        assert says in line
        assert 1 == line.count("\n")

    def test_a_value_of_another_vocabulary(self, tmp_path: Path) -> None:
        """A word that no enum holds is refused, not passed on."""
        value = make_spec().as_json()
        value["device"] = "tpu"

        assert "'tpu' is not a valid Device" in refused(tmp_path, text=json.dumps(value))

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (("--num-nodes", "2"), "2 nodes of 2 ranks are not the 2 ranks"),
            (("--num-nodes", "1", "--node-rank", "1"), "--node-rank is 1 of --num-nodes 1"),
            (("--rendezvous", "host"), "expected HOST:PORT"),
            (("--rendezvous", "host:0"), "expected HOST:PORT"),
        ],
    )
    def test_options_that_do_not_fit(self, tmp_path: Path, options: tuple[str, ...], says: str) -> None:
        """Nodes, ranks and the rendezvous must fit one another."""
        assert says in refused(tmp_path, *options)

    def test_a_missing_spec(self, tmp_path: Path) -> None:
        """A path that leads nowhere is named."""
        arguments = command(tmp_path, make_spec())
        (tmp_path / "spec.json").unlink()
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=30)

        assert 2 == done.returncode
        assert "No such file" in done.stderr


def test_a_folder_that_cannot_be_written_is_status_3(tmp_path: Path) -> None:
    """Without a place for the account there is none, and the status says so."""
    (tmp_path / "out").write_text("a file")
    spec = write_spec(tmp_path, make_spec())
    done = subprocess.run(
        [sys.executable, "-m", "ep_worker", "launch", str(spec), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )

    assert 3 == done.returncode
    assert "no account of this start could be written" in done.stderr


TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
SRUN = {
    "SLURM_PROCID": "3",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_TASKS_PER_NODE": "2(x2)",
}


class TestForeignPlace:
    """`foreign_place`."""

    @pytest.mark.parametrize("environment", [TORCHRUN, SRUN], ids=["torchrun", "srun"])
    def test_a_foreign_launcher_says_the_place(self, environment: dict[str, str]) -> None:
        """Rank, ranks, local rank and ranks of the node come from the launcher's variables."""
        assert Foreign(3, 4, 1, 2) == foreign_place(environment, 4)

    @pytest.mark.parametrize("environment", [TORCHRUN, SRUN], ids=["torchrun", "srun"])
    def test_another_number_of_ranks_is_refused(self, environment: dict[str, str]) -> None:
        """A start of 8 ranks cannot run on 4."""
        with pytest.raises(ValueError, match="one of 4 ranks, the spec has 8"):
            foreign_place(environment, 8)

    @pytest.mark.parametrize("environment", [{}, {"SLURM_PROCID": "0"}, {**SRUN, "SLURM_STEP_NUM_TASKS": "1"}])
    def test_a_batch_script_is_no_rank(self, environment: dict[str, str]) -> None:
        """Alone, in a batch script or as the only task of a step the command launches the ranks itself."""
        assert foreign_place(environment, 4) is None


class TestOutcome:
    """Verdicts of the launcher."""

    def test_a_wait_status_is_read(self) -> None:
        """The low seven bits are a signal, else the next eight the exit status."""
        killed, exited = (outcome.ended(0, 7, status, 1.0, stopped=False) for status in (9, 3 << 8))

        assert ("SIGKILL", None) == (killed.signal, killed.exit_code)
        assert (None, 3) == (exited.signal, exited.exit_code)
        assert [True, True] == [killed.failed, exited.failed]

    def test_what_the_launcher_ended_has_not_failed(self) -> None:
        """A rank that was killed at the end is no cause."""
        assert not outcome.ended(0, 7, 9, 1.0, stopped=True).failed

    @pytest.mark.parametrize(
        ("status", "kind", "word", "code", "says"),
        [
            (11, Outcome.RANK_FAILED, Status.CRASHED, Reason.RANK_KILLED, "rank 2 (process 7) was killed by SIGSEGV"),
            (
                1 << 8,
                Outcome.RANK_FAILED,
                Status.CRASHED,
                Reason.RANK_EXITED,
                "rank 2 (process 7) ended with exit status 1",
            ),
            (
                outcome.EXIT_RENDEZVOUS << 8,
                Outcome.RENDEZVOUS_TIMEOUT,
                Status.TIMED_OUT,
                Reason.RENDEZVOUS_TIMEOUT,
                "rank 2 did not find all others",
            ),
        ],
    )
    def test_a_failure(self, status: int, kind: Outcome, word: Status, code: Reason, says: str) -> None:
        """Signal, exit status and rendezvous each have their outcome, status and code."""
        verdict = outcome.of_failure(outcome.ended(2, 7, status, 1.0, stopped=False))

        assert (kind, word, code.value, 2) == (
            verdict.outcome,
            verdict.status,
            verdict.reason_code,
            verdict.first_failed_rank,
        )
        assert verdict.reason.startswith(says)

    def test_the_watchdog_says_who_was_late(self) -> None:
        """No rank, or all but some."""
        assert outcome.of_watchdog([0, 1], 2, 60).reason.startswith("no rank finished within 60 s")
        assert outcome.of_watchdog([1], 2, 60).reason.startswith("all ranks but [1] finished within 60 s")

    def test_an_interrupt_names_the_signal(self) -> None:
        """Who interrupts says by what."""
        assert "the launcher got SIGTERM and ended its ranks" == outcome.of_interrupt(signal.SIGTERM).reason


def test_an_endpoint_may_be_an_ipv6_address() -> None:
    """Brackets belong to the notation, not to the address."""
    assert Endpoint("fd00::1", 29400) == Endpoint.parse("[fd00::1]:29400")


def test_series_are_run_boundary_by_boundary() -> None:
    """A cell's arm is made once for each boundary, whatever the order of modes; what another boundary serves is not run."""

    def one(boundary: Boundary, mode: Mode, same_as: Boundary | None = None) -> Series:
        return Series("cell", boundary, mode, Loop.ROUNDTRIP, 1, 0, 1, same_as)

    a, b = Boundary.DISPATCH_READY, Boundary.GEMM_READY
    listed = [one(a, Mode.HOST_START), one(b, Mode.HOST_START), one(a, Mode.CHAINED), one(b, Mode.CHAINED)]
    twin = one(Boundary.BF16_READY, Mode.HOST_START, a)

    assert [(a, [listed[0], listed[2]]), (b, [listed[1], listed[3]])] == by_boundary([*listed, twin])


@pytest.mark.parametrize("module", ["ep_worker", "ep_worker.contract.assembly", "ep_worker.launch"])
def test_torch_is_not_imported(module: str) -> None:
    """The package, the contract and the command line come without torch: the environment is set before it."""
    code = f"import {module}, sys; sys.exit('torch' in sys.modules)"

    assert 0 == subprocess.run([sys.executable, "-c", code], check=False, timeout=30).returncode


@pytest.mark.slow
def test_nodes_find_one_another(tmp_path: Path) -> None:
    """Two launchers of one rank each make one group; each leaves its account."""
    spec = replace(make_spec(ranks=2), ranks_per_pod=1)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folders = [tmp_path / "node-0", tmp_path / "node-1"]
    options = ("--num-nodes", "2", "--rendezvous", f"localhost:{port}", "--node-rank")
    second = subprocess.Popen(command(folders[1], spec, *options, "1"))
    first = launch(folders[0], spec, *options, "0")

    assert (0, 0) == (first.returncode, second.wait(timeout=60))
    for rank, folder in enumerate(folders):
        account = json.loads((folder / "launcher.json").read_text())
        assert ("finished", rank, [rank]) == (
            account["outcome"],
            account["node_rank"],
            [one["rank"] for one in account["ranks"]],
        )
        assert '"event":"results"' in (folder / f"rank-{rank}.jsonl").read_text()
