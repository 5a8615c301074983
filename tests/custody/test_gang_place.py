"""A cluster as a place: what of custody enters the records, without a cluster."""

from __future__ import annotations

import dataclasses
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest
from plans import make_plan
from synthetic import make_results

from ep_campaign.admission import brief
from ep_campaign.cluster.config import ClusterPlace
from ep_campaign.cluster.gang_place import GangPlace
from ep_campaign.cluster.node_audit import audit_request, judge_audit, key_stream
from ep_campaign.custody.guard import Guard
from ep_worker.contract.assembly import assemble
from ep_worker.contract.framing import encode
from ep_worker.contract.record import problems
from ep_worker.contract.spec import read_spec
from ep_worker.contract.terms import Device
from snakemake_executor_plugin_gang.request import Code, Failure, GangResult, Gone, PodEnd

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan

IMAGE = "registry.example/audit@sha256:" + "0" * 64
AUDIT = {
    "kernel": "6.1.166",
    "machine": "x86_64",
    "modules": {"efa": "3.3.0g"},
    "parameters": {},
    "character_devices": [],
    "nics": {},
    "num_gpus": 0,
    "memlock_bytes": -1,
}


class Gangs:
    """Runs nothing; leaves what a test says."""

    def __init__(self, result: GangResult) -> None:
        self.result, self.requests, self.api = result, [], self
        self.namespace = "ep"

    def run(self, request: Any, _stop: threading.Event) -> GangResult:
        self.requests.append(request)
        return self.result


class Server:
    """One node, and the objects that a test says are still there."""

    namespace = "ep"

    def __init__(self, **left: dict[str, Any]) -> None:
        self.left = left

    def nodes(self) -> list[dict[str, Any]]:
        ready = [{"type": "Ready", "status": "True"}]
        return [
            {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {}, "status": {"conditions": ready}}
            for name in ("node-0", "node-1")
        ]

    def pods_on(self, _names: Any) -> list[dict[str, Any]]:
        return []

    def read(self, owned: Any) -> dict[str, Any] | None:
        return self.left.get(owned.kind)


