"""Custody against a real API server: leases that race, expire and survive; nodes; rights; removal proved by UID."""

from __future__ import annotations

import datetime as dt
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from clusters import Gate, admin, api_of, kubeconfig, namespace, until
from kubernetes import client

from ep_campaign.custody.guard import Guard, controller, holder_of
from ep_campaign.custody.keeper import Keeper, utc
from ep_campaign.custody.lease import Claim, acquire, view, written
from ep_campaign.custody.place import CustodySection, LeaseSection
from ep_campaign.custody.server import Server
from ep_campaign.custody.teardown import Owned, WaiverClass, classify, prove_gone
from ep_campaign.errors import CampaignError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.cluster

NAME = "ep-campaign-test"
GPU = "example.com/gpu"
OWN = ("ep-campaign/campaign", "smoke")


@pytest.fixture(scope="module")
def everything() -> client.ApiClient:
    """A client with every right."""
    return admin(kubeconfig())


@pytest.fixture
def space(everything: client.ApiClient) -> Iterator[str]:
    """A namespace of its own."""
    with namespace(everything) as name:
        yield name


@pytest.fixture
def server(space: str) -> Server:
    """Custody's view of it."""
    return Server(api_of(kubeconfig(), space))


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """A door in front of the API server."""
    made = Gate(kubeconfig(), tmp_path)
    yield made
    made.close()


def claim(holder: str, duration_s: int = 4) -> Claim:
    return Claim(holder, f"host-of-{holder} process 1", duration_s)


def place(**lease: Any) -> CustodySection:
    return CustodySection(lease=LeaseSection(name=NAME, **lease))


class TestLease:
    def test_two_controllers_at_once(self, space: str) -> None:
        """Of eight campaigns that want the nodes at one moment, one gets them; the others are told by whom they are held."""
        won: list[str] = []
        lost: list[CampaignError] = []
        barrier = threading.Barrier(8)

        def race(number: int) -> None:
            store = Server(api_of(kubeconfig(), space)).lease(NAME)
            barrier.wait()
            try:
                acquire(store, claim(f"campaign-{number}", 60), utc, time.sleep)
            except CampaignError as error:
                lost.append(error)
            else:
                won.append(f"campaign-{number}")

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(won) == 1
        assert {error.codes for error in lost} == {("lease_held",)}
        assert all(f"is held by {won[0]} (host-of-{won[0]} process 1) since " in str(error) for error in lost)

    def test_takes_over_from_a_stale_holder(self, server: Server) -> None:
        """A lease whose holder died an hour ago is taken after its duration, by the local clock."""
        store = server.lease(NAME)
        store.create(written(NAME, claim("dead", 2), utc() - dt.timedelta(hours=1), None))
        began = time.monotonic()

        found = acquire(store, claim("alive"), utc, time.sleep)

        assert view(found).holder == "alive"
        assert found["spec"]["leaseTransitions"] == 1
        assert 2 <= time.monotonic() - began < 10

    def test_respects_a_holder_whose_clock_is_an_hour_behind(self, server: Server) -> None:
        """A lease that looks expired and is renewed while it is watched is not taken."""
        store = server.lease(NAME)
        behind = utc() - dt.timedelta(hours=1)
        store.create(written(NAME, claim("slow-clock", 2), behind, None))

        def meanwhile(seconds: float) -> None:
            found = store.read()
            store.replace(written(NAME, claim("slow-clock", 2), behind + dt.timedelta(seconds=seconds), found))

        with pytest.raises(CampaignError) as caught:
            acquire(store, claim("impatient"), utc, meanwhile)

        assert caught.value.codes == ("lease_held",)
        assert "the two clocks differ" in str(caught.value)

    def test_survives_a_server_that_is_away(self, space: str, gate: Gate) -> None:
        """An outage shorter than the lease is no event; a longer one stops starts until the server is back, and is on record."""
        keeper = Keeper(Server(api_of(gate.kubeconfig, space, bound_s=60)).lease(NAME), claim("ours", 4)).start()
        gate.shut()
        time.sleep(1.5)
        keeper.check()
        time.sleep(4)
        with pytest.raises(CampaignError) as caught:
            keeper.check()
        gate.open()
        until(lambda: not _refuses(keeper), "the lease to be renewed")

        assert caught.value.codes == ("lease_expired",)
        assert len(keeper.gaps) == 1
        assert keeper.stop()

    def test_a_lease_that_was_stolen_is_lost_by_name(self, server: Server) -> None:
        """Somebody who overwrites our lease stops our next start, and keeps it when we end."""
        store = server.lease(NAME)
        keeper = Keeper(store, claim("ours", 4)).start()
        store.replace(written(NAME, claim("thief", 60), utc(), store.read()))

        error = until(lambda: _refuses(keeper), "the loss to be noticed")

        assert error.codes == ("lease_lost",)
        assert "it is held by thief (host-of-thief process 1)" in str(error)
        assert not keeper.stop()
        assert view(store.read() or {}).holder == "thief"


