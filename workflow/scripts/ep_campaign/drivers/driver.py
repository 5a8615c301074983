"""The interface of a target that can be resized, and what one look at it says.

A driver never judges: `convergence` holds the rule, and the harness decides when to look. Nothing is sent twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ep_campaign.drivers.observation import Observation


class Evidence(StrEnum):
    """What a kind of target can show of its width, beside what its HTTP endpoint says."""

    OBSERVATION = "observation"
    """The five-layer document."""
    CONDITIONS = "conditions"
    """Conditions and phase of a Kubernetes object."""
    MEMBERS = "members"
    """Identities of processes or pods."""


class ResizeState(StrEnum):
    """What became of a request to resize, as far as its answer says.

    ACCEPTED says nothing of completion. REFUSED and FAILED are final. AMBIGUOUS: the answer was lost or says nothing;
    the request is not sent again.
    """

    PENDING = "pending"
    ACCEPTED = "accepted"
    REFUSED = "refused"
    FAILED = "failed"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True)
class Endpoint:
    """Where HTTP is served, and by which name the model goes."""

    host: str
    port: int
    model: str


@dataclass(frozen=True)
class Member:
    """One process or pod.

    Attributes:
        name: Rank or pod name.
        uid: Identity: it changes when the member is another one, even under the same name.
        container_id: Identity of its container; None where the target has none.
        num_restarts: Restarts; None where the target does not count any.
        serves: Whether it takes part in serving (a Ray head without accelerators does not).
        running: Whether it runs.
    """

    name: str
    uid: str
    container_id: str | None
    num_restarts: int | None
    serves: bool
    running: bool


@dataclass(frozen=True)
class Condition:
    """One condition of a Kubernetes object."""

    status: str
    reason: str
    changed_at: str
    """Cluster time, as written; never subtracted from one of our own clocks."""


@dataclass(frozen=True)
class Snapshot:
    """One look at a target.

    Attributes:
        received_ns: When the last part of it was received, on our monotonic clock.
        deployment_uid: Identity of the deployment; None where the target has none.
        generation: Generation of what was asked; None where the target has none.
        observation: The five-layer document; None where there was none to read.
        num_observations: Documents that claim to be about this deployment; 1 is right.
        conditions: By type.
        phase: Phase in a word; None where the target has none.
        members: Processes or pods.
        unreadable: What could not be read, and why. It means unknown, never `not yet`.
        raw: What the target said, for the record.
    """

    received_ns: int
    deployment_uid: str | None = None
    generation: int | None = None
    observation: Observation | None = None
    num_observations: int = 0
    conditions: dict[str, Condition] = field(default_factory=dict)
    phase: str | None = None
    members: tuple[Member, ...] = ()
    unreadable: tuple[str, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Resize:
    """One request to resize.

    Attributes:
        old_width: Width that it was asked from.
        new_width: Width that was asked.
        sent_ns: When it was sent, on our monotonic clock.
        answered_ns: When its answer came; None before.
        state: What the answer says.
        status: HTTP status of the answer; None before, or where it was lost.
        message: Words of the answer.
        generation: Generation that the answer gave to what was asked; None where the target has none.
    """

    old_width: int
    new_width: int
    sent_ns: int
    answered_ns: int | None = None
    state: ResizeState = ResizeState.PENDING
    status: int | None = None
    message: str = ""
    generation: int | None = None


@dataclass(frozen=True)
class TransportProof:
    """What the target's own logs prove of what carries its tokens between ranks.

    Attributes:
        name: `tcp` or `shm` of the bundled engine, NCCL's word (`IB`, `Socket`) elsewhere; None where nothing, or more than one
            thing, is proved.
        gpu_direct: Whether every network channel goes through GPU Direct RDMA; None where no line says so.
        evidence: What it was read from, in words.
    """

    name: str | None
    gpu_direct: bool | None
    evidence: str


@dataclass(frozen=True)
class Released:
    """What a teardown left.

    Attributes:
        proved: Whether everything that the driver made is proved gone, and every claim given back.
        left: What is still there.
        not_ours: What the driver did not make and therefore did not touch.
    """

    proved: bool
    left: tuple[str, ...] = ()
    not_ours: tuple[str, ...] = ()


class Driver(Protocol):
    """One target."""

    @property
    def evidence(self) -> frozenset[Evidence]:
        """What its snapshots can hold."""

    def start(self, width: int) -> Endpoint:
        """Brings the target up at a width, or finds it there; returns when it serves.

        Raises:
            CampaignError: It is not there, does not come up, or has another width.
        """

    def resize(self, old_width: int, new_width: int) -> None:
        """Asks for a width, once; does not wait. The answer shows in `resized`.

        Raises:
            CampaignError: A request is unresolved.
        """

    def resized(self) -> Resize | None:
        """The last request as it stands; None before the first."""

    def snapshot(self) -> Snapshot:
        """Looks once."""

    def provenance(self) -> dict[str, Any]:
        """What runs: versions, flags, images, model; each observed, or with the reason why not."""

    def transport(self) -> TransportProof:
        """What carries tokens between the ranks that serve now."""

    def server_log(self) -> dict[str, int] | None:
        """Completion calls that the server itself logged, by HTTP status; None where its log cannot be read."""

    def stop(self) -> Released:
        """Takes down what the driver made."""
