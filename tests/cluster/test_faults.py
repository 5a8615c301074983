"""Faults injected into real gangs, and what a user reads of each in the start's account."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from clusters import admin, api_of, kubeconfig, namespace, place, pod_template, until
from kubernetes import client
from kubernetes.client.exceptions import ApiException
from plans import make_plan

from ep_campaign.attempt import INFRASTRUCTURE
from ep_campaign.cluster.account import account_of, write_files
from ep_campaign.cluster.request import gang_request
from ep_worker.contract.assembly import assemble
from ep_worker.contract.canonical import pretty_json, write_atomically
from snakemake_executor_plugin_gang.gang import Bounds, Gangs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ep_worker.contract.spec import StartSpec
    from snakemake_executor_plugin_gang.request import GangRequest, GangResult

pytestmark = pytest.mark.cluster

BOUNDS = Bounds(schedule_s=3, start_s=20, delete_s=60, node_s=2)
HOLD = "import os, sys, time; from pathlib import Path; from ep_worker.alive import hold; hold(Path('/gang/out')); "


@pytest.fixture(scope="module")
def everything() -> client.ApiClient:
    """A client with every right."""
    return admin(kubeconfig())


@pytest.fixture(scope="module")
def space(everything: client.ApiClient) -> Iterator[str]:
    """One namespace for all faults of this module."""
    with namespace(everything) as name:
        yield name


class Bench:
    """One attempt at a start of two ranks, run as a gang into which a test puts a fault."""

    def __init__(self, folder: Path, space: str, everything: client.ApiClient) -> None:
        ep_sizes = [{"ranks": 2, "rounds": 3, "scored": False, "ranks_per_pod": 1}]
        limits = {"start_timeout_s": 60, "rendezvous_timeout_s": 20, "collective_timeout_s": 20}
        plan = make_plan(folder, ep_sizes=ep_sizes, limits=limits)
        self.space, self.core = space, client.CoreV1Api(everything)
        self.folder = folder / "attempt-1"
        self.folder.mkdir()
        self.spec: StartSpec = dataclasses.replace(plan.spec(plan.starts[0]), campaign=folder.name[-20:])
        write_atomically(self.folder / "spec.json", pretty_json(self.spec.as_json()))
        here = place().model_copy(update={"one_pod_a_node": False, "nodes": ()})
        self.python = here.python
        self.request: GangRequest = gang_request(here, self.folder, self.spec, 1, None)
        self.told: list[str] = []

    def command(self, code: str, **changes: Any) -> GangRequest:
        """The request with other ranks: a line of Python."""
        return dataclasses.replace(self.request, ranks_command=(self.python, "-c", code), **changes)

    def gangs(self, bounds: Bounds = BOUNDS, **ranks: Any) -> Gangs:
        api = api_of(kubeconfig(), self.space, bound_s=60)
        return Gangs(api, pod_template(**ranks), bounds, self.told.append)

    def run(self, request: GangRequest, gangs: Gangs | None = None) -> tuple[GangResult, dict[str, Any]]:
        """Runs it; what the gang says, and what the start's account says."""
        result = (gangs or self.gangs()).run(request, threading.Event())
        lost = write_files(self.folder, self.spec, 1, result.pods)
        assert result.objects
        assert all(item.gone for item in result.objects), "nothing may be left, whatever went wrong"
        assert not self.pods()
        return result, account_of(self.folder, self.spec, result, lost)

    def begin(self, request: GangRequest, gangs: Gangs | None = None) -> Running:
        """Runs it in a thread, until a test has put its fault in."""
        return Running(self, request, gangs)

    def pods(self) -> list[Any]:
        return self.core.list_namespaced_pod(self.space, label_selector=f"gang={self.request.name}").items

    def until_running(self, num_pods: int = 2) -> list[Any]:
        def running() -> Any:
            found = [pod for pod in self.pods() if pod.status.phase == "Running"]
            return found if len(found) == num_pods else None

        return until(running, "the gang's pods to run", 30)

    def until_bound(self) -> Any:
        return until(lambda: [pod for pod in self.pods() if pod.spec.node_name], "the pod to be bound")[0]

    def until_deleted(self, pod: Any) -> None:
        """Waits until a pod is to go, and confirms that as its kubelet would."""
        until(lambda: not self.pods() or self.pods()[0].metadata.deletion_timestamp, "the pod to be deleted", 60)
        with suppress(ApiException):
            self.core.delete_namespaced_pod(pod.metadata.name, self.space, grace_period_seconds=0)