def _refuses(keeper: Keeper) -> CampaignError | None:
    try:
        keeper.check()
    except CampaignError as error:
        return error
    return None


_HOLD = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[5])
from clusters import api_of
from ep_campaign.custody.guard import Guard, holder_of
from ep_campaign.custody.place import CustodySection, LeaseSection
from ep_campaign.custody.server import Server
place = CustodySection(lease=LeaseSection(name=sys.argv[3], duration_s=60))
guard = Guard(Server(api_of(Path(sys.argv[1]), sys.argv[2])), place, holder_of("smoke", Path(sys.argv[4])))
guard.open()
print("held", flush=True)
time.sleep(600)
"""


class TestGuard:
    def test_a_killed_controller_is_followed_at_once_by_its_own_campaign_only(
        self, space: str, server: Server, tmp_path: Path
    ) -> None:
        """After SIGKILL the same results folder has its lease back at once; a copy of the folder is refused while it is valid."""
        tests = str(next(parent for parent in __import__("pathlib").Path(__file__).parents if parent.name == "tests"))
        ours, copied = tmp_path / "smoke", tmp_path / "copy"
        ours.mkdir()
        command = [sys.executable, "-c", _HOLD, str(kubeconfig()), space, NAME, str(ours), tests]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "held\n"
            process.send_signal(signal.SIGKILL)
        copied.mkdir()
        (copied / "logs").mkdir()
        (copied / "logs/custody-folder.json").write_bytes((ours / "logs/custody-folder.json").read_bytes())

        with pytest.raises(CampaignError) as caught:
            Guard(server, place(duration_s=60), holder_of("smoke", copied)).open()
        again = Guard(server, place(duration_s=60), holder_of("smoke", ours))
        began = time.monotonic()
        again.open()

        assert time.monotonic() - began < 10
        assert caught.value.codes == ("lease_held",)
        again.close()
        assert view(server.lease(NAME).read() or {}).holder == ""

    def test_observing_never_writes(self, server: Server) -> None:
        """A campaign that runs under a lease which somebody holds for it leaves the object as it is."""
        store = server.lease(NAME)
        before = store.create(written(NAME, claim("platform-team", 60), utc(), None))
        guard = Guard(server, place(mode="observe", expected_holder="platform-team"), "smoke/1")

        guard.open()
        guard.check()
        guard.close()

        assert store.read() == before

    def test_stops_where_the_observed_holder_changed(self, server: Server) -> None:
        """The nodes are no longer lent to us: no further start."""
        store = server.lease(NAME)
        store.create(written(NAME, claim("platform-team", 60), utc(), None))
        guard = Guard(server, place(mode="observe", expected_holder="platform-team"), "smoke/1")
        guard.open()
        store.replace(written(NAME, claim("another-team", 60), utc(), store.read()))

        with pytest.raises(CampaignError) as caught:
            guard.check()

        assert caught.value.codes == ("lease_not_expected_holder",)

    def test_names_this_process(self) -> None:
        """Whoever is refused reads which process on which host holds the lease."""
        assert f"process {__import__('os').getpid()} since " in controller()


@pytest.fixture
def node(everything: client.ApiClient) -> Iterator[str]:
    """A node of our own that is Ready and has eight devices; no kubelet stands behind it."""
    core, name = client.CoreV1Api(everything), f"ep-test-node-{time.monotonic_ns() % 10**8}"
    core.create_node({"metadata": {"name": name, "labels": {"node.kubernetes.io/instance-type": "test.8xlarge"}}})
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "Test",
        "lastHeartbeatTime": utc(),
        "lastTransitionTime": utc(),
    }
    size = {"cpu": "8", "memory": "8Gi", "pods": "20", GPU: "8"}
    core.patch_node_status(name, {"status": {"capacity": size, "allocatable": size, "conditions": [condition]}})
    yield name
    core.delete_node(name)


def put_pod(everything: client.ApiClient, space: str, name: str, on: str, num_gpus: int) -> str:
    """A pod that is bound to a node by name, past the scheduler; its UID."""
    resources = {"requests": {GPU: str(num_gpus)}, "limits": {GPU: str(num_gpus)}}
    container = {"name": "main", "image": "registry.invalid/none:1", "resources": resources}
    spec = {"nodeName": on, "containers": [container], "terminationGracePeriodSeconds": 600}
    made = client.CoreV1Api(everything).create_namespaced_pod(space, {"metadata": {"name": name}, "spec": spec})
    return str(made.metadata.uid)


def nodes_place(**nodes: Any) -> CustodySection:
    section = {"resources": {GPU: 8}, "instance_type": "test.8xlarge", "wait_s": 1, **nodes}
    return CustodySection.model_validate({"lease": {"mode": "off"}, "nodes": section})


def refused(server: Server, name: str, section: CustodySection, num_nodes: int = 1) -> tuple[str, ...]:
    with pytest.raises(CampaignError) as caught:
        Guard(server, section, "smoke/1").admit((name,), num_nodes, OWN)
    return caught.value.codes


class TestNodes:
    def test_a_fit_node_is_admitted_with_what_was_seen_of_it(self, server: Server, node: str) -> None:
        """The record of admission says which node, of what type, with how much."""
        found = Guard(server, nodes_place(), "smoke/1").admit((node,), 1, OWN)

        assert [(item["name"], item["instance_type"], item["allocatable"][GPU]) for item in found] == [
            (node, "test.8xlarge", "8")
        ]

    def test_what_is_wrong_is_said_at_once(self, server: Server, everything: client.ApiClient, node: str) -> None:
        """A cordoned node of another type with too few devices is refused with all three."""
        client.CoreV1Api(everything).patch_node(node, {"spec": {"unschedulable": True}})

        section = nodes_place(instance_type="p6-b200.48xlarge", resources={GPU: 16})

        assert refused(server, node, section) == ("node_cordoned", "wrong_instance_type", "too_few_allocatable")

    def test_missing_protected_and_too_few(self, server: Server, node: str) -> None:
        """Names that are not there, must not be used, or do not suffice."""
        assert refused(server, "no-such-node", nodes_place()) == ("node_missing",)
        assert refused(server, node, nodes_place(protected=(node,))) == ("node_protected",)
        assert refused(server, node, nodes_place(), num_nodes=2) == ("too_few_nodes",)

    def test_a_node_that_never_reported_is_not_ready(self, server: Server, everything: client.ApiClient) -> None:
        """Without a kubelet's word a node is not ready."""
        core, name = client.CoreV1Api(everything), "ep-test-silent-node"
        core.create_node({"metadata": {"name": name}})
        try:
            assert refused(server, name, nodes_place(resources={}, instance_type="")) == ("node_not_ready",)
        finally:
            core.delete_node(name)

    def test_a_node_that_others_use_is_busy_then_terminating(
        self, server: Server, everything: client.ApiClient, space: str, node: str
    ) -> None:
        """A pod of another team is named; once it is on its way out it is waited for, with a bound."""
        put_pod(everything, space, "trainer", node, 4)
        busy = refused(server, node, nodes_place())
        client.CoreV1Api(everything).delete_namespaced_pod("trainer", space)
        terminating = refused(server, node, nodes_place())
        client.CoreV1Api(everything).delete_namespaced_pod("trainer", space, grace_period_seconds=0)

        assert (busy, terminating) == (("node_busy",), ("node_terminating",))
        assert Guard(server, nodes_place(), "smoke/1").admit((node,), 1, OWN)


