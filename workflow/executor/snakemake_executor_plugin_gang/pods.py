"""What the statuses of a gang's pods say, as a pure function of them: how far it got, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from snakemake_executor_plugin_gang.objects import COLLECT, INDEX_LABEL, RANKS
from snakemake_executor_plugin_gang.request import Code, Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Pod = Mapping[str, Any]

_HOPELESS = frozenset({"InvalidImageName", "ErrImageNeverPull"})
_IMAGE = _HOPELESS | {"ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable"}
_LOST = frozenset({"NodeLost", "NodeShutdown", "Terminated", "NodeAffinity", "Shutdown"})


class Stage(IntEnum):
    """How far the slowest pod of a gang got."""

    ABSENT = 0
    """Its Job has not made it yet."""
    UNSCHEDULED = 1
    """It has no node yet."""
    STARTING = 2
    """It has a node; a container of it has not started."""
    RUNNING = 3
    """Its containers have started, and not all have ended."""
    ENDED = 4
    """All its containers have ended, or it failed as a whole."""


@dataclass(frozen=True)
class Assessment:
    """What a gang's pods say together.

    Attributes:
        stage: Of the slowest pod.
        fatal: What cannot mend itself, the cause first.
        waiting: What the slowest pods wait for, in the cluster's words; for people.
        waits_for_image: Whether that is an image.
    """

    stage: Stage
    fatal: tuple[Failure, ...]
    waiting: str
    waits_for_image: bool


def index_of(pod: Pod) -> int:
    """A pod's place in its gang."""
    return int(pod["metadata"]["labels"][INDEX_LABEL])


def assess(pods: Sequence[Pod], num_pods: int, seen: frozenset[str] = frozenset()) -> Assessment:
    """How far a gang got.

    Args:
        pods: The pods that the API server knows now.
        num_pods: How many there should be.
        seen: UIDs of pods that were there before: one of them that is missing now was deleted.
    """
    present = {pod["metadata"]["uid"] for pod in pods}
    deleted = [Failure(Code.POD_DELETED, None, f"a pod of UID {uid} is gone") for uid in sorted(seen - present)]
    stages = [stage_of(pod) for pod in pods] or [Stage.ABSENT]
    stage = Stage.ABSENT if len(pods) < num_pods else min(stages)
    fatal = [failure for pod in sorted(pods, key=index_of) for failure in failures_of(pod)]
    slowest = [pod for pod in pods if stage_of(pod) is stage]
    reasons = sorted({text for pod in slowest if (text := waiting_for(pod))})
    images = any(waiting_reason(status) in _IMAGE for pod in slowest for status in statuses(pod).values())
    return Assessment(stage, (*fatal, *deleted), "; ".join(reasons), images)


def stage_of(pod: Pod) -> Stage:
    """How far one pod got."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return Stage.ENDED
    if not pod["spec"].get("nodeName"):
        return Stage.UNSCHEDULED
    states = [(entry.get("state") or {}) for entry in statuses(pod).values()]
    if len(states) < len(pod["spec"]["containers"]) or any("waiting" in state or not state for state in states):
        return Stage.STARTING
    return Stage.ENDED if all("terminated" in state for state in states) else Stage.RUNNING


def statuses(pod: Pod) -> dict[str, Mapping[str, Any]]:
    """Container statuses by name."""
    return {entry["name"]: entry for entry in ((pod.get("status") or {}).get("containerStatuses") or [])}


def waiting_reason(status: Mapping[str, Any]) -> str:
    """Why a container waits; empty where it does not."""
    waiting = (status.get("state") or {}).get("waiting") or {}
    return str(waiting.get("reason") or "")


def waiting_for(pod: Pod) -> str:
    """What a pod waits for, in the cluster's own words; empty where it does not wait."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition["status"] != "True":
            return f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
    for name, status in statuses(pod).items():
        waiting = (status.get("state") or {}).get("waiting") or {}
        if waiting:
            return f"{name}: {waiting.get('reason', '')}: {waiting.get('message', '')}".strip(": ")
    return ""


def exit_code(pod: Pod) -> int | None:
    """Exit status of the first container; None where it has not ended."""
    ended = (statuses(pod).get(RANKS, {}).get("state") or {}).get("terminated") or {}
    return ended.get("exitCode")


def failures_of(pod: Pod) -> list[Failure]:
    """What of a pod cannot mend itself."""
    index, status = index_of(pod), pod.get("status") or {}
    found = []
    text = f"{status.get('reason') or ''}: {status.get('message') or ''}".strip(": ")
    if status.get("reason") == "Evicted":
        found.append(Failure(Code.EVICTED, index, text))
    elif status.get("reason") in _LOST:
        found.append(Failure(Code.NODE_LOST, index, text))
    elif status.get("phase") == "Failed" and not statuses(pod):
        found.append(Failure(Code.NOT_STARTED, index, text or "the pod failed before a container started"))
    if pod["metadata"].get("deletionTimestamp") and stage_of(pod) is not Stage.ENDED:
        found.append(Failure(Code.POD_DELETED, index, f"pod {pod['metadata']['name']} is being deleted"))
    for name, entry in statuses(pod).items():
        ended = (entry.get("state") or {}).get("terminated") or {}
        if ended.get("reason") == "OOMKilled":
            found.append(Failure(Code.OUT_OF_MEMORY, index, f"container {name} reached its memory limit"))
        if entry.get("restartCount", 0):
            found.append(
                Failure(Code.RESTARTED, index, f"container {name} was started {entry['restartCount'] + 1} times")
            )
        if waiting_reason(entry) in _HOPELESS:
            found.append(Failure(Code.IMAGE, index, waiting_for(pod)))
    return found


def looks_lost(pod: Pod) -> bool:
    """Whether a node seems gone: the pod is not ready although its containers, as last reported, run."""
    if stage_of(pod) is not Stage.RUNNING:
        return False
    ready = next((item for item in (pod["status"].get("conditions") or []) if item["type"] == "Ready"), None)
    states = statuses(pod)
    running = all("running" in (states.get(name, {}).get("state") or {}) for name in (RANKS, COLLECT))
    return bool(
        ready and ready["status"] != "True" and running and all(entry.get("ready") for entry in states.values())
    )
