"""Admission of nodes, from Node and Pod objects."""

from __future__ import annotations

from typing import Any

import pytest

from ep_campaign.custody.nodes import NodeNeeds, admit_nodes, node_refusals
from ep_campaign.custody.quantity import quantity, requested
from ep_campaign.errors import CampaignError

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
NEEDS = NodeNeeds(
    names=("node-0", "node-1"),
    resources={GPU: 8, EFA: 8},
    exclusive=(GPU, EFA),
    instance_type="p6-b200.48xlarge",
    protected=("node-9",),
    own=("ep-campaign/campaign", "b200-ep16"),
)


def node(name: str, **changes: Any) -> dict[str, Any]:
    """A healthy B200 node."""
    allocatable = {GPU: "8", EFA: "8", "cpu": "191450m", "memory": "2063937Mi", **changes.get("allocatable", {})}
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "labels": {"node.kubernetes.io/instance-type": changes.get("instance_type", "p6-b200.48xlarge")},
        },
        "spec": {"unschedulable": True} if changes.get("cordoned") else {},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": changes.get("ready", "True"), "reason": "KubeletReady"}],
            "nodeInfo": {"kernelVersion": "6.1.166-197.305.amzn2023.x86_64", "kubeletVersion": "v1.34.2-eks"},
        },
    }


def pod(name: str, on: str, gpus: int, **changes: Any) -> dict[str, Any]:
    """A pod that holds GPUs on a node."""
    metadata = {"name": name, "namespace": "team-x", "labels": changes.get("labels", {})}
    if changes.get("terminating"):
        metadata["deletionTimestamp"] = "2026-12-01T12:00:00Z"
    resources = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}
    return {
        "metadata": metadata,
        "spec": {"nodeName": on, "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": changes.get("phase", "Running")},
    }


BOTH = (node("node-0"), node("node-1"))


def codes(nodes: Any, pods: Any = (), needs: NodeNeeds = NEEDS) -> list[str]:
    return [refusal.code for refusal in node_refusals(needs, nodes, pods)]


class TestNodeRefusals:
    def test_accepts_what_is_fit(self) -> None:
        """Two idle, ready nodes of the right type with 8 GPUs and 8 NICs each are refused nothing."""
        assert codes(BOTH, [pod("kube-proxy", "node-0", 0), pod("other", "node-5", 8)]) == []

    @pytest.mark.parametrize(
        ("nodes", "expected"),
        [
            ((node("node-0"),), ["node_missing"]),
            ((node("node-0", ready="False"), node("node-1", ready="Unknown")), ["node_not_ready", "node_not_ready"]),
            ((node("node-0", cordoned=True), node("node-1")), ["node_cordoned"]),
            ((node("node-0", instance_type="p5.48xlarge"), node("node-1")), ["wrong_instance_type"]),
            (
                (node("node-0", allocatable={GPU: "7"}), node("node-1", allocatable={EFA: "0"})),
                ["too_few_allocatable"] * 2,
            ),
            (
                (node("node-0", ready="False", cordoned=True, instance_type="m5.large"),),
                ["node_not_ready", "node_cordoned", "wrong_instance_type", "node_missing"],
            ),
        ],
        ids=["missing", "not ready", "cordoned", "type", "allocatable", "all at once"],
    )
    def test_says_what_is_wrong(self, nodes: Any, expected: list[str]) -> None:
        """Each fault has its code, and all of them are said at once."""
        assert codes(nodes) == expected

    def test_takes_sixteen_nics_where_sixteen_are_declared(self) -> None:
        """How many NICs a node has is declared, nowhere assumed."""
        needs = NodeNeeds(("node-0",), {EFA: 16})

        assert codes([node("node-0", allocatable={EFA: "16"})], needs=needs) == []
        assert codes([node("node-0")], needs=needs) == ["too_few_allocatable"]

    def test_refuses_a_protected_node_before_anything_else(self) -> None:
        """A node that is named and protected is refused by name, whatever its state."""
        assert codes(BOTH, needs=NodeNeeds(("node-0", "node-9"), {}, protected=("node-9",))) == ["node_protected"]

    def test_refuses_too_few_names(self) -> None:
        """An EP size needs as many nodes as it has pods."""
        assert codes(BOTH, needs=NodeNeeds(("node-0", "node-1"), {}, num_nodes=4)) == ["too_few_nodes"]

    def test_names_the_pod_that_holds_devices(self) -> None:
        """A busy node is refused with who holds what."""
        refusals = node_refusals(NEEDS, BOTH, [pod("trainer-0", "node-1", 4)])

        assert [str(refusal) for refusal in refusals] == [
            "node node-1: pod team-x/trainer-0 holds 4 nvidia.com/gpu: end it, or name another node [node_busy]"
        ]

    def test_counts_neither_finished_pods_nor_our_own(self) -> None:
        """A pod that has ended holds nothing; our own leftovers are swept, not refused."""
        ours = {"ep-campaign/campaign": "b200-ep16"}

        assert codes(BOTH, [pod("done", "node-0", 8, phase="Succeeded"), pod("rank", "node-1", 8, labels=ours)]) == []


