"""Pods of a GPUStack deployment: who they are, and what they run."""

from __future__ import annotations

from typing import Any

from ep_campaign.drivers.driver import Member

INSTANCE_LABEL = "app.kubernetes.io/instance"
ORDINAL_LABEL = "modeldeployment.gpustack.ai/pod-ordinal"
"""On pods that hold accelerators; 0 is the master, which serves HTTP. The Ray head has none."""
MAIN_CONTAINER = "main"


def members(found: list[dict[str, Any]], unreadable: list[str]) -> tuple[Member, ...]:
    """Identities, in the order of their names; `unreadable` gets a pod whose main container has no status yet."""
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
                serves=ORDINAL_LABEL in metadata.get("labels", {}),
                running=status.get("phase") == "Running",
            )
        )
    return tuple(sorted(made, key=lambda member: member.name))


def master(found: list[dict[str, Any]]) -> str | None:
    """Name of the pod that serves HTTP; None where there is none."""
    names = [pod["metadata"]["name"] for pod in found if pod["metadata"].get("labels", {}).get(ORDINAL_LABEL) == "0"]
    return names[0] if len(names) == 1 else None


def provenance(pod: dict[str, Any]) -> dict[str, Any]:
    """What a pod runs, and where: as the cluster observed it."""
    own = _main_status(pod) or {}
    return {
        "name": pod["metadata"]["name"],
        "node": pod.get("spec", {}).get("nodeName"),
        "image": own.get("image"),
        "image_id": own.get("imageID"),
    }


def _main_status(pod: dict[str, Any]) -> dict[str, Any] | None:
    found = [one for one in pod.get("status", {}).get("containerStatuses", []) if one.get("name") == MAIN_CONTAINER]
    return found[0] if found else None