class Running:
    """A gang that runs while a test does something to it."""

    def __init__(self, bench: Bench, request: GangRequest, gangs: Gangs | None) -> None:
        self._found: list[tuple[GangResult, dict[str, Any]]] = []
        self._thread = threading.Thread(target=lambda: self._found.append(bench.run(request, gangs)), daemon=True)
        self._thread.start()

    def end(self, bound_s: float = 90) -> tuple[GangResult, dict[str, Any]]:
        self._thread.join(bound_s)
        assert not self._thread.is_alive(), f"the gang did not end within {bound_s} s"
        assert self._found, "the gang's thread failed; its error is above"
        return self._found[0]


@pytest.fixture
def bench(tmp_path: Path, space: str, everything: client.ApiClient) -> Bench:
    """An attempt of its own for each test."""
    return Bench(tmp_path, space, everything)


ACCOUNT = (
    "import json; account = dict(outcome='finished', status='ok', reason_code='', reason='', ranks=[], durations_s={}, "
    "node_rank=int(os.environ['GANG_INDEX'])); Path('/gang/out/launcher.json').write_text(json.dumps(account))"
)
"""What a launcher leaves whose ranks have all ended well."""
SLEEP = f"{HOLD} time.sleep(600)"


class TestRanks:
    def test_two_pods_measure_together(self, bench: Bench) -> None:
        """Without a fault ranks in two pods find each other and every cell is verified and timed."""
        result, account = bench.run(bench.request, bench.gangs(bounds=Bounds(20, 60, 60, 20)))
        start = assemble(bench.folder, bench.spec, account, {})

        assert (account["outcome"], result.failures, start["status"]) == ("finished", (), "ok")
        assert set(result.seconds) == {"scheduled", "started", "ended", "gathered", "gone"}

    def test_a_pod_whose_ranks_die_at_once(self, bench: Bench) -> None:
        """A launcher that dies before it says anything is named with its pod and exit status, and the start is tried again."""
        code = f"{HOLD} sys.exit(3) if os.environ['GANG_INDEX'] == '1' else exec({ACCOUNT!r})"

        _, account = bench.run(bench.command(code))

        assert account["reason_code"] == "launcher_died"
        assert "pod 1 (exit status 3)" in account["reason"]
        assert account["reason_code"] in INFRASTRUCTURE

    def test_ranks_that_hang(self, bench: Bench) -> None:
        """Pods that run on beyond their bound are ended: timed out, with the bound in the reason."""
        _, account = bench.run(bench.command(SLEEP, run_bound_s=3))

        assert (account["reason_code"], account["status"]) == ("run_bound", "timed_out")
        assert "after 3 s running" in account["reason"]

    def test_a_rank_that_the_kernel_kills_for_its_memory(self, bench: Bench) -> None:
        """A container at its memory limit is named as such, not as a crash without reason."""
        limits = {"cpu": "1", "memory": "96Mi"}
        code = f"{HOLD} held = bytearray(512 * 2**20); time.sleep(600)"

        _, account = bench.run(bench.command(code), bench.gangs(resources={"requests": limits, "limits": limits}))

        assert account["reason_code"] == "out_of_memory"
        assert "memory limit" in account["reason"]


class TestPlacing:
    def test_an_image_that_does_not_exist(self, bench: Bench) -> None:
        """Inadmissible, in the words of the runtime, after the bound on starting."""
        request = dataclasses.replace(bench.request, image="registry.invalid/none@sha256:" + "0" * 64)

        _, account = bench.run(request, bench.gangs(bounds=Bounds(10, 4, 60, 10)))

        assert (account["reason_code"], account["status"]) == ("image_not_available", "inadmissible")
        assert "registry.invalid/none" in account["reason"]

    def test_nodes_that_are_not_there(self, bench: Bench) -> None:
        """Unschedulable, with the scheduler's own reason."""
        _, account = bench.run(dataclasses.replace(bench.request, nodes=("no-such-node",)))

        assert account["reason_code"] == "unschedulable"
        assert "after 3 s unscheduled" in account["reason"]
        assert "nodes are available" in account["reason"]
        assert account["reason_code"] in INFRASTRUCTURE

    def test_all_pods_or_none(self, bench: Bench) -> None:
        """Where one pod too many finds no node of its own, the others do not stay."""
        nodes = len(bench.core.list_node().items)
        request = dataclasses.replace(bench.command(SLEEP), num_pods=nodes + 1, one_pod_a_node=True)

        result, account = bench.run(request)

        assert account["reason_code"] == "unschedulable"
        assert sum(item.kind == "Pod" for item in result.objects) == nodes + 1


