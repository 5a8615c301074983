"""Runs one gang: made whole, watched with a bound on every wait, gathered, removed, and its removal proved."""

from __future__ import annotations

import functools
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubernetes.client.exceptions import ApiException

from snakemake_executor_plugin_gang import objects
from snakemake_executor_plugin_gang.api import CONFLICT, NOT_FOUND, CancelledError, UnreachableError, message_of
from snakemake_executor_plugin_gang.pods import Stage, assess, exit_code, index_of, looks_lost, statuses
from snakemake_executor_plugin_gang.request import Code, Failure, GangResult, Gone, PodEnd

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping, Sequence

    from snakemake_executor_plugin_gang.api import Api
    from snakemake_executor_plugin_gang.pods import Assessment
    from snakemake_executor_plugin_gang.request import GangRequest

_LOOK_S = 10.0
"""How long a watch stays open: bounds are held to this, and a change that a watch lost is seen at the latest then."""
_TELL_S = 30.0
_PEERS_S = 15.0
"""What the other pods are given once one has failed for good: to end by themselves, and say so."""
_LOG_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Bounds:
    """Bounds on what a gang waits for [s].

    Attributes:
        schedule_s: Until all pods have a node.
        start_s: Then until all containers have started; pulling images is in it.
        delete_s: Until everything is gone, once deleted.
        node_s: How long a node may look lost before its pod counts as lost.
    """

    schedule_s: float = 300.0
    start_s: float = 900.0
    delete_s: float = 120.0
    node_s: float = 60.0


