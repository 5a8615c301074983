"""Proof that nothing of ours is left: object by object, by UID.

An object of the same name with another UID is not ours. What keeps one of ours alive, and is the cluster's fault and not the
campaign's, is a waiver with its class: it is reported and it never turns a good campaign into a failed one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

OUR_FINALIZERS = frozenset({"foregroundDeletion", "orphan", "batch.kubernetes.io/job-tracking", "kubernetes"})
"""Finalizers that the API server and its own controllers put on what we create, and take away again."""


class WaiverClass(StrEnum):
    """Faults that are the cluster's.

    STALE_API_SERVICE: discovery of some API group fails, so a namespace cannot be emptied. FOREIGN_FINALIZER: another
    controller's finalizer stands on the object. NODE_UNREACHABLE: the kubelet that must confirm a pod's end does not answer.
    WEBHOOK: an admission webhook that does not answer refuses the deletion.
    """

    STALE_API_SERVICE = "stale_api_service"
    FOREIGN_FINALIZER = "foreign_finalizer"
    NODE_UNREACHABLE = "node_unreachable"
    WEBHOOK = "webhook"


@dataclass(frozen=True)
class Owned:
    """One object that we created: `kind` as in its manifest; `namespace` is empty for what has none."""

    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        """`Pod ns/name (uid)`."""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind} {place} ({self.uid})"


@dataclass(frozen=True)
class Remaining:
    """One object of ours that is still there.

    Attributes:
        owned: Which.
        since_utc: Its deletionTimestamp; empty where its deletion never began.
        waiver: Whose fault that is, where it is not ours.
        reason: What keeps it.
    """

    owned: Owned
    since_utc: str
    waiver: WaiverClass | None
    reason: str

    def as_json(self) -> dict[str, Any]:
        """For a record."""
        return {
            "object": str(self.owned),
            "deleting_since_utc": self.since_utc,
            "waiver": None if self.waiver is None else self.waiver.value,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class TeardownProof:
    """What became of everything that we created.

    Attributes:
        gone: Objects of which the server says that they do not exist, or that their name belongs to another now.
        remaining: The others.
        waited_s: How long it took, or was waited for [s].
    """

    gone: tuple[Owned, ...]
    remaining: tuple[Remaining, ...]
    waited_s: float

    @property
    def status(self) -> str:
        """`proved`; `waived` where only the cluster's faults keep something; `failed`."""
        if not self.remaining:
            return "proved"
        return "waived" if all(item.waiver is not None for item in self.remaining) else "failed"

    def as_json(self) -> dict[str, Any]:
        """For a record."""
        return {
            "status": self.status,
            "num_gone": len(self.gone),
            "gone": [str(item) for item in self.gone],
            "remaining": [item.as_json() for item in self.remaining],
            "waited_s": round(self.waited_s, 3),
        }


def prove_gone(
    owned: Sequence[Owned],
    read: Callable[[Owned], dict[str, Any] | None],
    nodes: Callable[[], Iterable[dict[str, Any]]],
    bound_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], object],
    step_s: float = 0.5,
) -> TeardownProof:
    """Waits, with a bound, until none of the objects exists under its UID.

    Args:
        owned: What we created.
        read: The object of that name as it is now, or None.
        nodes: All nodes; asked only for the pods that remain.
        bound_s: Bound on waiting [s].
        clock: Monotonic time [s].
        sleep: Waits so many seconds.
        step_s: Time between looks [s].
    """
    began_s = clock()
    left = dict.fromkeys(owned)
    while True:
        now = {item: read(item) for item in left}
        there = {
            item: found for item, found in now.items() if found is not None and found["metadata"]["uid"] == item.uid
        }
        if not there or clock() - began_s >= bound_s:
            break
        left = dict.fromkeys(there)
        sleep(step_s)
    ready = ready_nodes(nodes()) if any(item.kind == "Pod" for item in there) else frozenset()
    remaining = tuple(classify(item, found, ready) for item, found in there.items())
    gone = tuple(item for item in owned if item not in there)
    return TeardownProof(gone, remaining, clock() - began_s)


def classify(owned: Owned, found: Mapping[str, Any], ready: frozenset[str]) -> Remaining:
    """Why an object of ours is still there, and whose fault that is."""
    since = found["metadata"].get("deletionTimestamp") or ""
    if not since:
        return Remaining(owned, "", None, "its deletion has not begun: delete it")
    node = (found.get("spec") or {}).get("nodeName", "")
    if owned.kind == "Pod" and node and node not in ready:
        reason = f"node {node} is gone or not Ready, so nobody confirms that the pod has ended"
        return Remaining(owned, since, WaiverClass.NODE_UNREACHABLE, reason)
    if owned.kind == "Namespace":
        return _namespace(owned, since, found)
    foreign = sorted(set(found["metadata"].get("finalizers") or []) - OUR_FINALIZERS)
    if foreign:
        reason = f"finalizers of others stand on it: {', '.join(foreign)}"
        return Remaining(owned, since, WaiverClass.FOREIGN_FINALIZER, reason)
    return Remaining(owned, since, None, "its deletion began and did not end within the bound")


def _namespace(owned: Owned, since: str, found: Mapping[str, Any]) -> Remaining:
    """A namespace says itself, in its conditions, what keeps it."""
    conditions = {c["type"]: c for c in (found.get("status") or {}).get("conditions") or [] if c["status"] == "True"}
    classes = {
        "NamespaceDeletionDiscoveryFailure": WaiverClass.STALE_API_SERVICE,
        "NamespaceDeletionGroupVersionParsingFailure": WaiverClass.STALE_API_SERVICE,
        "NamespaceFinalizersRemaining": WaiverClass.FOREIGN_FINALIZER,
    }
    for name, waiver in classes.items():
        if name in conditions:
            return Remaining(owned, since, waiver, conditions[name].get("message", name))
    content = conditions.get("NamespaceDeletionContentFailure", {}).get("message", "")
    if "webhook" in content:
        return Remaining(owned, since, WaiverClass.WEBHOOK, content)
    return Remaining(owned, since, None, content or "its deletion began and did not end within the bound")


def ready_nodes(nodes: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Names of the nodes whose kubelet answers."""
    return frozenset(
        node["metadata"]["name"]
        for node in nodes
        if any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions") or [])
    )
