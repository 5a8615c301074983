"""Driver of a GPUStack `ModelDeployment` with an elastic profile, through the Kubernetes API.

The manifest is the user's, of whatever operator version: only the width in it is ever touched. Owners are matched by UID,
because stored objects name another API version than the one that is spoken to. Tested against a server that replays the
documented contract, not yet against an operator.
"""

from __future__ import annotations

import copy
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from ep_campaign.drivers import pods, server_log
from ep_campaign.drivers.calls import CallError
from ep_campaign.drivers.claims import DEVICES, Ledger, read_ledger, unreleased
from ep_campaign.drivers.cluster import JSON_PATCH, Cluster
from ep_campaign.drivers.driver import (
    Condition,
    Endpoint,
    Evidence,
    Released,
    Resize,
    ResizeState,
    Snapshot,
    TransportProof,
)
from ep_campaign.drivers.observation import Observation, read_observation
from ep_campaign.errors import CampaignError, refuse

API = "/apis/worker.gpustack.ai/v1"
OBSERVATION_LABEL = "gpustack.ai/elastic-observation=true"
OBSERVATION_KEY = "observation.json"
_POLL_S = 0.5
_CREATED = 201
_OK = 200
_SERVER_FAULT = 500


@dataclass(frozen=True)
class GpustackOptions:
    """Which deployment.

    Attributes:
        cluster: The API.
        namespace: Its namespace.
        name: Its name.
        endpoint: Where its model serves HTTP (the master, without a router).
        manifest: What to create where there is none; None expects it to be there.
        role: Place of its only role.
        start_timeout_s: Until it must be ready at the width that is asked.
        stop_timeout_s: Until what was created must be gone.
    """

    cluster: Cluster
    namespace: str
    name: str
    endpoint: Endpoint
    manifest: dict[str, Any] | None = None
    role: int = 0
    start_timeout_s: float = 1800.0
    stop_timeout_s: float = 600.0


