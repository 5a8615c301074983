"""The few calls to a Kubernetes API that a driver makes, through `kubectl proxy`, which holds the credentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from ep_campaign.drivers.calls import Answer, call
from ep_campaign.errors import refuse

JSON_PATCH = "application/json-patch+json"
_OK = (200, 201, 202)
_NOT_FOUND = 404


@dataclass(frozen=True)
class Cluster:
    """A Kubernetes API as `kubectl proxy` serves it.

    Attributes:
        host: Where the proxy listens.
        port: Its port.
        timeout_s: Bound of each call.
    """

    host: str = "127.0.0.1"
    port: int = 8001
    timeout_s: float = 10.0

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """One object or list.

        Raises:
            CampaignError: `cluster_refused`.
            CallError: No answer came.
        """
        answer = self.send("GET", path, query=query)
        value = answer.json()
        if answer.status not in _OK or not isinstance(value, dict):
            raise refuse("cluster_refused", f"status {answer.status}: {answer.text[:300]}", path)
        return value

    def find(self, path: str) -> dict[str, Any] | None:
        """One object; None where there is none."""
        answer = self.send("GET", path)
        if answer.status == _NOT_FOUND:
            return None
        value = answer.json()
        if answer.status not in _OK or not isinstance(value, dict):
            raise refuse("cluster_refused", f"status {answer.status}: {answer.text[:300]}", path)
        return value

    def items(self, path: str, **query: str) -> list[dict[str, Any]]:
        """All objects of a list."""
        found = self.get(path, **query).get("items")
        if not isinstance(found, list):
            raise refuse("cluster_refused", "found an answer without items, expected a list", path)
        return found

    def text(self, path: str, **query: str) -> str | None:
        """A log; None where there is none."""
        answer = self.send("GET", path, query=query)
        return answer.text if answer.status in _OK else None

    def send(
        self, method: str, path: str, body: Any = None, *, kind: str = "application/json", query: Any = None
    ) -> Answer:
        """Sends one call, whatever its answer."""
        whole = f"{path}?{urlencode(query)}" if query else path
        headers = {"content-type": kind}
        return call(self.host, self.port, method, whole, body, timeout_s=self.timeout_s, headers=headers)