class TestTeardown:
    def test_is_proved_by_uid(self, server: Server, everything: client.ApiClient, space: str) -> None:
        """An object that somebody made anew under our name does not stand in the way of the proof."""
        core = client.CoreV1Api(everything)
        first = core.create_namespaced_config_map(space, {"metadata": {"name": "gang"}})
        owned = Owned("ConfigMap", space, "gang", first.metadata.uid)
        there = prove_gone([owned], server.read, server.nodes, 0.3, time.monotonic, time.sleep)
        core.delete_namespaced_config_map("gang", space)
        core.create_namespaced_config_map(space, {"metadata": {"name": "gang"}})

        gone = prove_gone([owned], server.read, server.nodes, 5, time.monotonic, time.sleep)

        assert (there.status, gone.status) == ("failed", "proved")

    def test_a_pod_of_a_dead_node_is_waived(
        self, server: Server, everything: client.ApiClient, space: str, node: str
    ) -> None:
        """Where no kubelet answers, nobody can confirm the end of a pod: that is not the campaign's fault."""
        core = client.CoreV1Api(everything)
        owned = Owned("Pod", space, "rank", put_pod(everything, space, "rank", node, 1))
        core.delete_namespaced_pod("rank", space)
        down = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
        core.patch_node_status(node, {"status": {"conditions": [down]}})

        proof = Guard(server, nodes_place(), "smoke/1").judge_remaining([], [owned], 1.0)
        core.delete_namespaced_pod("rank", space, grace_period_seconds=0)

        assert proof.status == "waived"
        assert [item.waiver for item in proof.remaining] == [WaiverClass.NODE_UNREACHABLE]

    def test_a_foreign_finalizer_is_waived(self, server: Server, everything: client.ApiClient, space: str) -> None:
        """What another controller holds is reported with its finalizer."""
        core = client.CoreV1Api(everything)
        body = {"metadata": {"name": "held", "finalizers": ["kueue.x-k8s.io/managed"]}}
        made = core.create_namespaced_config_map(space, body)
        core.delete_namespaced_config_map("held", space)
        owned = Owned("ConfigMap", space, "held", made.metadata.uid)

        proof = prove_gone([owned], server.read, server.nodes, 0.3, time.monotonic, time.sleep)
        core.patch_namespaced_config_map("held", space, {"metadata": {"finalizers": None}})

        assert proof.status == "waived"
        assert proof.remaining[0].reason == "finalizers of others stand on it: kueue.x-k8s.io/managed"
        assert prove_gone([owned], server.read, server.nodes, 5, time.monotonic, time.sleep).status == "proved"

    def test_a_namespace_stuck_on_a_stale_api_service_is_waived(self, everything: client.ApiClient) -> None:
        """The fault that failed two good campaigns: an aggregated API without a server keeps every namespace Terminating."""
        core, services = client.CoreV1Api(everything), client.ApiregistrationV1Api(everything)
        spec = {"group": "visibility.ep-test.invalid", "version": "v1beta1", "insecureSkipTLSVerify": True}
        spec |= {
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"name": "none", "namespace": "default"},
        }
        stale = "v1beta1.visibility.ep-test.invalid"
        services.create_api_service({"metadata": {"name": stale}, "spec": spec})
        try:
            with namespace(everything) as name:
                owned = Owned("Namespace", "", name, core.read_namespace(name).metadata.uid)
                core.delete_namespace(name)

                def stuck() -> Any:
                    found = everything.sanitize_for_serialization(core.read_namespace(name))
                    held = classify(owned, found, frozenset())
                    return held if held.waiver is not None else None

                held = until(stuck, "the namespace to say what keeps it")
        finally:
            services.delete_api_service(stale)

        assert held.waiver is WaiverClass.STALE_API_SERVICE
        assert "visibility.ep-test.invalid/v1beta1" in held.reason