def config(**custody: Any) -> ClusterPlace:
    value = {"schema": "ep-campaign/place/1", "default_image": IMAGE, "nodes": ["node-0", "node-1"]}
    return ClusterPlace.model_validate({**value, "custody": {"lease": {"mode": "off"}, **custody}})


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Starts of two pods."""
    return make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 3, "scored": False, "ranks_per_pod": 1}])


def audit_pod(plan: Plan, index: int, audit: dict[str, Any] | None) -> PodEnd:
    messages = {} if audit is None else {"audit.json": json.dumps(audit).encode()}
    log = "\n".join(encode(messages, f"{key_stream(plan)}/{index}"))
    return PodEnd(index, f"a-{index}", f"uid-{index}", f"node-{index}", "", 0 if audit else 1, 0, "no module efa", log)


def ended(*pods: PodEnd, failures: tuple[Failure, ...] = (), left: bool = False) -> GangResult:
    objects = (Gone("Job", "g-0", "uid-j", gone=not left), Gone("ConfigMap", "g", "uid-c", gone=True))
    return GangResult(pods, failures, {"ended": 1.0, "gathered": 1.5, "gone": 2.0}, objects)


def place_of(result: GangResult, server: Server | None = None, **custody: Any) -> tuple[GangPlace, Gangs]:
    gangs, here = Gangs(result), config(**custody)
    guard = Guard(server or Server(), here.custody, "tiny/1")  # type: ignore[arg-type]
    return GangPlace(gangs, here, guard, threading.Event()), gangs  # type: ignore[arg-type]


class TestFitness:
    def test_says_what_was_seen_of_nodes_and_lease(self, plan: Plan, tmp_path: Path) -> None:
        """The record of admission names its nodes, and under what lease they were used."""
        place, gangs = place_of(ended())

        found = place.fitness(plan, tmp_path, 2)

        assert [node["uid"] for node in found.observed["nodes"]] == ["uid-node-0", "uid-node-1"]
        assert found.observed["lease"] == {"mode": "off", "name": "ep-campaign", "holder": "tiny/1", "gaps": []}
        assert (found.refusals, gangs.requests) == ([], [])

    def test_refuses_nodes_that_are_not_fit_and_audits_none(self, plan: Plan, tmp_path: Path) -> None:
        """Nodes that lack devices are not asked for more."""
        place, gangs = place_of(ended(), nodes={"resources": {"nvidia.com/gpu": 8}}, audit={"image": IMAGE})

        found = place.fitness(plan, tmp_path, 2)

        assert [(r.code, r.where) for r in found.refusals] == [
            ("too_few_allocatable", "node node-0"),
            ("too_few_allocatable", "node node-1"),
        ]
        assert gangs.requests == []

    def test_audits_every_named_node(self, plan: Plan, tmp_path: Path) -> None:
        """One pod a node of the pinned image; what they saw is on record."""
        place, gangs = place_of(
            ended(audit_pod(plan, 0, AUDIT), audit_pod(plan, 1, AUDIT)),
            audit={"image": IMAGE, "modules": {"efa": "3.3.0"}},
        )

        found = place.fitness(plan, tmp_path, 2)

        assert found.refusals == []
        assert found.observed["audits"] == {"node-0": AUDIT, "node-1": AUDIT}
        request = gangs.requests[0]
        assert (request.num_pods, request.one_pod_a_node, request.nodes) == (2, True, ("node-0", "node-1"))

    def test_refuses_what_the_audit_found(self, plan: Plan, tmp_path: Path) -> None:
        """A node with an old driver stops the campaign before its first start."""
        place, _ = place_of(
            ended(audit_pod(plan, 0, AUDIT), audit_pod(plan, 1, {**AUDIT, "modules": {"efa": "2.1.0"}})),
            audit={"image": IMAGE, "modules": {"efa": "3.3.0"}},
        )

        assert [(r.code, r.where) for r in place.fitness(plan, tmp_path, 2).refusals] == [
            ("module_too_old", "node node-1"),
            ("nodes_unlike", "node set"),
        ]


class TestAudit:
    def test_is_pinned_and_named_by_its_plan(self, plan: Plan) -> None:
        """The same audit has the same name, so that one that was left behind is taken over."""
        here = config(audit={"image": IMAGE})
        assert here.custody.audit is not None

        first, again = (audit_request(here, here.custody.audit, plan, 2) for _ in range(2))

        assert (first.name, first.image) == (again.name, IMAGE)
        assert first.name.startswith("ep-audit-")
        assert first.ranks_command[-2:] == ("ep_worker.audit", "/gang/out")

    @pytest.mark.parametrize(
        ("result", "where"),
        [
            (lambda plan: ended(audit_pod(plan, 0, None)), "node node-0"),
            (lambda _plan: ended(failures=(Failure(Code.IMAGE, 0, "not found"),)), "node set"),
        ],
        ids=["nothing came back", "the gang failed"],
    )
    def test_one_that_did_not_come_back_is_wrong(self, plan: Plan, result: Any, where: str) -> None:
        """A node of which nothing is known is not fit."""
        section = config(audit={"image": IMAGE}).custody.audit
        assert section is not None

        _, refusals = judge_audit(section, plan, result(plan))

        assert [(r.code, r.where) for r in refusals] == [("audit_failed", where)]


class TestLaunch:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        """An attempt's folder."""
        made = tmp_path / "attempt-1"
        made.mkdir()
        return made

    def launch(self, place: GangPlace, plan: Plan, folder: Path) -> dict[str, Any]:
        spec = plan.spec(plan.starts[0])
        (folder / "spec.json").write_text(json.dumps(spec.as_json()))
        return place.launch(folder, spec, 1, IMAGE)

    def test_keeps_the_proof_of_removal(self, plan: Plan, folder: Path) -> None:
        """Every object by UID, and how long it took."""
        account = self.launch(place_of(ended())[0], plan, folder)

        assert account["gang"]["teardown"] == {
            "status": "proved",
            "num_gone": 2,
            "gone": ["Job ep/g-0 (uid-j)", "ConfigMap ep/g (uid-c)"],
            "remaining": [],
            "waited_s": 0.5,
        }

    def test_says_whose_fault_it_is_where_something_stays(self, plan: Plan, folder: Path) -> None:
        """A finalizer of another controller is a waiver with its class, on the start's record."""
        metadata = {
            "uid": "uid-j",
            "deletionTimestamp": "2026-12-01T12:00:00Z",
            "finalizers": ["kueue.x-k8s.io/managed"],
        }

        account = self.launch(place_of(ended(left=True), Server(Job={"metadata": metadata}))[0], plan, folder)

        teardown = account["gang"]["teardown"]
        assert (teardown["status"], teardown["remaining"][0]["waiver"]) == ("waived", "foreign_finalizer")

    def test_what_went_meanwhile_is_gone(self, plan: Plan, folder: Path) -> None:
        """An object that outlived its bound by a moment is not held against anybody."""
        assert self.launch(place_of(ended(left=True))[0], plan, folder)["gang"]["teardown"]["status"] == "proved"

    def test_a_start_that_finished_over_something_else_is_inadmissible(self, plan: Plan, folder: Path) -> None:
        """Two pods on a place whose fabric is EFA, and no counters: what they measured does not count."""
        spec = plan.spec(plan.starts[0])
        launcher = {
            "outcome": "finished",
            "status": "ok",
            "reason_code": "",
            "reason": "",
            "ranks": [],
            "durations_s": {},
        }
        pods = [
            PodEnd(
                index,
                f"g-{index}",
                f"uid-{index}",
                "node-0",
                "",
                0,
                0,
                "",
                "\n".join(
                    encode(
                        {"launcher.json": json.dumps({**launcher, "node_rank": index}).encode()},
                        f"{spec.start}/attempt-1/pod-{index}",
                    )
                ),
            )
            for index in range(2)
        ]

        account = self.launch(place_of(ended(*pods), fabric="efa")[0], plan, folder)

        assert account["transport"]["outcome"] == "silent"
        assert account["inadmissible"]["reason_code"] == "no_nic_counters"

    def test_nothing_is_ruled_of_a_start_that_failed_by_itself(self, plan: Plan, folder: Path) -> None:
        """Its own failure is the reason; the transport says nothing about it."""
        failed = ended(failures=(Failure(Code.EVICTED, 0, "low on memory"),))

        account = self.launch(place_of(failed, fabric="efa")[0], plan, folder)

        assert account["reason_code"] == "evicted"
        assert "inadmissible" not in account


