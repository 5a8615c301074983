"""Custody's calls to an API server: leases, nodes, the pods on them, our own objects, our own rights.

Objects come as the JSON that the server sent: what a client's model does not know is kept, and a time keeps its form.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Protocol, cast

from kubernetes import client
from kubernetes.client.exceptions import ApiException

from ep_campaign.custody.lease import Conflict

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable

    from ep_campaign.custody.teardown import Owned


class Api(Protocol):
    """The executor's own API client: bounded, patient calls in one namespace."""

    namespace: str

    @property
    def core(self) -> client.CoreV1Api:
        """Pods, nodes, ConfigMaps, Services."""

    @property
    def batch(self) -> client.BatchV1Api:
        """Jobs."""

    @property
    def coordination(self) -> client.CoordinationV1Api:
        """Leases."""

    def call(self, what: str, function: Callable[[], Any], stop: threading.Event | None = None) -> Any:
        """The result of a call, repeated while the server is away."""


class Server:
    """What custody asks of a server."""

    def __init__(self, api: Api, stop: threading.Event | None = None) -> None:
        self._api, self._stop = api, stop

    @property
    def namespace(self) -> str:
        """Where gangs and their lease live."""
        return self._api.namespace

    def lease(self, name: str) -> ServerLease:
        """One Lease of the namespace."""
        return ServerLease(self, name)

    def nodes(self) -> list[dict[str, Any]]:
        """Every node."""
        return list(self.ask("list nodes", lambda: self._api.core.list_node(_preload_content=False))["items"])

    def pods_on(self, names: Iterable[str]) -> list[dict[str, Any]]:
        """The pods of all namespaces on the named nodes."""
        return [pod for name in names for pod in self._pods_on(name)]

    def _pods_on(self, name: str) -> list[dict[str, Any]]:
        def look() -> Any:
            selector = f"spec.nodeName={name}"
            return self._api.core.list_pod_for_all_namespaces(field_selector=selector, _preload_content=False)

        return list(self.ask(f"list pods on {name}", look)["items"])

    def read(self, owned: Owned) -> dict[str, Any] | None:
        """An object of ours by its name, or None; by list and field, so that no further verb is needed."""
        core, batch = "core", "batch"
        group, method = {
            "Job": (batch, "list_namespaced_job"),
            "Pod": (core, "list_namespaced_pod"),
            "Service": (core, "list_namespaced_service"),
            "ConfigMap": (core, "list_namespaced_config_map"),
        }[owned.kind]

        def look() -> Any:
            listing = getattr(getattr(self._api, group), method)
            return listing(self.namespace, field_selector=f"metadata.name={owned.name}", _preload_content=False)

        items = self.ask(f"look for {owned}", look)["items"]
        return items[0] if items else None

    def review(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Answers a SelfSubjectAccessReview."""
        api = client.AuthorizationV1Api(self._api.core.api_client)
        body = cast(
            "client.V1SelfSubjectAccessReview", asked
        )  # the client takes plain JSON as well, which its types do not say
        return self.ask("ask for a right", lambda: api.create_self_subject_access_review(body, _preload_content=False))

    def leases(self) -> client.CoordinationV1Api:
        """The API of leases."""
        return self._api.coordination

    def ask(self, what: str, function: Callable[[], Any]) -> dict[str, Any]:
        """The answer to a call, as JSON.

        Raises:
            ApiException: An answer that repetition does not change.
            ConnectionError: The server did not answer within its bound, or we are being stopped.
        """
        try:
            return dict(json.loads(self._api.call(what, function, self._stop).data))
        except RuntimeError as error:
            raise ConnectionError(str(error) or f"{what}: stopped") from error


class ServerLease:
    """One Lease of a server, as `lease.LeaseStore`."""

    def __init__(self, server: Server, name: str) -> None:
        self.name = name
        self._server = server

    def read(self) -> dict[str, Any] | None:
        """The object, or None where there is none."""
        try:
            return self._server.ask(
                f"read lease {self.name}",
                lambda: self._server.leases().read_namespaced_lease(
                    self.name, self._server.namespace, _preload_content=False
                ),
            )
        except ApiException as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def create(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Creates it."""
        return self._write(
            f"create lease {self.name}",
            lambda: self._server.leases().create_namespaced_lease(
                self._server.namespace, cast("client.V1Lease", lease), _preload_content=False
            ),
        )

    def replace(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Replaces it."""
        return self._write(
            f"write lease {self.name}",
            lambda: self._server.leases().replace_namespaced_lease(
                self.name, self._server.namespace, cast("client.V1Lease", lease), _preload_content=False
            ),
        )

    def _write(self, what: str, function: Callable[[], Any]) -> dict[str, Any]:
        try:
            return self._server.ask(what, function)
        except ApiException as error:
            # Gone between our reading and our writing is a change like any other.
            if error.status in (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND):
                raise Conflict from error
            raise
