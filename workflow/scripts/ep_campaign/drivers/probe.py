"""What an engine's own endpoint says of its width: how many ranks it takes requests for, and whether each answers one.

The bound comes from the refusal of rank -1, which names it; this is how the GPUStack operator proves a width, too.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ep_campaign.drivers.calls import Answer, CallError, call

if TYPE_CHECKING:
    from ep_campaign.drivers.driver import Endpoint

RANK_HEADER = "X-data-parallel-rank"
_BOUND = re.compile(r"data_parallel_rank -1 is out of range \[0, (\d+)\)")
_OK = 200


@dataclass(frozen=True)
class Probe:
    """One probe.

    Attributes:
        began_ns: When it began, on our monotonic clock.
        ended_ns: When it ended.
        bound_before: Ranks that the engine takes requests for; None where it did not say.
        statuses: HTTP status of a one-token completion on each rank from 0 to `bound_before` - 1; 0 where none came.
        bound_after: The bound once more, after the completions.
        is_scaling: What the engine says of itself; None where it did not say.
        calls: HTTP status of every completion call that was answered: what the probe adds to the server's own log.
        unreadable: Answers that are not what the interface is known to say.
    """

    began_ns: int
    ended_ns: int
    bound_before: int | None
    statuses: tuple[int, ...]
    bound_after: int | None
    is_scaling: bool | None
    calls: tuple[int, ...]
    unreadable: tuple[str, ...] = ()

    def proves(self, width: int) -> bool:
        """Whether it proves that a width computes: the bound before and after, and a completion on each rank."""
        return self.bound_before == self.bound_after == width and self.statuses == (_OK,) * width


def probe(endpoint: Endpoint, timeout_s: float) -> Probe:
    """Probes an engine; it costs one token on each rank.

    Args:
        endpoint: The engine's.
        timeout_s: Bound of each call.
    """
    began_ns = time.monotonic_ns()
    unreadable: list[str] = []
    asked, before = _bound(endpoint, timeout_s, unreadable)
    statuses = tuple(_complete(endpoint, rank, timeout_s) for rank in range(before or 0))
    asked_again, after = _bound(endpoint, timeout_s, unreadable)
    scaling = is_scaling(endpoint, timeout_s, unreadable)
    calls = tuple(status for status in (asked, *statuses, asked_again) if status)
    return Probe(began_ns, time.monotonic_ns(), before, statuses, after, scaling, calls, tuple(unreadable))


def is_scaling(endpoint: Endpoint, timeout_s: float, unreadable: list[str]) -> bool | None:
    """What the engine says of itself; `unreadable` gets an answer that is none.

    While an engine answers 503 on every path, that answer is the word `yes`: the path itself cannot be reached then.
    """
    try:
        answer = call(endpoint.host, endpoint.port, "POST", "/is_scaling_elastic_ep", timeout_s=timeout_s)
    except CallError:
        return None
    if answer.is_scaling:
        return True
    value = answer.json()
    flag = value.get("is_scaling_elastic_ep") if isinstance(value, dict) else None
    if answer.status != _OK or not isinstance(flag, bool):
        unreadable.append(f"POST /is_scaling_elastic_ep: status {answer.status}, {answer.text[:200]!r}")
        return None
    return flag


def serves(endpoint: Endpoint, timeout_s: float) -> str | None:
    """Why an ordinary and a streamed request do not both succeed; None where they do."""
    try:
        plain = _post(endpoint, {"max_tokens": 1}, timeout_s)
        stream = _post(
            endpoint, {"max_tokens": 2, "stream": True, "stream_options": {"include_usage": True}}, timeout_s
        )
    except CallError as error:
        return str(error)
    value = plain.json()
    if plain.status != _OK or not isinstance(value, dict) or "usage" not in value:
        return f"an ordinary request was answered with status {plain.status}, {plain.text[:200]!r}"
    if stream.status != _OK or '"usage"' not in stream.text or "data: [DONE]" not in stream.text:
        return f"a streamed request was answered with status {stream.status}, ending in {stream.text[-200:]!r}"
    return None


def _post(endpoint: Endpoint, body: dict[str, object], timeout_s: float, rank: int | None = None) -> Answer:
    headers = {} if rank is None else {RANK_HEADER: str(rank)}
    whole = {"model": endpoint.model, "prompt": "width", "temperature": 0, **body}
    return call(endpoint.host, endpoint.port, "POST", "/v1/completions", whole, timeout_s=timeout_s, headers=headers)


def _bound(endpoint: Endpoint, timeout_s: float, unreadable: list[str]) -> tuple[int, int | None]:
    """Status of the answer (0: none) and the bound that it names."""
    try:
        answer = _post(endpoint, {"max_tokens": 1}, timeout_s, -1)
    except CallError:
        return 0, None
    if answer.is_scaling:
        return answer.status, None
    found = _BOUND.search(answer.text)
    if found is None:
        unreadable.append(f"POST /v1/completions for rank -1: status {answer.status}, {answer.text[:200]!r}")
        return answer.status, None
    return answer.status, int(found[1])


def _complete(endpoint: Endpoint, rank: int, timeout_s: float) -> int:
    try:
        return _post(endpoint, {"max_tokens": 1}, timeout_s, rank).status
    except CallError:
        return 0