class GpustackDriver:
    """As `driver.Driver` says."""

    def __init__(self, options: GpustackOptions) -> None:
        self._options = options
        self._resize: Resize | None = None
        self._created_uid: str | None = None
        self._free: Ledger | None = None

    @property
    def evidence(self) -> frozenset[Evidence]:
        """All that there is."""
        return frozenset(Evidence)

    def start(self, width: int) -> Endpoint:
        """Creates the deployment, or finds it, and waits until its own document says that the width is effective."""
        found = self._options.cluster.find(self._path)
        if found is None:
            self._create(width)
        else:
            self._check_width(found, width)
        deadline = time.monotonic() + self._options.start_timeout_s
        while True:
            seen = self.snapshot()
            if seen.unreadable and seen.observation is None and seen.num_observations == 1:
                raise refuse("observation_drift", "; ".join(seen.unreadable), self._where)
            if seen.observation is not None and _is_at(seen.observation, width):
                return self._options.endpoint
            if time.monotonic() > deadline:
                message = f"not effective at width {width} in time; phase {seen.phase}; {'; '.join(seen.unreadable)}"
                raise refuse("deployment_not_ready", message, self._where)
            time.sleep(_POLL_S)

    def resize(self, old_width: int, new_width: int) -> None:
        """Patches the width where it still is the old one; the API refuses otherwise."""
        if self._resize is not None and self._resize.state is ResizeState.AMBIGUOUS:
            message = "the last patch has no answer that says anything: it is not sent again, and no other is"
            raise refuse("resize_unresolved", message, self._where)
        asked = Resize(old_width, new_width, time.monotonic_ns())
        try:
            answer = self._options.cluster.send("PATCH", self._path, self._patch(old_width, new_width), kind=JSON_PATCH)
        except CallError as error:
            self._resize = replace(
                asked, answered_ns=time.monotonic_ns(), state=ResizeState.AMBIGUOUS, message=str(error)
            )
            return
        state = ResizeState.REFUSED if answer.status < _SERVER_FAULT else ResizeState.AMBIGUOUS
        generation = None
        if answer.status == _OK:
            generation = _of(answer.json(), "metadata", "generation")
            state = ResizeState.ACCEPTED if isinstance(generation, int) else ResizeState.AMBIGUOUS
        self._resize = replace(
            asked,
            answered_ns=answer.received_ns,
            state=state,
            status=answer.status,
            message="" if answer.status == _OK else answer.text,
            generation=generation,
        )

    def resized(self) -> Resize | None:
        """The last patch: ACCEPTED says only that the API took it."""
        return self._resize

    def snapshot(self) -> Snapshot:
        """Reads the deployment, its observation and its pods."""
        options = self._options
        unreadable: list[str] = []
        deployment: dict[str, Any] = {}
        found: list[dict[str, Any]] = []
        documents: list[dict[str, Any]] = []
        try:
            deployment = options.cluster.get(self._path)
            uid = str(_of(deployment, "metadata", "uid"))
            found = pods.owned(self._pods(), uid)
            documents = self._observations(uid)
        except (CampaignError, CallError) as error:
            unreadable.append(str(error))
        observation = self._read(documents, unreadable)
        members = pods.members(found, self._role(deployment), unreadable)
        status = deployment.get("status") or {}
        return Snapshot(
            received_ns=time.monotonic_ns(),
            deployment_uid=_of(deployment, "metadata", "uid"),
            generation=_of(deployment, "metadata", "generation"),
            observation=observation,
            num_observations=len(documents),
            conditions={
                one["type"]: Condition(one["status"], one.get("reason", ""), one.get("lastTransitionTime", ""))
                for one in status.get("conditions", [])
            },
            phase=status.get("phase"),
            members=members,
            unreadable=tuple(unreadable),
            raw={
                "status": status,
                "observations": [_of(one, "data", OBSERVATION_KEY) for one in documents],
                "withdrawn": pods.is_withdrawn(pods.master(found, self._role(deployment))),
            },
        )

    def provenance(self) -> dict[str, Any]:
        """The deployment's specification, the images that the pods run, and the transport that the master's log proves."""
        deployment, found = self._deployed()
        return {
            "engine": "gpustack",
            "spec": deployment.get("spec"),
            "pods": [pods.provenance(pod) for pod in found],
            "transport": asdict(self.transport()),
        }

    def transport(self) -> TransportProof:
        """What NCCL's lines in the master's log prove."""
        return server_log.transport_proof(self._master_log())

    def server_log(self) -> dict[str, int] | None:
        """Counts the access lines of the master's log."""
        text = self._master_log()
        return None if text is None else server_log.count_completions(text)

    def stop(self) -> Released:
        """Deletes the deployment if this driver created it, until it, its pods and its accelerator claims are gone."""
        if self._created_uid is None:
            return Released(proved=True, not_ours=(self._where,))
        body = {"preconditions": {"uid": self._created_uid}, "propagationPolicy": "Foreground"}
        self._options.cluster.send("DELETE", self._path, body)
        deadline = time.monotonic() + self._options.stop_timeout_s
        while left := self._left():
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        return Released(proved=not left, left=left)

    @property
    def _path(self) -> str:
        return f"{API}/namespaces/{self._options.namespace}/modeldeployments/{self._options.name}"

    @property
    def _where(self) -> str:
        return f"ModelDeployment {self._options.namespace}/{self._options.name}"

    def _width_path(self) -> str:
        return f"/spec/roles/{self._options.role}/elasticEp/width"

    def _patch(self, old_width: int, new_width: int) -> list[dict[str, Any]]:
        path = self._width_path()
        return [{"op": "test", "path": path, "value": old_width}, {"op": "replace", "path": path, "value": new_width}]

    def _create(self, width: int) -> None:
        options = self._options
        if options.manifest is None:
            raise refuse("deployment_missing", "there is none, and no manifest was given to create it", self._where)
        self._free = self._ledger()
        manifest = copy.deepcopy(options.manifest)
        manifest["spec"]["roles"][options.role]["elasticEp"]["width"] = width
        path = f"{API}/namespaces/{options.namespace}/modeldeployments"
        answer = options.cluster.send("POST", path, manifest)
        if answer.status != _CREATED:
            raise refuse("deployment_refused", f"status {answer.status}: {answer.text[:500]}", self._where)
        self._created_uid = _of(answer.json(), "metadata", "uid")

    def _check_width(self, deployment: dict[str, Any], width: int) -> None:
        roles = _of(deployment, "spec", "roles") or []
        found = _of(roles[self._options.role], "elasticEp", "width") if len(roles) > self._options.role else None
        if found != width:
            message = f"found {found}, expected {width}: set it, or give the campaign the width that is there"
            raise refuse("width_not_found", message, f"{self._where}: {self._width_path()}")

    def _pods(self) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{self._options.namespace}/pods"
        selector = f"{pods.INSTANCE_LABEL}={self._options.name}"
        return self._options.cluster.items(path, labelSelector=selector)

    def _observations(self, uid: str) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{self._options.namespace}/configmaps"
        found = self._options.cluster.items(path, labelSelector=OBSERVATION_LABEL)
        return [one for one in found if uid in _owners(one)]

    def _read(self, documents: list[dict[str, Any]], unreadable: list[str]) -> Observation | None:
        if len(documents) != 1:
            unreadable.append(f"{self._where}: found {len(documents)} observations owned by it, expected one")
            return None
        text = _of(documents[0], "data", OBSERVATION_KEY)
        if not isinstance(text, str):
            unreadable.append(f"{self._where}: its observation has no {OBSERVATION_KEY} [observation_drift]")
            return None
        try:
            return read_observation(text, f"{self._where}: observation")
        except CampaignError as error:
            unreadable.extend(str(refusal) for refusal in error.refusals)
            return None

    def _deployed(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The deployment and its own pods."""
        deployment = self._options.cluster.get(self._path)
        return deployment, pods.owned(self._pods(), str(_of(deployment, "metadata", "uid")))

    def _role(self, deployment: dict[str, Any]) -> str:
        """Name of the elastic role."""
        roles = _of(deployment, "spec", "roles") or []
        return str(_of(roles[self._options.role], "name")) if len(roles) > self._options.role else ""

    def _master_log(self) -> str | None:
        deployment, found = self._deployed()
        master = pods.master(found, self._role(deployment))
        if master is None:
            return None
        path = f"/api/v1/namespaces/{self._options.namespace}/pods/{master['metadata']['name']}/log"
        return self._options.cluster.text(path, container=pods.MAIN_CONTAINER)

    def _left(self) -> tuple[str, ...]:
        deployment = self._options.cluster.find(self._path)
        same = deployment is not None and _of(deployment, "metadata", "uid") == self._created_uid
        left = [self._where] if same else []
        left += [f"pod {_of(pod, 'metadata', 'name')}" for pod in self._pods()]
        now = self._ledger()
        if self._free is None or now is None:
            return (*left, f"accelerator claims, unknown: {DEVICES} cannot be read")
        return (*left, *unreleased(self._free, now))

    def _ledger(self) -> Ledger | None:
        """What is left of each accelerator; None where the operator does not say."""
        try:
            return read_ledger(self._options.cluster.items(DEVICES))
        except (CampaignError, KeyError):
            return None


def _is_at(observation: Observation, width: int) -> bool:
    return observation.effective.known and observation.effective.value == width == observation.stable_width


def _owners(item: dict[str, Any]) -> set[str]:
    return {one.get("uid", "") for one in _of(item, "metadata", "ownerReferences") or []}


def _of(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
