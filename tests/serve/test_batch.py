"""What a rank computes in a step."""

from __future__ import annotations

from typing import Any

import pytest

from ep_serve.batch import Batch
from ep_serve.settings import EOS_TOKEN, Settings

SETTINGS = Settings(max_num_seqs=3, max_step_tokens=8, max_len=20)


def request(number: int, num_tokens: int, **fields: Any) -> dict[str, Any]:
    """A request as the front sends it."""
    return {"number": number, "tokens": list(range(num_tokens)), "max_tokens": 5, "ignore_eos": False, **fields}


def sizes(batch: Batch) -> list[tuple[int, int, int]]:
    """Request, first position and rows of each segment of the next step."""
    return [(sequence.number, segment.start, len(segment.tokens)) for sequence, segment in batch.plan()]


def step(batch: Batch, token: int = 7) -> list[list[Any]]:
    """One step in which every segment gives the same token."""
    planned = batch.plan()
    return batch.take(planned, [(token, -1.0)] * len(planned))


def test_prompts_are_cut_and_decoding_comes_first() -> None:
    """A step holds at most its bound of rows; what decodes always has a row, prompts share the rest in their order."""
    batch = Batch(SETTINGS)
    batch.admit([request(1, 3), request(2, 9), request(3, 2)])
    assert [(1, 0, 3), (2, 0, 5)] == sizes(batch)
    assert [[1, 7, -1.0, None]] == step(batch)
    assert [(1, 3, 1), (2, 5, 4), (3, 0, 2)] == sizes(batch)
    assert [1, 2, 3] == [told[0] for told in step(batch)]
    assert [(1, 4, 1), (2, 9, 1), (3, 2, 1)] == sizes(batch)


@pytest.mark.parametrize(
    ("fields", "token", "num_made", "reason"),
    [
        ({"max_tokens": 2}, 7, 2, "length"),
        ({"max_tokens": 30}, EOS_TOKEN, 1, "stop"),
        ({"max_tokens": 3, "ignore_eos": True}, EOS_TOKEN, 3, "length"),
        ({"max_tokens": 30}, 7, 17, "length"),
    ],
    ids=["asked for two", "end mark", "end mark ignored", "no room for more"],
)
def test_why_a_sequence_ends(fields: dict[str, Any], token: int, num_made: int, reason: str) -> None:
    """At its number of tokens, at the end mark unless that is ignored, or where the cache is full (20 = 3 + 17)."""
    batch = Batch(SETTINGS)
    batch.admit([request(1, 3, **fields)])
    told = [step(batch, token) for _ in range(num_made)]
    assert [None] * (num_made - 1) + [reason] == [one[0][3] for one in told]
    assert [] == batch.plan()


def test_slots_are_given_again() -> None:
    """A request that ends or is dropped frees its slot; dropping one that has ended does nothing."""
    batch = Batch(SETTINGS)
    batch.admit([request(1, 1, max_tokens=1), request(2, 1), request(3, 1)])
    step(batch)
    batch.drop([1, 2])
    batch.admit([request(4, 1), request(5, 1)])
    slots = [segment.slot for _, segment in batch.plan()]
    assert [2, 0, 1] == slots
