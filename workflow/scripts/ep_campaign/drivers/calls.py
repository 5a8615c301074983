"""One HTTP call at a time, stamped on our monotonic clock; never repeated."""

from __future__ import annotations

import http.client
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

SCALING_TEXT = "currently scaling"


class CallError(Exception):
    """No answer came: refused, cut off, or too late. What was asked may have been done."""


@dataclass(frozen=True)
class Answer:
    """What came back.

    Attributes:
        status: HTTP status.
        body: Bytes of the body.
        sent_ns: When the call began, connection included.
        received_ns: When the last byte was there.
    """

    status: int
    body: bytes
    sent_ns: int
    received_ns: int

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")

    @property
    def is_scaling(self) -> bool:
        """Whether a middleware answers for an engine that scales: it does so on every path."""
        return self.status == http.client.SERVICE_UNAVAILABLE and SCALING_TEXT in self.text

    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def call(
    host: str,
    port: int,
    method: str,
    path: str,
    body: Any = None,
    *,
    timeout_s: float,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Sends one call and reads its whole answer.

    Args:
        host: Name or address.
        port: Port.
        method: GET, POST, PATCH or DELETE.
        path: With its query.
        body: A JSON value; None sends none.
        timeout_s: Bound of each wait for the peer.
        headers: Beside the content type, which is JSON unless they say otherwise.

    Raises:
        CallError: No whole answer came.
    """
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    data = None if body is None else json.dumps(body).encode()
    sent_ns = time.monotonic_ns()
    try:
        connection.request(method, path, data, {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        msg = f"{method} http://{host}:{port}{path}: no answer: {type(error).__name__}: {error}"
        raise CallError(msg) from None
    finally:
        connection.close()
    return Answer(answer.status, content, sent_ns, time.monotonic_ns())