class Gangs:
    """Gangs of one namespace."""

    def __init__(self, api: Api, template: Mapping[str, Any], bounds: Bounds, tell: Callable[[str], None]) -> None:
        self.api = api
        self._template, self._bounds, self._tell = template, bounds, tell

    def exists(self, name: str, stop: threading.Event) -> bool:
        """Whether there is a gang of this name, also of a controller that is gone."""
        return self._owner_uid(name, stop) is not None

    def names(self, labels: Mapping[str, str], stop: threading.Event) -> list[str]:
        """Names of gangs with these labels."""
        selector = ",".join(f"{key}={value}" for key, value in {**labels, objects.APP_LABEL: objects.APP}.items())
        found = self.api.json(
            "list gangs",
            lambda **raw: self.api.core.list_namespaced_config_map(self.api.namespace, label_selector=selector, **raw),
            stop,
        )
        return sorted({item["metadata"]["labels"][objects.GANG_LABEL] for item in found["items"]})

    def run(self, request: GangRequest, stop: threading.Event) -> GangResult:
        """Runs a gang to its end; one of this name that is already there is taken over as it is.

        Never raises for what a cluster does: every fault is a failure of the result. Only where the API server is out of reach
        does the gang stay, to be found again by its name.
        """
        began = time.monotonic()
        seconds: dict[str, float] = {}

        def reached(stage: str) -> None:
            seconds.setdefault(stage, round(time.monotonic() - began, 3))

        failures: list[Failure] = []
        pods: list[dict[str, Any]] = []
        try:
            self._make(request, stop)
            failures, pods = self._watch(request, stop, reached)
            reached("ended")
            ends = self._gather(request, pods, stop)
            reached("gathered")
        except CancelledError:
            failures.append(Failure(Code.CANCELLED, None, "the workflow was stopped"))
            ends = ()
        except UnreachableError as error:
            return GangResult((), (Failure(Code.API_UNREACHABLE, None, str(error)),), seconds, ())
        except ApiException as error:
            failures.append(Failure(Code.REFUSED, None, f"{error.status}: {message_of(error)}"))
            ends = ()
        gone = self.remove(request.name)
        if all(item.gone for item in gone):
            reached("gone")
        return GangResult(ends, tuple(failures), seconds, gone)

    def remove(self, name: str) -> tuple[Gone, ...]:
        """Deletes a gang and waits until the API server knows none of its objects any more; the proof, object by object."""
        try:
            known = self._known(name)
            for kind, item_name, _ in known:
                self._delete(kind, item_name)
            return self._prove_gone(name, known)
        except (UnreachableError, ApiException) as error:
            text = message_of(error) if isinstance(error, ApiException) else str(error)
            self._tell(f"gang {name}: its removal is not proved: {text}")
            return (Gone("ConfigMap", name, "unknown", gone=False),)

    # -- making --------------------------------------------------------------------------------------------------------

    def _make(self, request: GangRequest, stop: threading.Event) -> None:
        namespace, core, batch = self.api.namespace, "core", "batch"
        self._create(f"gang {request.name}: owner", core, "create_namespaced_config_map", objects.owner(request), stop)
        uid = self._owner_uid(request.name, stop)
        if uid is None:
            raise ApiException(status=NOT_FOUND, reason=f"owner {namespace}/{request.name} is gone")
        methods = {
            "ConfigMap": (core, "create_namespaced_config_map"),
            "Service": (core, "create_namespaced_service"),
            "Job": (batch, "create_namespaced_job"),
        }
        for manifest in objects.dependents(request, self._template, uid):
            group, method = methods[manifest["kind"]]
            what = f"gang {request.name}: {manifest['kind']} {manifest['metadata']['name']}"
            self._create(what, group, method, manifest, stop)

    def _create(self, what: str, group: str, method: str, manifest: dict[str, Any], stop: threading.Event) -> None:
        try:
            create = lambda **raw: getattr(getattr(self.api, group), method)(self.api.namespace, manifest, **raw)  # noqa: E731
            self.api.json(what, create, stop)
        except ApiException as error:
            if (
                error.status != CONFLICT
            ):  # made by an earlier call whose answer was lost, or by a controller that is gone
                raise

    def _owner_uid(self, name: str, stop: threading.Event | None) -> str | None:
        try:
            found = self.api.json(
                f"gang {name}: owner",
                lambda **raw: self.api.core.read_namespaced_config_map(name, self.api.namespace, **raw),
                stop,
            )
        except ApiException as error:
            if error.status == NOT_FOUND:
                return None
            raise
        return str(found["metadata"]["uid"])

    # -- watching ------------------------------------------------------------------------------------------------------

    def _watch(
        self, request: GangRequest, stop: threading.Event, reached: Callable[[str], None]
    ) -> tuple[list[Failure], list[dict[str, Any]]]:
        """Until all pods have ended, or something cannot mend itself, or a bound runs out."""
        watched = _Watched(request, self._bounds, time.monotonic())
        selector = f"{objects.GANG_LABEL}={request.name}"
        while True:
            if stop.is_set():
                raise CancelledError(request.name)
            pods, version = self._pods(selector, stop)
            now = time.monotonic()
            found = assess(pods, request.num_pods, frozenset(watched.pods))
            watched.see(pods, found, now, reached)
            failure = watched.verdict(found, now)
            if failure is not None:
                return [failure], list(watched.pods.values())
            if found.stage is Stage.ENDED:
                return [item for item in found.fatal if item.code is Code.OUT_OF_MEMORY], pods
            if watched.should_tell(now):
                self._tell(f"gang {request.name}: {found.stage.name.lower()}: {found.waiting or 'no reason given'}")
            self.api.wait_for_change(selector, version, min(_LOOK_S, watched.until_next_bound(found, now)))

    def _pods(self, selector: str, stop: threading.Event) -> tuple[list[dict[str, Any]], str]:
        found = self.api.json(
            f"list pods of {selector}",
            lambda **raw: self.api.core.list_namespaced_pod(self.api.namespace, label_selector=selector, **raw),
            stop,
        )
        return found["items"], found["metadata"]["resourceVersion"]

    # -- gathering -----------------------------------------------------------------------------------------------------

    def _gather(
        self, request: GangRequest, pods: Sequence[dict[str, Any]], stop: threading.Event
    ) -> tuple[PodEnd, ...]:
        ends = []
        for pod in sorted(pods, key=index_of):
            name, entry = pod["metadata"]["name"], statuses(pod).get(objects.RANKS, {})
            logs = {container: self._log(name, container, stop) for container in (objects.RANKS, objects.COLLECT)}
            ends.append(
                PodEnd(
                    index=index_of(pod),
                    name=name,
                    uid=pod["metadata"]["uid"],
                    node=pod["spec"].get("nodeName", ""),
                    image_id=entry.get("imageID", ""),
                    exit_code=exit_code(pod),
                    restarts=sum(status.get("restartCount", 0) for status in statuses(pod).values()),
                    ranks_log=logs[objects.RANKS],
                    collect_log=logs[objects.COLLECT],
                )
            )
        return tuple(ends)

    def _log(self, pod: str, container: str, stop: threading.Event) -> str:
        """A container's log; empty where there is none to be had."""
        try:
            answer = self.api.call(
                f"log of {pod}/{container}",
                lambda: self.api.core.read_namespaced_pod_log(
                    pod, self.api.namespace, container=container, limit_bytes=_LOG_BYTES, _preload_content=False
                ),
                stop,
            )
        except ApiException:
            return ""  # the container never started, or its node took the log along
        return bytes(answer.data).decode("utf-8", errors="replace")

    # -- removing ------------------------------------------------------------------------------------------------------

    def _known(self, name: str) -> list[tuple[str, str, str]]:
        """(kind, name, UID) of every object of a gang, dependents first."""
        selector = f"{objects.GANG_LABEL}={name}"
        core, batch, namespace = self.api.core, self.api.batch, self.api.namespace
        lists: dict[str, Callable[..., Any]] = {
            "Job": batch.list_namespaced_job,
            "Pod": core.list_namespaced_pod,
            "Service": core.list_namespaced_service,
            "ConfigMap": core.list_namespaced_config_map,
        }
        return [
            (kind, item["metadata"]["name"], item["metadata"]["uid"])
            for kind, listing in lists.items()
            for item in self.api.json(
                f"gang {name}: list {kind}", functools.partial(listing, namespace, label_selector=selector)
            )["items"]
        ]

    def _delete(self, kind: str, name: str) -> None:
        core, batch = self.api.core, self.api.batch
        deletes: dict[str, Callable[..., Any]] = {
            "Job": functools.partial(batch.delete_namespaced_job, propagation_policy="Background"),
            "Pod": core.delete_namespaced_pod,
            "Service": core.delete_namespaced_service,
            "ConfigMap": core.delete_namespaced_config_map,
        }
        with suppress(ApiException):  # gone already, or refused: the proof tells which
            self.api.json(f"delete {kind} {name}", functools.partial(deletes[kind], name, self.api.namespace))

    def _prove_gone(self, name: str, known: Sequence[tuple[str, str, str]]) -> tuple[Gone, ...]:
        deadline, pause_s = time.monotonic() + self._bounds.delete_s, 0.1
        while True:
            left = {uid for _, _, uid in self._known(name)}
            if not left or time.monotonic() > deadline:
                late = (
                    [item for item in self._known(name) if item[2] not in {uid for _, _, uid in known}] if left else []
                )
                return tuple(Gone(kind, item, uid, gone=uid not in left) for kind, item, uid in [*known, *late])
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 2.0)


