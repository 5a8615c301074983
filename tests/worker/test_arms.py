"""Every arm with real processes: all routes, dtypes, boundaries and loops pass the oracle, and every fault fails it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from worker.specs import TINY, How, launch, make_spec, route

from ep_worker.contract.assembly import assemble
from ep_worker.contract.canonical import source_digest
from ep_worker.contract.capabilities import capability
from ep_worker.contract.provenance import provenance_problems
from ep_worker.contract.rankfile import read_events
from ep_worker.contract.record import problems
from ep_worker.contract.series import phases
from ep_worker.contract.terms import ApiMode, Boundary, Device, Dtype, Mode, Status
from ep_worker.contract.workload import RouteKind

if TYPE_CHECKING:
    from ep_worker.contract.spec import StartSpec

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
ROOM = replace(TINY, tokens_per_rank=6, max_tokens_per_rank=9)


def start_of(folder: Path, spec: StartSpec) -> dict:
    """Launches a spec and assembles what it left."""
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    done = launch(folder, spec, env=environment)
    assert (0, "") == (done.returncode, done.stderr)
    return assemble(folder, spec, json.loads((folder / "launcher.json").read_text()), {})


def every_route(ranks: int, folder: Path) -> list:
    """A route of each kind; the trace repeats one expert everywhere, so that all others get nothing."""
    text = "".join(f"{rank % ROOM.experts},{(rank + 4) % ROOM.experts},-1\n" for rank in range(6 * ranks))
    folder.mkdir()
    (folder / "trace.csv").write_text(text)
    trace = {"trace": "trace.csv", "trace_sha256": hashlib.sha256(text.encode()).hexdigest()}
    return [route(kind, ranks, ROOM, **(trace if kind is RouteKind.TRACE else {})) for kind in RouteKind]


@pytest.mark.parametrize(
    ("backend", "ranks"),
    [("torch-a2a", 3), ("torch-a2a", 4), ("torch-a2a-cached", 2), ("torch-agrs", 2), ("torch-agrs", 3)],
)
def test_an_honest_arm_passes_everything(tmp_path: Path, backend: str, ranks: int) -> None:
    """All routes (one with a rank without tokens) x dtypes x boundaries x modes and loops are `ok`, with clean records."""
    folder = tmp_path / "start"
    how = How(modes=(Mode.HOST_START, Mode.CHAINED), isolated_loops=True)
    spec = make_spec(backend, ranks, every_route(ranks, folder), ROOM, how)
    start = start_of(folder, spec)
    entry = capability(backend, ApiMode.PORTABLE)

    assert [] == [(r["cell"], r["reason"]) for r in start["records"] if r["status"] != "ok"]
    assert [] == [problem for record in start["records"] for problem in problems(record)]
    assert ("ok", "ok", []) == (start["status"], start["teardown"], start["failures"])
    assert [] == provenance_problems(start["provenance"], Device.CPU)
    assert [source_digest(TESTS.parent / "ep_worker")] == start["worker_digests"]
    for series, record in zip(spec.series, start["records"], strict=True):
        if series.same_as is None:
            samples = series.iterations // series.chain_length
            names = [phase.value for phase in phases(series, entry)]
            assert ([samples, ranks, len(names)], names) == (record["samples"]["shape"], record["samples"]["phases"])
            assert record["resolved"]["buffer_bytes"] > 0
            assert "spin" == record["resolved"]["barrier"]
            assert record["oracle"]["after"]["timed_output_error"] <= 0.04
    for rank in range(ranks):
        assert "" == (folder / f"rank-{rank}.log").read_text()


def test_workload_events_count_the_whole_route(tmp_path: Path) -> None:
    """Digests of a rank are hashed in rank order into the whole's; counts and expert load cover every rank."""
    spec = make_spec("torch-agrs", 2, [route(RouteKind.RAGGED, 2)], how=How(dtypes=(Dtype.BF16,)))
    workload = start_of(tmp_path / "start", spec)["workload"]["ragged"]

    for part in ("route", "weights", "input"):
        parts = bytes.fromhex("".join(workload[f"{part}_sha256_by_rank"]))
        assert hashlib.sha256(parts).hexdigest() == workload[f"{part}_sha256"]
    assert hashlib.sha256(b"").hexdigest() == workload["route_sha256_by_rank"][1]  # rank 1 has no token
    assert [6, 0] == workload["num_tokens"]
    assert 6 * 3 == sum(map(sum, workload["counts"]["num_selections"]))
    assert 6 * 3 / 12 == workload["expert_load"]["mean"]


