"""The scale call of an engine: it answers when the resize is over, so it is made aside, once, and looked at later."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from ep_campaign.drivers.calls import Answer, CallError, call
from ep_campaign.drivers.driver import Resize, ResizeState
from ep_campaign.errors import refuse

if TYPE_CHECKING:
    from ep_campaign.drivers.driver import Endpoint

_STATES = {
    200: ResizeState.ACCEPTED,
    400: ResizeState.REFUSED,
    408: ResizeState.FAILED,
    409: ResizeState.REFUSED,
    500: ResizeState.FAILED,
    503: ResizeState.REFUSED,
}
"""A drain that ran out is 408; 503 means that a resize is under way already."""


class ScaleCall:
    """At most one scale call at a time."""

    def __init__(self, timeout_s: float) -> None:
        """Makes none yet.

        Args:
            timeout_s: How long its answer is waited for.
        """
        self._timeout_s = timeout_s
        self._now: Resize | None = None

    @property
    def now(self) -> Resize | None:
        """The last call as it stands."""
        return self._now

    def send(self, endpoint: Endpoint, old_width: int, new_width: int) -> None:
        """Sends one.

        Raises:
            CampaignError: `resize_unresolved`: another has no answer, or one that says nothing.
        """
        now = self._now
        if now is not None and now.state in (ResizeState.PENDING, ResizeState.AMBIGUOUS):
            message = f"the request for width {now.new_width} is {now.state}: it is not sent again, and no other is"
            raise refuse("resize_unresolved", message, f"{endpoint.host}:{endpoint.port}")
        self._now = Resize(old_width, new_width, time.monotonic_ns())
        threading.Thread(target=self._run, args=(endpoint, self._now), daemon=True).start()

    def _run(self, endpoint: Endpoint, asked: Resize) -> None:
        body = {"new_data_parallel_size": asked.new_width}
        try:
            answer = call(endpoint.host, endpoint.port, "POST", "/scale_elastic_ep", body, timeout_s=self._timeout_s)
        except CallError as error:
            self._now = replace(asked, answered_ns=time.monotonic_ns(), state=ResizeState.AMBIGUOUS, message=str(error))
            return
        self._now = _answered(asked, answer)


def _answered(asked: Resize, answer: Answer) -> Resize:
    return replace(
        asked,
        answered_ns=answer.received_ns,
        state=_STATES.get(answer.status, ResizeState.AMBIGUOUS),
        status=answer.status,
        message=answer.text,
    )