def test_no_latency_of_an_inadmissible_start_is_kept(tmp_path: Path) -> None:
    """Every series that was measured and verified becomes inadmissible with the proof's reason; the record stays sound."""
    plan = make_plan(tmp_path)
    start = plan.starts[0]
    folder = make_results(tmp_path / "results", plan).attempt(start.id, 1)
    for name in ("start.json", "samples.bin.gz"):
        (folder / name).chmod(0o644)
        (folder / name).unlink()
    launcher = json.loads((folder / "launcher.json").read_text())
    ruling = {"reason_code": "socket_fallback", "reason": "transport: NCCL uses sockets between nodes"}

    record = assemble(folder, read_spec(folder / "spec.json"), {**launcher, "inadmissible": ruling}, {})

    assert record["status"] == "inadmissible"
    assert {(r["status"], r["reason_code"]) for r in record["records"]} == {("inadmissible", "socket_fallback")}
    assert [problems(item) for item in record["records"]] == [[] for _ in record["records"]]


def test_only_the_brief_run_of_gpus_across_pods_is_verbose(plan: Plan) -> None:
    """Verbose libraries are slower: scored starts stay quiet, and so does what crosses no network."""
    spec = plan.spec(plan.starts[0], kind="admission")
    across = dataclasses.replace(spec, device=Device.CUDA)

    assert brief(across).arm.environment["NCCL_DEBUG"] == "INFO"
    assert "NCCL_DEBUG" not in brief(spec).arm.environment
    assert "NCCL_DEBUG" not in brief(dataclasses.replace(across, ranks_per_pod=2)).arm.environment
    assert "NCCL_DEBUG" not in plan.spec(plan.starts[0]).arm.environment
