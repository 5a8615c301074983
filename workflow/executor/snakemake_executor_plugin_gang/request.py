"""What a gang is asked to be, and how its pods ended: plain data, without Kubernetes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

MAX_NAME = 50
"""Longest name of a gang: its pods add an index, and a label of DNS ends at 63 characters."""

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")


class Code(StrEnum):
    """Why a gang, or one of its pods, did not end as it should. Stable words for scripts, tests and reports."""

    UNSCHEDULABLE = "unschedulable"
    """Not all pods found a node within the bound: none was left running."""
    IMAGE = "image_not_available"
    """The image is wrong, or could not be pulled within the bound."""
    NOT_STARTED = "not_started"
    """A container did not start within the bound, for another reason than its image."""
    RUN_BOUND = "run_bound"
    """Pods ran on beyond the bound on the whole run."""
    EVICTED = "evicted"
    """The node evicted a pod: memory, disk, or a higher priority."""
    NODE_LOST = "node_lost"
    """The node of a pod went away or stopped answering."""
    POD_DELETED = "pod_deleted"
    """Somebody deleted a pod, or its gang."""
    OUT_OF_MEMORY = "out_of_memory"
    """The kernel killed a container at its memory limit."""
    RESTARTED = "restarted"
    """A container was started twice, which a gang never asks for."""
    API_UNREACHABLE = "api_unreachable"
    """The API server did not answer within the bound; the gang may run on and can be found again by its name."""
    CANCELLED = "cancelled"
    """The workflow was stopped."""
    REFUSED = "refused"
    """The API server refused an object: the template, a quota, a right."""


@dataclass(frozen=True)
class GangRequest:
    """One gang: `num_pods` pods that start together or not at all.

    Each pod has two containers of one image: `ranks`, which works, and `collect`, which prints to its log what the first has
    left in `/gang/out`. Both see `files` in `/gang/files` and the variables GANG_INDEX, GANG_SIZE, GANG_HOST (the address
    of pod 0) and GANG_NODE.

    Attributes:
        name: Lower-case letters, digits and dashes, at most `MAX_NAME`; the same request has the same name, always.
        num_pods: How many.
        image: Container image by digest.
        ranks_command: Command of the first container; `$(GANG_INDEX)` and the like are expanded.
        collect_command: Command of the second.
        files: Content of `/gang/files`, by plain name.
        environment: Further variables of both.
        nodes: Names of the nodes that may be used; empty for any.
        one_pod_a_node: Whether two pods must not share one.
        run_bound_s: Seconds that pods may run.
        labels: Further labels of every object.
        description: For people: what this is, as an annotation.
    """

    name: str
    num_pods: int
    image: str
    ranks_command: tuple[str, ...]
    collect_command: tuple[str, ...]
    files: dict[str, bytes]
    run_bound_s: float
    environment: dict[str, str] = field(default_factory=dict)
    nodes: tuple[str, ...] = ()
    one_pod_a_node: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    description: str = ""

    def __post_init__(self) -> None:
        if len(self.name) > MAX_NAME or not _NAME.fullmatch(self.name):
            msg = f"gang name {self.name!r}: expected at most {MAX_NAME} lower-case letters, digits and dashes"
            raise ValueError(msg)
        if self.num_pods < 1:
            msg = f"gang {self.name}: num_pods is {self.num_pods}, expected 1 or more"
            raise ValueError(msg)


@dataclass(frozen=True)
class Failure:
    """One thing that went wrong.

    Attributes:
        code: What.
        pod: Index of the pod; None where it is the gang's.
        text: What the cluster says of it.
    """

    code: Code
    pod: int | None
    text: str


@dataclass(frozen=True)
class PodEnd:
    """How one pod ended, as its status says.

    Attributes:
        index: Place in the gang.
        name: Its name.
        uid: Its UID.
        node: Where it ran; empty where it never was scheduled.
        image_id: What the container runtime reports of the first container's image; empty where it never started.
        exit_code: Of the first container; None where it did not end.
        restarts: Of both containers.
        ranks_log: What the first container printed.
        collect_log: What the second printed.
    """

    index: int
    name: str
    uid: str
    node: str
    image_id: str
    exit_code: int | None
    restarts: int
    ranks_log: str
    collect_log: str


@dataclass(frozen=True)
class Gone:
    """The proof that an object of a gang is gone: by UID, because a name can be taken again.

    Attributes:
        kind: Kind.
        name: Name.
        uid: UID.
        gone: Whether the API server no longer knows an object of this UID.
    """

    kind: str
    name: str
    uid: str
    gone: bool


@dataclass(frozen=True)
class GangResult:
    """What became of a gang.

    Attributes:
        pods: Every pod that could still be asked, by index.
        failures: What went wrong, the cause first; empty where all pods ended by themselves.
        seconds: Controller's clock from the request until `scheduled`, `started`, `ended`, `gathered`, `gone`; a stage that was not
            reached is missing.
        objects: Everything that was made, and whether it is gone.
    """

    pods: tuple[PodEnd, ...]
    failures: tuple[Failure, ...]
    seconds: dict[str, float]
    objects: tuple[Gone, ...]