FAULTS = {
    "none": None,
    "swapped_experts": "wrong_experts",
    "swapped_map": "wrong_tokens",
    "duplicated_row": "wrong_tokens",
    "wrong_weights": "wrong_weights",
    "wrong_scales": "wrong_payload",
    "dropped_rank": "wrong_output",
    "zeroed_token": "wrong_output",
    "unrouted": "wrong_output",
    "late_stale": "wrong_output",
    "late_timed": "wrong_timed_output",
}


def test_the_oracle_catches_every_fault(tmp_path: Path) -> None:
    """Each fault makes its cell `incorrect` with its code; what begins after the first check is caught by the second."""
    routes = [route(RouteKind.MASKED if name == "unrouted" else RouteKind.UNIFORM, 2, name=name) for name in FAULTS]
    how = How(boundaries=(Boundary.DISPATCH_READY,), dtypes=(Dtype.FP8,))
    spec = make_spec("worker.faulty_arms:Misdelivering", 2, routes, how=how, knobs={"faults": list(FAULTS)})
    start = start_of(tmp_path / "start", spec)

    for record in start["records"]:
        expected = FAULTS[record["route"]]
        stage = "after" if record["route"].startswith("late_") else "before"
        assert ("ok" if expected is None else "incorrect") == record["status"], record["route"]
        assert (expected or "") == record["reason_code"], record["route"]
        if expected is not None:
            assert record["oracle"][stage]["passed"] is False
            assert (record["oracle"]["after"] is None) == (stage == "before")
    assert "incorrect" == start["status"]


@pytest.mark.parametrize("arm", ["Remembering", "Hasty"])
def test_stale_data_in_a_timed_iteration_is_caught_there(tmp_path: Path, arm: str) -> None:
    """Both pass the checks before and after; what they hand out in timed iterations is of another input."""
    how = How(boundaries=(Boundary.DISPATCH_READY,), dtypes=(Dtype.BF16,), iterations=12)
    start = start_of(tmp_path / "start", make_spec(f"worker.faulty_arms:{arm}", 2, how=how))

    for record in start["records"]:
        assert ("incorrect", "wrong_timed_output") == (record["status"], record["reason_code"])
        assert "is not what was sent in it" in record["reason"]
        assert record["oracle"]["before"]["passed"] is True


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, StartSpec]:
    """A start that went well: its folder and its spec."""
    folder = tmp_path_factory.mktemp("assembly") / "start"
    spec = make_spec("torch-a2a-cached", 2, how=How(dtypes=(Dtype.BF16,)))
    assert 0 == launch(folder, spec).returncode
    return folder, spec