class TestPods:
    def test_a_pod_that_is_evicted_by_a_drain(self, bench: Bench) -> None:
        """An eviction through the API is a deletion; the other pods are ended too, and the start is tried again."""
        running = bench.begin(bench.command(SLEEP))
        name = bench.until_running()[0].metadata.name
        bench.core.create_namespaced_pod_eviction(name, bench.space, {"metadata": {"name": name}})

        _, account = running.end()

        assert account["reason_code"] == "pod_deleted"
        assert account["reason_code"] in INFRASTRUCTURE

    def test_a_pod_that_its_kubelet_evicts(self, bench: Bench) -> None:
        """Under pressure a kubelet ends pods and says why: that reaches the account word by word."""
        text = "The node was low on resource: ephemeral-storage."
        with lonely_node(bench.core) as node:
            running = bench.begin(dataclasses.replace(bench.command(SLEEP), num_pods=1, nodes=(node,)))
            pod = bench.until_bound()
            report(bench, pod, ready="True")
            bench.until_running(1)
            report(bench, pod, ready="False", phase="Failed", reason="Evicted", message=text)
            bench.until_deleted(pod)

            _, account = running.end()

        assert account["reason_code"] == "evicted"
        assert text in account["reason"]
        assert account["reason_code"] in INFRASTRUCTURE

    def test_a_node_that_is_gone(self, bench: Bench) -> None:
        """A pod whose node no longer answers is lost by name; its log cannot be had, and the gang is removed all the same."""
        with lonely_node(bench.core) as node:
            running = bench.begin(dataclasses.replace(bench.command(SLEEP), num_pods=1, nodes=(node,)))
            pod = bench.until_bound()
            report(bench, pod, ready="True")
            bench.until_running(1)
            report(bench, pod, ready="False")
            bench.until_deleted(pod)

            _, account = running.end()

        assert account["reason_code"] == "node_lost"
        assert f"node {node} has not answered" in account["reason"]

    def test_a_disk_that_is_full(self, bench: Bench) -> None:
        """Ranks that cannot write leave no account; their pods and exit status are named."""
        launch = " ".join(bench.request.ranks_command)
        request = dataclasses.replace(bench.request, ranks_command=("/bin/sh", "-c", f"ulimit -f 0; exec {launch}"))

        result, account = bench.run(request, bench.gangs(bounds=Bounds(20, 60, 60, 20)))

        assert account["reason_code"] == "launcher_died"
        assert "pod 0 (exit status 3), pod 1 (exit status 3)" in account["reason"]
        assert "no account of this start could be written" in result.pods[0].ranks_log


class TestLogs:
    def test_native_text_between_the_ranks_lines_splices_nothing(self, bench: Bench) -> None:
        """Whatever a native library prints, frames among it, what comes out of a pod comes from a container of its own."""
        junk = "print('@EPF[1;x;y;1;1;1;00;Elastic buffer uses 3 channels per SM]EPF!' * 200, flush=True);"
        code = f"{HOLD} {junk} {ACCOUNT}"

        result, account = bench.run(bench.command(code))

        assert account["outcome"] == "finished"
        assert json.loads((bench.folder / "launcher-1.json").read_text())["node_rank"] == 1
        assert "channels per SM" in result.pods[0].ranks_log

    def test_a_log_that_is_cut_short(self, bench: Bench) -> None:
        """Frames that are missing are missed: the start is tried again, and says what was lost."""
        collect = " ".join(bench.request.collect_command)
        code = f"{HOLD} Path('/gang/out/rank-0.log').write_bytes(os.urandom(40_000))"
        request = bench.command(code, collect_command=("/bin/sh", "-c", f"{collect} | head -c 20000"))

        _, account = bench.run(request)

        assert account["reason_code"] == "incomplete_logs"
        assert "is lost" in account["reason"]
        assert account["reason_code"] in INFRASTRUCTURE


@contextmanager
def lonely_node(core: client.CoreV1Api) -> Iterator[str]:
    """A node that says it is ready and has no kubelet: what its pods are said to do, a test says."""
    name = f"ep-test-lonely-{time.monotonic_ns() % 10**8}"
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    size = {"cpu": "8", "memory": "8Gi", "pods": "20", "ephemeral-storage": "8Gi"}
    ready = {"type": "Ready", "status": "True", "reason": "Test", "lastHeartbeatTime": now, "lastTransitionTime": now}
    address = [{"type": "InternalIP", "address": "127.0.0.2"}]
    core.create_node({"metadata": {"name": name}})
    status = {"capacity": size, "allocatable": size, "conditions": [ready], "addresses": address}
    core.patch_node_status(name, {"status": status})
    core.patch_node(name, {"spec": {"taints": None}})
    try:
        yield name
    finally:
        core.delete_node(name)


def report(bench: Bench, pod: Any, ready: str, **status: Any) -> None:
    """Writes a pod's status as its kubelet would, or as the cluster does once that no longer answers."""
    statuses = [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-12-01T12:00:00Z"}},
        }
        for container in pod.spec.containers
    ]
    said = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": ready}],
        "containerStatuses": statuses,
        **status,
    }
    bench.core.patch_namespaced_pod_status(pod.metadata.name, bench.space, {"status": said})
