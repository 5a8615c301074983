"""The sequences that one rank serves, and what of them the next step computes.

Every sequence that decodes takes one row; prompts share what is left of the step, in the order in which they came, cut into
chunks where they do not fit. So a long prompt delays the others by a step's bound and not by its length.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ep_serve.settings import EOS_TOKEN, Settings


@dataclass
class Sequence:
    """One request on its rank.

    Attributes:
        number: The front's number for it.
        slot: Its place in the rank's cache.
        tokens: What is not computed yet: the prompt, later the last token.
        max_tokens: Tokens to make at most.
        ignore_eos: Whether the end mark ends nothing.
        position: Tokens in the cache.
        num_made: Tokens made.
    """

    number: int
    slot: int
    tokens: list[int]
    max_tokens: int
    ignore_eos: bool
    position: int = 0
    num_made: int = 0


@dataclass(frozen=True)
class Segment:
    """Consecutive rows of one sequence in a step.

    Attributes:
        slot: Place in the cache.
        start: Position of the first row in its sequence.
        tokens: The rows' tokens.
    """

    slot: int
    start: int
    tokens: list[int]


class Batch:
    """All sequences of a rank."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sequences: dict[int, Sequence] = {}
        self._free = list(range(settings.max_num_seqs))

    def admit(self, requests: list[dict[str, Any]]) -> None:
        """Gives new requests a slot each; the front sends no more than there are."""
        for request in requests:
            slot = self._free.pop(0)
            self._sequences[request["number"]] = Sequence(
                request["number"], slot, list(request["tokens"]), request["max_tokens"], request["ignore_eos"]
            )

    def drop(self, numbers: list[int]) -> None:
        """Forgets requests that nobody waits for."""
        for number in numbers:
            self._end(number)

    def plan(self) -> list[tuple[Sequence, Segment]]:
        """What the next step computes."""
        left = self._settings.max_step_tokens
        chosen = [one for one in self._sequences.values() if one.position and len(one.tokens) == 1]
        left -= len(chosen)
        for sequence in self._sequences.values():
            if sequence.position == 0 or len(sequence.tokens) > 1:
                if left == 0:
                    break
                chosen.append(sequence)
                left -= min(left, len(sequence.tokens))
        return self._cut(chosen)

    def take(self, planned: list[tuple[Sequence, Segment]], made: list[tuple[int, float]]) -> list[list[Any]]:
        """Notes what a step made.

        Args:
            planned: What it computed.
            made: Next token and its log probability after the last row of each segment.

        Returns:
            For each token that a request gets: number, token, log probability, why it ends (or None).
        """
        told = []
        for (sequence, segment), (token, logprob) in zip(planned, made, strict=True):
            sequence.position += len(segment.tokens)
            del sequence.tokens[: len(segment.tokens)]
            if sequence.tokens:
                continue  # more of the prompt is to come
            sequence.tokens = [token]
            sequence.num_made += 1
            reason = self._reason(sequence, token)
            told.append([sequence.number, token, logprob, reason])
            if reason is not None:
                self._end(sequence.number)
        return told

    def _cut(self, chosen: list[Sequence]) -> list[tuple[Sequence, Segment]]:
        left = self._settings.max_step_tokens
        planned = []
        for sequence in chosen:
            tokens = sequence.tokens[:left]
            left -= len(tokens)
            planned.append((sequence, Segment(sequence.slot, sequence.position, tokens)))
        return planned

    def _reason(self, sequence: Sequence, token: int) -> str | None:
        if token == EOS_TOKEN and not sequence.ignore_eos:
            return "stop"
        full = sequence.position + 1 >= self._settings.max_len
        return "length" if full or sequence.num_made >= sequence.max_tokens else None

    def _end(self, number: int) -> None:
        sequence = self._sequences.pop(number, None)
        if sequence is not None:
            self._free.append(sequence.slot)
