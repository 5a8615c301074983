"""Proof that nothing of ours is left, and whose fault it is where something is."""

from __future__ import annotations

from typing import Any

import pytest

from ep_campaign.custody.teardown import Owned, WaiverClass, classify, prove_gone, ready_nodes

POD = Owned("Pod", "ep-campaign", "gang-0", "uid-1")
JOB = Owned("Job", "ep-campaign", "gang-0", "uid-2")
NAMESPACE = Owned("Namespace", "", "ep-campaign-x", "uid-3")
SINCE = "2026-12-01T12:00:00Z"


def thing(owned: Owned, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": owned.name, "uid": owned.uid, **metadata}, "spec": {}, "status": {}}


class Server:
    """Objects that vanish after some looks; a clock that moves when somebody sleeps."""

    def __init__(self, objects: dict[Owned, list[dict[str, Any] | None]]) -> None:
        self.objects, self.now_s = objects, 0.0

    def read(self, owned: Owned) -> dict[str, Any] | None:
        states = self.objects[owned]
        return states.pop(0) if len(states) > 1 else states[0]

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def prove(server: Server, bound_s: float = 10, nodes: Any = ()) -> Any:
    return prove_gone(list(server.objects), server.read, lambda: nodes, bound_s, lambda: server.now_s, server.sleep)


class TestProveGone:
    def test_waits_until_every_object_is_gone(self) -> None:
        """Each object is asked for until the server has none of its name."""
        proof = prove(Server({POD: [thing(POD), thing(POD), None], JOB: [None]}))

        assert (proof.status, proof.gone, proof.waited_s) == ("proved", (POD, JOB), 1.0)
        assert proof.as_json()["num_gone"] == 2

    def test_does_not_take_another_object_of_the_name_for_ours(self) -> None:
        """An object with our name and another UID proves that ours is gone."""
        assert prove(Server({POD: [thing(POD, uid="uid-of-a-later-one")]})).status == "proved"

    def test_fails_where_ours_stays(self) -> None:
        """An object that outlives the bound is listed with what keeps it."""
        proof = prove(Server({POD: [None], JOB: [thing(JOB, deletionTimestamp=SINCE)]}), bound_s=2)

        assert (proof.status, proof.gone, proof.waited_s) == ("failed", (POD,), 2.0)
        assert proof.as_json()["remaining"] == [
            {
                "object": "Job ep-campaign/gang-0 (uid-2)",
                "deleting_since_utc": SINCE,
                "waiver": None,
                "reason": "its deletion began and did not end within the bound",
            }
        ]

    def test_is_waived_only_where_all_that_stays_is_the_clusters_fault(self) -> None:
        """One fault of ours beside a waiver is a failure."""
        held = thing(JOB, deletionTimestamp=SINCE, finalizers=["kueue.x-k8s.io/managed"])

        assert prove(Server({JOB: [held]})).status == "waived"
        assert prove(Server({JOB: [held], POD: [thing(POD)]}), nodes=[]).status == "failed"


def node(name: str, ready: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


class TestClassify:
    def test_an_object_whose_deletion_never_began_is_ours_to_delete(self) -> None:
        """No waiver covers what nobody deleted."""
        found = classify(JOB, thing(JOB, finalizers=["kueue.x-k8s.io/managed"]), frozenset())

        assert (found.waiver, found.reason) == (None, "its deletion has not begun: delete it")

    @pytest.mark.parametrize(("ready", "waiver"), [("True", None), ("Unknown", WaiverClass.NODE_UNREACHABLE)])
    def test_a_pod_on_a_node_that_does_not_answer(self, ready: str, waiver: Any) -> None:
        """Only a kubelet can confirm that a pod has ended."""
        pod = {**thing(POD, deletionTimestamp=SINCE), "spec": {"nodeName": "node-1"}}

        assert classify(POD, pod, ready_nodes([node("node-1", ready)])).waiver is waiver

    def test_a_pod_on_a_node_that_is_gone(self) -> None:
        """A node that was deleted answers as little."""
        pod = {**thing(POD, deletionTimestamp=SINCE), "spec": {"nodeName": "node-1"}}

        assert classify(POD, pod, ready_nodes([node("node-0", "True")])).waiver is WaiverClass.NODE_UNREACHABLE

    def test_finalizers_of_the_server_itself_are_no_excuse(self) -> None:
        """What the API server puts on our objects it also takes away; waiting for it is ours."""
        job = thing(JOB, deletionTimestamp=SINCE, finalizers=["foregroundDeletion", "batch.kubernetes.io/job-tracking"])

        assert classify(JOB, job, frozenset()).waiver is None

    @pytest.mark.parametrize(
        ("condition", "message", "waiver"),
        [
            (
                "NamespaceDeletionDiscoveryFailure",
                "Discovery failed for some groups, 1 failing: visibility.kueue.x-k8s.io/v1beta1: stale GroupVersion discovery",
                WaiverClass.STALE_API_SERVICE,
            ),
            (
                "NamespaceFinalizersRemaining",
                "Some content in the namespace has finalizers remaining: kueue.x-k8s.io/managed in 1 resource instances",
                WaiverClass.FOREIGN_FINALIZER,
            ),
            (
                "NamespaceDeletionContentFailure",
                'Failed to delete all resource types, 1 remaining: failed calling webhook "mjob.kb.io": connection refused',
                WaiverClass.WEBHOOK,
            ),
            ("NamespaceContentRemaining", "Some resources are remaining: pods. has 1 resource instances", None),
        ],
    )
    def test_a_namespace_says_what_keeps_it(self, condition: str, message: str, waiver: Any) -> None:
        """A namespace that stays Terminating names the fault in its conditions."""
        found = thing(NAMESPACE, deletionTimestamp=SINCE)
        found["status"] = {"conditions": [{"type": condition, "status": "True", "message": message}]}

        assert classify(NAMESPACE, found, frozenset()).waiver is waiver
