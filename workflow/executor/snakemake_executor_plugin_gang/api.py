"""The API server, as a gang needs it: every call bounded, tolerant of what passes, and never silent while it waits."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NOT_FOUND, CONFLICT, UNAUTHORIZED, TOO_MANY = 404, 409, 401, 429
_SERVER_ERROR = 500
_CALL_S = 30.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 15.0
_TELL_S = 30.0


class UnreachableError(RuntimeError):
    """The API server did not answer within the bound."""


class CancelledError(RuntimeError):
    """The workflow was stopped while something waited."""


class RefusedError(RuntimeError):
    """The API server refused a call for good: the text says which, and why."""


def connect(kubeconfig: Path | None, context: str | None) -> client.ApiClient:
    """A client from a kubeconfig, or, inside a pod, from its service account.

    Raises:
        RefusedError: There is neither.
    """
    try:
        if kubeconfig is None:
            with suppress(config.ConfigException):
                config.load_incluster_config()
                return client.ApiClient()
        made: client.ApiClient = config.new_client_from_config(str(kubeconfig) if kubeconfig else None, context=context)
    except (config.ConfigException, OSError) as error:
        msg = f"no cluster to talk to: {error}; name a kubeconfig, or run inside the cluster with a service account"
        raise RefusedError(msg) from error
    return made


class Api:
    """Calls of one namespace.

    Attributes:
        namespace: Where the gangs live.
        core: Pods, logs, ConfigMaps, Services, events.
        batch: Jobs.
        coordination: Leases.
    """

    def __init__(
        self, make: Callable[[], client.ApiClient], namespace: str, bound_s: float, tell: Callable[[str], None]
    ) -> None:
        self.namespace = namespace
        self._make, self._bound_s, self._tell = make, bound_s, tell
        self._client = make()

    @property
    def core(self) -> client.CoreV1Api:
        """Pods, logs, ConfigMaps, Services, events, nodes."""
        return client.CoreV1Api(self._client)

    @property
    def batch(self) -> client.BatchV1Api:
        """Jobs."""
        return client.BatchV1Api(self._client)

    @property
    def coordination(self) -> client.CoordinationV1Api:
        """Leases."""
        return client.CoordinationV1Api(self._client)

    def call(self, what: str, function: Callable[[], Any], stop: threading.Event | None = None) -> Any:
        """The result of a call that is repeated while the server is away or busy.

        Args:
            what: What is asked, for messages.
            function: Makes the call; it must look its API up anew (`lambda: api.core.list_...`), so that a new token is used.
            stop: Ends the waiting.

        Raises:
            ApiException: An answer that repetition does not change (404, 403, 409, 422, ...).
            UnreachableError: No answer within the bound.
            CancelledError: `stop` was set.
        """
        began, told, pause_s = time.monotonic(), time.monotonic(), _FIRST_PAUSE_S
        while True:
            try:
                return function()
            except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
                if isinstance(error, ApiException) and not _passes(error):
                    raise
                now = time.monotonic()
                if now - began > self._bound_s:
                    msg = f"{what}: no answer of the API server for {now - began:.0f} s ({_words(error)})"
                    raise UnreachableError(msg) from error
                if now - told > _TELL_S:
                    told = now
                    self._tell(f"{what}: waiting for the API server since {now - began:.0f} s ({_words(error)})")
                if isinstance(error, ApiException) and error.status == UNAUTHORIZED:
                    self._client = self._make()  # a token has a lifetime; its file or its plugin has the next one
                wait_s = max(pause_s, _retry_after_s(error))
            if (stop or threading.Event()).wait(wait_s):
                raise CancelledError(what)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def json(self, what: str, function: Callable[..., Any], stop: threading.Event | None = None) -> dict[str, Any]:
        """The answer of a call as plain JSON: the client's own models refuse what servers of other versions say.

        Args:
            what: What is asked, for messages.
            function: Makes the call with the options that it is given.
            stop: Ends the waiting.
        """
        answer = self.call(what, lambda: function(_preload_content=False, _request_timeout=_CALL_S), stop)
        value: dict[str, Any] = json.loads(answer.data)
        return value

    def wait_for_change(self, selector: str, resource_version: str, bound_s: float) -> None:
        """Blocks until a pod of a selector changes, or so many seconds pass, or the watch breaks off."""
        seconds = max(1, int(bound_s))
        # A watch that breaks off is no more than a reason to look: the caller lists anew, with its own patience.
        with suppress(ApiException, urllib3.exceptions.HTTPError, OSError):
            answer: Any = self.core.list_namespaced_pod(
                self.namespace,
                label_selector=selector,
                resource_version=resource_version,
                watch=True,
                timeout_seconds=seconds,
                _preload_content=False,
                _request_timeout=seconds + _CALL_S,
            )
            try:
                next(answer.stream(amt=1), None)
            finally:
                answer.close()


def _passes(error: ApiException) -> bool:
    """Whether an answer may be another one later."""
    status = error.status or 0
    return status in (0, TOO_MANY, UNAUTHORIZED) or status >= _SERVER_ERROR


def _retry_after_s(error: BaseException) -> float:
    headers = getattr(error, "headers", None) or {}
    text = headers.get("Retry-After", "")
    return min(float(text), _LONGEST_PAUSE_S) if text.isdigit() else 0.0


def _words(error: BaseException) -> str:
    if isinstance(error, ApiException):
        return f"{error.status} {message_of(error)}"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"


def message_of(error: ApiException) -> str:
    """What the server says of an error, in one line."""
    try:
        text = str(json.loads(error.body or "")["message"])
    except (ValueError, KeyError, TypeError):
        text = str(error.reason or "")
    return " ".join(text.split())