class _Watched:
    """What a watch remembers between two looks."""

    def __init__(self, request: GangRequest, bounds: Bounds, now: float) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self._request, self._bounds = request, bounds
        self._since = dict.fromkeys(Stage, now)
        self._stage, self._told = Stage.ABSENT, now
        self._lost_since: dict[str, float] = {}
        self._failed_since: float | None = None

    def see(
        self, pods: Sequence[dict[str, Any]], found: Assessment, now: float, reached: Callable[[str], None]
    ) -> None:
        """Takes a look into account."""
        self.pods.update({pod["metadata"]["uid"]: pod for pod in pods})
        if found.stage is not self._stage:
            self._stage = found.stage
            self._since[found.stage] = now
        if found.stage > Stage.UNSCHEDULED:
            reached("scheduled")
        if found.stage > Stage.STARTING:
            reached("started")
        lost = {pod["metadata"]["uid"] for pod in pods if looks_lost(pod)}
        self._lost_since = {uid: self._lost_since.get(uid, now) for uid in lost}
        if self._hard(found) and self._failed_since is None:
            self._failed_since = now

    @staticmethod
    def _hard(found: Assessment) -> list[Failure]:
        return [item for item in found.fatal if item.code is not Code.OUT_OF_MEMORY]

    def verdict(self, found: Assessment, now: float) -> Failure | None:
        """The failure that ends the watch; None while there is hope, or where all pods ended by themselves."""
        hard = self._hard(found)
        if hard:
            ended = found.stage in (Stage.ENDED, Stage.ABSENT) or found.stage < Stage.RUNNING
            return hard[0] if ended or now - (self._failed_since or now) >= _PEERS_S else None
        for uid, since in self._lost_since.items():
            if now - since >= self._bounds.node_s:
                pod = self.pods[uid]
                text = f"node {pod['spec'].get('nodeName')} has not answered for {now - since:.0f} s"
                return Failure(Code.NODE_LOST, index_of(pod), text)
        bound_s, code = self._bound(found)
        if found.stage is not Stage.ENDED and now - self._since[self._counted(found)] > bound_s:
            waited = f"after {bound_s:.0f} s {found.stage.name.lower()}: {found.waiting or 'no reason given'}"
            return Failure(code, None, waited)
        return None

    def _counted(self, found: Assessment) -> Stage:
        """The stage since which a bound counts: absent and unscheduled pods share one."""
        return Stage.ABSENT if found.stage is Stage.UNSCHEDULED else found.stage

    def _bound(self, found: Assessment) -> tuple[float, Code]:
        if found.stage <= Stage.UNSCHEDULED:
            return self._bounds.schedule_s, Code.UNSCHEDULABLE
        if found.stage is Stage.STARTING:
            return self._bounds.start_s, Code.IMAGE if found.waits_for_image else Code.NOT_STARTED
        return self._request.run_bound_s, Code.RUN_BOUND

    def until_next_bound(self, found: Assessment, now: float) -> float:
        """Seconds that the next look may wait."""
        bound_s, _ = self._bound(found)
        left = self._since[self._counted(found)] + bound_s - now
        if self._failed_since is not None:
            left = min(left, self._failed_since + _PEERS_S - now)
        if self._lost_since:
            left = min(left, min(self._lost_since.values()) + self._bounds.node_s - now)
        return max(1.0, left)

    def should_tell(self, now: float) -> bool:
        """Whether it is time to say what is waited for."""
        if self._stage is Stage.RUNNING or now - self._told < _TELL_S:
            return False
        self._told = now
        return True
