"""Pods of a GPUStack deployment: who they are, and what they run."""

from __future__ import annotations

from typing import Any

from ep_campaign.drivers.driver import Member

INSTANCE_LABEL = "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"
"""The role's name on pods that hold accelerators; another one on the Ray head, which has none."""
ORDINAL_LABEL = "modeldeployment.gpustack.ai/pod-ordinal"
"""Within its component; 0 of the role is the master, which serves HTTP."""
WITHDRAWN_ANNOTATION = "modeldeployment.gpustack.ai/elastic-withdrawn"
"""On the master while the operator keeps requests away from it."""
MAIN_CONTAINER = "main"


def owned(found: list[dict[str, Any]], uid: str) -> list[dict[str, Any]]:
    """Pods whose owner has the UID: a router's pods, and what a namesake left, carry the same labels."""
    return [pod for pod in found if uid in {one.get("uid") for one in pod["metadata"].get("ownerReferences", []) or []}]


def members(found: list[dict[str, Any]], role: str, unreadable: list[str]) -> tuple[Member, ...]:
    """Identities, in the order of their names.

    Args:
        found: Pods of the deployment.
        role: Name of its role.
        unreadable: Gets each pod whose main container has no status yet.
    """
    made = []
    for pod in found:
        metadata, status = pod["metadata"], pod.get("status", {})
        own = _main_status(pod)
        if own is None:
            unreadable.append(f"pod {metadata['name']}: no status of its container {MAIN_CONTAINER}")
        made.append(
            Member(
                name=metadata["name"],
                uid=metadata["uid"],
                container_id=None if own is None else own.get("containerID"),
                num_restarts=None if own is None else own.get("restartCount"),
                serves=_label(pod, COMPONENT_LABEL) == role,
                running=status.get("phase") == "Running",
            )
        )
    return tuple(sorted(made, key=lambda member: member.name))


def master(found: list[dict[str, Any]], role: str) -> dict[str, Any] | None:
    """The pod that serves HTTP; None where there is none, or more than one."""
    masters = [pod for pod in found if _label(pod, COMPONENT_LABEL) == role and _label(pod, ORDINAL_LABEL) == "0"]
    return masters[0] if len(masters) == 1 else None


def is_withdrawn(pod: dict[str, Any] | None) -> bool | None:
    """Whether the operator keeps requests away from the master; None where there is no master to ask."""
    return None if pod is None else WITHDRAWN_ANNOTATION in (pod["metadata"].get("annotations") or {})


def provenance(pod: dict[str, Any]) -> dict[str, Any]:
    """What a pod runs, and where: as the cluster observed it."""
    own = _main_status(pod) or {}
    return {
        "name": pod["metadata"]["name"],
        "node": pod.get("spec", {}).get("nodeName"),
        "image": own.get("image"),
        "image_id": own.get("imageID"),
    }


def _label(pod: dict[str, Any], name: str) -> str | None:
    value: str | None = (pod["metadata"].get("labels") or {}).get(name)
    return value


def _main_status(pod: dict[str, Any]) -> dict[str, Any] | None:
    found = [one for one in pod.get("status", {}).get("containerStatuses", []) if one.get("name") == MAIN_CONTAINER]
    return found[0] if found else None