class TestAssembly:
    """What assembly makes of files that are not all there."""

    def again(self, whole: tuple[Path, StartSpec], folder: Path) -> tuple[Path, StartSpec, dict]:
        shutil.copytree(whole[0], folder)
        return folder, whole[1], json.loads((folder / "launcher.json").read_text())

    def test_a_missing_rank_makes_nothing_of_the_others(self, whole: tuple, tmp_path: Path) -> None:
        """Without the files of one rank no series is `ok`, though the other rank says so."""
        folder, spec, launcher = self.again(whole, tmp_path / "copy")
        (folder / "rank-1.jsonl").unlink()
        start = assemble(folder, spec, launcher, {})

        assert {("crashed", "incomplete_files")} == {(r["status"], r["reason_code"]) for r in start["records"]}
        assert "not_reached" == start["teardown"]

    @pytest.mark.parametrize("keep", [None, 10])
    def test_lost_samples_take_their_series_only(self, whole: tuple, tmp_path: Path, keep: int | None) -> None:
        """A sample file that is gone, or cut in its second series, leaves the series before it whole."""
        folder, spec, launcher = self.again(whole, tmp_path / "copy")
        path = folder / "rank-1.samples"
        if keep is None:
            path.unlink()
        else:
            path.write_bytes(path.read_bytes()[: 8 * 4 * 3 + keep])
        start = assemble(folder, spec, launcher, {})
        measured = [r for r in start["records"] if r["same_as"] is None]

        assert ["crashed" if keep is None else "ok", "crashed"] == [r["status"] for r in measured]
        assert "incomplete_files" == measured[1]["reason_code"]
        assert measured[1].get("latency") is None

    def test_a_crash_in_the_last_line_keeps_what_came_before(self, whole: tuple, tmp_path: Path) -> None:
        """An events file that ends inside the last check of the second boundary keeps the first boundary."""
        folder, spec, launcher = self.again(whole, tmp_path / "copy")
        path = folder / "rank-0.jsonl"
        text = path.read_text()
        path.write_text(text[: text.rindex('"event":"oracle"') + 20])
        start = assemble(folder, spec, {**launcher, "status": "crashed", "reason_code": "rank_killed"}, {})
        measured = [r for r in start["records"] if r["same_as"] is None]

        assert ["ok", "crashed"] == [r["status"] for r in measured]
        assert "rank_killed" == measured[1]["reason_code"]

    def test_events_tell_when_what_began(self, whole: tuple) -> None:
        """Seconds from launch to the group, to the first timed iteration, and from the last one to the end rise in order."""
        events = {event["event"]: event for event in read_events(whole[0], 0)}
        joined = events["joined"]["seconds_since_launch"]
        first = events["results"]["seconds_to_first_timed_iteration"]

        assert 0 < joined < first < 60
        assert 0 < events["teardown"]["seconds_since_last_timed_iteration"] < 60


def test_a_failed_teardown_keeps_the_results(tmp_path: Path) -> None:
    """An arm that raises when it is given back has its results, and `teardown` says failed."""
    spec = make_spec("worker.faulty_arms:Unclosable", 2, how=How(dtypes=(Dtype.BF16,)))
    folder = tmp_path / "start"
    start = start_of(folder, spec)

    assert ("ok", "failed") == (start["status"], start["teardown"])
    assert "the proxy does not stop" in read_events(folder, 0)[-1]["reason"]


@pytest.mark.parametrize(
    ("backend", "says"),
    [
        ("worker.no_such_module:Class", "cannot be imported here"),
        ("worker.faulty_arms:NoSuchClass", "cannot be imported here"),
        ("worker.faulty_arms:Bare", "says nothing of API mode 'portable'"),
    ],
)
def test_an_arm_that_is_not_there_is_inadmissible(tmp_path: Path, backend: str, says: str) -> None:
    """An image without the arm's build gives `inadmissible` records with the reason, and a launcher that exits with 0."""
    honest = make_spec("torch-a2a-cached", 2, how=How(dtypes=(Dtype.BF16,)))
    start = start_of(tmp_path / "start", replace(honest, arm=replace(honest.arm, backend=backend)))

    assert {("inadmissible", "missing_build")} == {(r["status"], r["reason_code"]) for r in start["records"]}
    assert says in start["records"][0]["reason"]
    assert Status.INADMISSIBLE.value == start["status"]


def test_the_worker_runs_from_an_archive(tmp_path: Path) -> None:
    """Pods have the package as a zip on their module path: it runs from there, and its digest is that of the folder."""
    package = TESTS.parent / "ep_worker"
    archive = tmp_path / "worker.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in sorted(package.rglob("*.py")):
            zipped.write(path, path.relative_to(package.parent).as_posix())
    folder = tmp_path / "start"
    spec = make_spec("torch-agrs", 2, how=How(dtypes=(Dtype.FP8,), boundaries=(Boundary.GEMM_READY,)))
    done = launch(folder, spec, env={**os.environ, "PYTHONPATH": str(archive)}, cwd=tmp_path)

    assert (0, "") == (done.returncode, done.stderr)
    assert source_digest(package) == read_events(folder, 0)[0]["worker_digest"]
    assert "results" in {event["event"] for event in read_events(folder, 0)}