class TestAdmitNodes:
    def test_waits_for_a_pod_on_its_way_out(self) -> None:
        """A terminating pod is waited for, with a bound."""
        looks = [[pod("old", "node-0", 8, terminating=True)]] * 2 + [[]]
        slept: list[float] = []

        found = admit_nodes(NEEDS, lambda: (BOTH, looks.pop(0)), 60, slept.append)

        assert slept == [2.0, 2.0]
        assert [item["name"] for item in found] == ["node-0", "node-1"]
        assert found[0]["allocatable"] == {"cpu": "191450m", "memory": "2063937Mi", GPU: "8", EFA: "8"}

    def test_gives_up_after_its_bound(self) -> None:
        """A pod that never ends is named in the end."""
        slept: list[float] = []
        with pytest.raises(CampaignError) as caught:
            admit_nodes(NEEDS, lambda: (BOTH, [pod("old", "node-0", 8, terminating=True)]), 6, slept.append)

        assert (caught.value.codes, sum(slept)) == (("node_terminating",), 6.0)

    def test_does_not_wait_where_waiting_mends_nothing(self) -> None:
        """A missing node is refused at once, also beside a pod that would go."""
        with pytest.raises(CampaignError) as caught:
            admit_nodes(NEEDS, lambda: (BOTH[:1], [pod("old", "node-0", 8, terminating=True)]), 60, pytest.fail)

        assert caught.value.codes == ("node_terminating", "node_missing")


class TestQuantity:
    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("8", 8),
            (8, 8),
            ("5120Mi", 5_368_709_120),
            ("500m", 0.5),
            ("2k", 2000),
            ("1e3", 1000),
            ("1.5Gi", 1_610_612_736),
        ],
    )
    def test_reads(self, text: Any, value: float) -> None:
        """A quantity is its number times its suffix."""
        assert quantity(text) == value

    def test_refuses_what_is_none(self) -> None:
        """Raises `ValueError` with the text."""
        with pytest.raises(ValueError, match="'8 GiB' is not a Kubernetes quantity"):
            quantity("8 GiB")


def test_a_pod_requests_the_larger_of_its_containers_and_its_init_containers() -> None:
    """Containers add up (1 + 2), a sidecar runs beside them (+ 1), an init container beside the sidecar before it (4 + 1)."""

    def container(count: int, **more: str) -> dict[str, Any]:
        return {"resources": {"limits": {GPU: str(count)}}, **more}

    spec = {"containers": [container(1), container(2)]}

    assert requested({"spec": spec}, GPU) == 3
    assert requested({"spec": {**spec, "initContainers": [container(1, restartPolicy="Always")]}}, GPU) == 4
    both = [container(1, restartPolicy="Always"), container(4)]
    assert requested({"spec": {**spec, "initContainers": both}}, GPU) == 5
