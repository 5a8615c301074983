"""One request between its connection and the rank that serves it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Token:
    """One token that a rank made.

    Attributes:
        token: Its number.
        logprob: Its log probability.
        finish: Why the request ends with it; None where it goes on.
    """

    token: int
    logprob: float
    finish: str | None


@dataclass(frozen=True)
class Broken:
    """The engine died before the request had ended."""

    reason: str


@dataclass
class Request:
    """One request.

    Attributes:
        number: Its number in this engine.
        tokens: The prompt.
        max_tokens: Tokens to make at most.
        ignore_eos: Whether the end mark ends nothing.
        addressed: Rank that the client asked for.
        arrived_ns: When it had been read, on the monotonic clock.
        rank: Rank that serves it; None while it waits.
        num_made: Tokens made.
        last_ns: When the last token came.
        events: What happens to it, for its connection.
    """

    number: int
    tokens: list[int]
    max_tokens: int
    ignore_eos: bool
    addressed: int | None
    arrived_ns: int
    rank: int | None = None
    num_made: int = 0
    last_ns: int | None = None
    events: asyncio.Queue[Token | Broken] = field(default_factory=asyncio.Queue)
