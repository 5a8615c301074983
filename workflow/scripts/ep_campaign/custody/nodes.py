"""Are the named nodes there, ready, of the right kind, whole, and idle? Judged from Node and Pod objects alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ep_campaign.custody.quantity import quantity, requested
from ep_campaign.errors import CampaignError, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

INSTANCE_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
ZONE_LABEL = "topology.kubernetes.io/zone"
PASSING = frozenset({"node_terminating"})
"""Codes of what passes by itself: a pod that is on its way out. Waited for, with a bound."""


@dataclass(frozen=True)
class NodeNeeds:
    """What an EP size needs of its nodes.

    Attributes:
        names: The named nodes, in the order of their slots.
        resources: Extended resources that each must have allocatable, such as `{"nvidia.com/gpu": 8}`.
        exclusive: Resources of which nobody else may hold any; empty where starts share their nodes.
        instance_type: What the nodes must be; empty where it does not matter.
        protected: Nodes that no start may ever use.
        own: Label (key, value) of our own pods, which do not count as others'.
    """

    names: tuple[str, ...]
    resources: Mapping[str, int]
    exclusive: tuple[str, ...] = ()
    instance_type: str = ""
    protected: tuple[str, ...] = ()
    own: tuple[str, str] = ("", "")
    num_nodes: int = field(default=0)


def admit_nodes(
    needs: NodeNeeds,
    look: Callable[[], tuple[Sequence[dict[str, Any]], Sequence[dict[str, Any]]]],
    wait_s: float,
    sleep: Callable[[float], object],
    step_s: float = 2.0,
) -> list[dict[str, Any]]:
    """Looks until the nodes are fit, for as long as all that is wrong passes by itself; returns what was seen of each node.

    Args:
        needs: What is needed.
        look: Returns all nodes, and the pods of all namespaces.
        wait_s: Bound on waiting [s].
        sleep: Waits so many seconds.
        step_s: Time between looks [s].

    Raises:
        CampaignError: Everything that is wrong with the nodes.
    """
    waited_s = 0.0
    while True:
        nodes, pods = look()
        refusals = node_refusals(needs, nodes, pods)
        if not refusals:
            by_name = {node["metadata"]["name"]: node for node in nodes}
            return [seen(by_name[name], needs.resources) for name in needs.names]
        if any(refusal.code not in PASSING for refusal in refusals) or waited_s >= wait_s:
            raise CampaignError(refusals)
        sleep(step_s)
        waited_s += step_s


def node_refusals(needs: NodeNeeds, nodes: Iterable[dict[str, Any]], pods: Iterable[dict[str, Any]]) -> list[Refusal]:
    """Everything that is wrong with the named nodes."""
    by_name = {node["metadata"]["name"]: node for node in nodes}
    on_node: dict[str, list[dict[str, Any]]] = {}
    for pod in pods:
        on_node.setdefault(pod["spec"].get("nodeName", ""), []).append(pod)
    found = []
    if len(needs.names) < needs.num_nodes:
        message = (
            f"names {len(needs.names)} nodes, {needs.num_nodes} are needed: name more, or measure a smaller EP size"
        )
        found.append(Refusal("too_few_nodes", message, "node set"))
    for name in needs.names:
        if name in needs.protected:
            message = "is both named and protected: take it out of one list"
            found.append(Refusal("node_protected", message, f"node {name}"))
        elif name not in by_name:
            near = ", ".join(sorted(by_name)[:8]) or "none"
            found.append(Refusal("node_missing", f"is not in the cluster; there are: {near}", f"node {name}"))
        else:
            found += _state_refusals(by_name[name], needs)
            found += _busy_refusals(name, on_node.get(name, []), needs)
    return found


def seen(node: dict[str, Any], resources: Mapping[str, int]) -> dict[str, Any]:
    """What a record keeps of a node."""
    info, labels = node["status"].get("nodeInfo") or {}, node["metadata"].get("labels") or {}
    allocatable = node["status"].get("allocatable") or {}
    return {
        "name": node["metadata"]["name"],
        "uid": node["metadata"]["uid"],
        "instance_type": _instance_type(node),
        "zone": labels.get(ZONE_LABEL, ""),
        "allocatable": {name: allocatable.get(name, "0") for name in sorted({*resources, "cpu", "memory"})},
        **{key: info.get(key, "") for key in ("kernelVersion", "osImage", "kubeletVersion", "containerRuntimeVersion")},
    }


def _instance_type(node: dict[str, Any]) -> str:
    labels = node["metadata"].get("labels") or {}
    return next((labels[name] for name in INSTANCE_TYPE_LABELS if name in labels), "")


def _state_refusals(node: dict[str, Any], needs: NodeNeeds) -> list[Refusal]:
    where, found = f"node {node['metadata']['name']}", []
    ready = next((c for c in node["status"].get("conditions") or [] if c["type"] == "Ready"), {"status": "Unknown"})
    if ready["status"] != "True":
        why = f"{ready.get('reason', 'no reason')}: {ready.get('message', '')}".rstrip(": ")
        found.append(Refusal("node_not_ready", f"is not Ready ({why}): mend it, or name another", where))
    if node["spec"].get("unschedulable"):
        found.append(Refusal("node_cordoned", "is cordoned: uncordon it, or name another", where))
    if needs.instance_type and _instance_type(node) != needs.instance_type:
        has = _instance_type(node) or "not labelled"
        found.append(Refusal("wrong_instance_type", f"is {has}, expected {needs.instance_type}", where))
    allocatable = node["status"].get("allocatable") or {}
    for resource, least in sorted(needs.resources.items()):
        has_n = quantity(allocatable.get(resource, 0))
        if has_n < least:
            message = f"has {has_n} {resource} allocatable, a pod needs {least}: does its device plugin run, is every device well?"
            found.append(Refusal("too_few_allocatable", message, where))
    return found


def _busy_refusals(name: str, pods: Iterable[dict[str, Any]], needs: NodeNeeds) -> list[Refusal]:
    """Pods of others that hold what must be idle; those on their way out are told apart."""
    found = []
    for pod in pods:
        meta = pod["metadata"]
        key, value = needs.own
        ours = bool(key) and (meta.get("labels") or {}).get(key) == value
        if ours or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            continue
        held = {r: requested(pod, r) for r in needs.exclusive}
        if not any(held.values()):
            continue
        what = ", ".join(f"{count} {resource}" for resource, count in held.items() if count)
        who = f"pod {meta['namespace']}/{meta['name']} holds {what}"
        if meta.get("deletionTimestamp"):
            found.append(Refusal("node_terminating", f"{who} and is terminating; it was waited for", f"node {name}"))
        else:
            found.append(Refusal("node_busy", f"{who}: end it, or name another node", f"node {name}"))
    return found
