"""The transport proof of an attempt, from the files that its pods left."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

import pytest
from plans import make_plan

from ep_campaign.custody.evidence import least_bytes, prove
from ep_campaign.custody.transport import Fabric, Outcome
from ep_worker.contract.rankfile import Event, event_path
from ep_worker.contract.terms import Device, Loop

if TYPE_CHECKING:
    from pathlib import Path

    from ep_worker.contract.spec import StartSpec

ROWS = [[2, 6], [5, 3]]
"""Of 11 rows that leave their domain, each is 256 bytes of BF16 there (128 columns) and 256 back."""
PER_ROUND_TRIP = 11 * 512
EFA_LOG = """\
h:1:1 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa-direct (found 1 nics)
h:1:1 [0] NCCL INFO Using network Libfabric
"""


@pytest.fixture
def spec(tmp_path: Path) -> StartSpec:
    """A scored start of a portable arm on two pods of one GPU."""
    plan = make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 3, "scored": False, "ranks_per_pod": 1}])
    return dataclasses.replace(plan.spec(plan.starts[0]), device=Device.CUDA)


def timed_round_trips(spec: StartSpec) -> int:
    return sum(s.iterations for s in spec.series if s.loop is Loop.ROUNDTRIP and s.same_as is None)


@pytest.fixture
def folder(tmp_path: Path, spec: StartSpec) -> Path:
    """What its pods left: counts of the route, counters that hold just what it sends, quiet logs."""
    made = tmp_path / "attempt-1"
    made.mkdir()
    counts = {"domain_size": 1, "num_domain_rows": ROWS, "num_rows": ROWS, "num_selections": ROWS}
    event = {"event": Event.WORKLOAD.value, "route": "uniform", "counts": counts}
    event_path(made, 0).write_text(json.dumps(event) + "\n", encoding="ascii")
    for pod in range(2):
        put_counters(made, pod, timed_round_trips(spec) * PER_ROUND_TRIP // 2)
        (made / f"rank-{pod}.log").write_text("quiet\n")
    return made


def put_counters(folder: Path, pod: int, num_bytes: int) -> None:
    nic = {"driver": "efa", "counters": {"rdma_write_bytes": 1000}}
    after = {"driver": "efa", "counters": {"rdma_write_bytes": 1000 + num_bytes}}
    fabric = {"before": {"rdmap79s0": nic}, "after": {"rdmap79s0": after}}
    (folder / f"launcher-{pod}.json").write_text(json.dumps({"fabric": fabric}))


def test_least_bytes_are_those_of_the_timed_round_trips(folder: Path, spec: StartSpec) -> None:
    """20 iterations of each series that is measured, 11 rows that leave their domain, 512 bytes there and back."""
    assert timed_round_trips(spec) % 20 == 0
    assert least_bytes(folder, spec) == timed_round_trips(spec) * PER_ROUND_TRIP


class TestScored:
    def test_is_proved_by_its_counters(self, folder: Path, spec: StartSpec) -> None:
        """A quiet start whose NICs counted what its route sends went over them."""
        proof = prove(folder, spec, Fabric.EFA)

        assert proof.outcome is Outcome.PROVED
        assert f"2 of 2 NICs sent {timed_round_trips(spec) * PER_ROUND_TRIP} bytes" in proof.reason

    def test_is_refuted_where_the_nics_stood_still(self, folder: Path, spec: StartSpec) -> None:
        """Latencies over sockets are those of something else."""
        for pod in range(2):
            put_counters(folder, pod, 64)

        assert prove(folder, spec, Fabric.EFA).reason_code == "bytes_not_on_fabric"

    def test_is_refuted_by_a_line_of_its_log(self, folder: Path, spec: StartSpec) -> None:
        """A warning of a fall back decides, whatever the counters say."""
        (folder / "rank-1.log").write_text("h:1:1 [0] NCCL WARN NET/OFI aws-ofi-nccl initialization failed\n")

        assert prove(folder, spec, Fabric.EFA).reason_code == "transport_failed"

    @pytest.mark.parametrize("content", [None, "not JSON", "{}", '{"fabric": {}}'])
    def test_is_silent_without_counters(self, folder: Path, spec: StartSpec, content: str | None) -> None:
        """A pod that left no counters proves nothing."""
        path = folder / "launcher-1.json"
        if content is None:
            path.unlink()
        else:
            path.write_text(content)

        proof = prove(folder, spec, Fabric.EFA)

        assert (proof.reason_code, proof.admissible) == ("no_nic_counters", False)

    def test_needs_no_proof_within_one_pod(self, folder: Path, spec: StartSpec) -> None:
        """Nothing leaves it."""
        assert prove(folder, dataclasses.replace(spec, ranks_per_pod=2), Fabric.EFA).admissible

    def test_needs_no_proof_where_no_fabric_is_asked_for(self, folder: Path, spec: StartSpec) -> None:
        """A place whose fabric is sockets gets them."""
        assert prove(folder, spec, Fabric.SOCKET).admissible

    def test_gloo_is_no_fabric(self, folder: Path, spec: StartSpec) -> None:
        """A CPU arm at a place that asks for EFA measures sockets; its admission says so."""
        cpu = dataclasses.replace(spec, device=Device.CPU, kind="admission")

        assert prove(folder, cpu, Fabric.EFA).reason_code == "socket_fallback"


class TestAdmission:
    def test_is_proved_by_log_and_counters_together(self, folder: Path, spec: StartSpec) -> None:
        """The verbose run says what it uses, and its NICs agree."""
        (folder / "rank-0.log").write_text(EFA_LOG)

        assert prove(folder, dataclasses.replace(spec, kind="admission"), Fabric.EFA).admissible

    def test_counters_alone_do_not_do(self, folder: Path, spec: StartSpec) -> None:
        """Admission wants to read which transport it was."""
        assert prove(folder, dataclasses.replace(spec, kind="admission"), Fabric.EFA).reason_code == "no_provider_line"

    def test_a_pods_own_log_counts_too(self, folder: Path, spec: StartSpec) -> None:
        """Libraries print where they are loaded; the launcher's lines are in the pod's log."""
        (folder / "pod-0.log").write_text(EFA_LOG.replace("Libfabric", "Socket"))

        assert prove(folder, dataclasses.replace(spec, kind="admission"), Fabric.EFA).reason_code == "socket_fallback"
