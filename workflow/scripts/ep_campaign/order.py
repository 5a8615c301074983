"""Who goes first: balanced orders, dealt by the plan's seed.

A Williams design (Williams, Aust. J. Sci. Res. A 2, 1949) is a set of orders in which every treatment stands equally often in
every position and follows every other equally often, so that neither position nor carry-over favours one.
"""

from __future__ import annotations

from functools import cache

from ep_worker.contract.counter import Stream, draw_int, mix_int, stream_key

PUBLISHED_PATTERNS = ((0, 1, 2), (2, 0, 1), (1, 2, 0))
"""Arm orders of the 2026 published campaigns, cycled over starts: three of six orders, so carry-over is not balanced."""


def williams(num_treatments: int) -> tuple[tuple[int, ...], ...]:
    """The set of orders: `num_treatments` of them where that is even, twice as many where it is odd (one for one)."""
    k = num_treatments
    if k == 1:
        return ((0,),)
    zigzag = [0]
    for step in range(1, k):
        zigzag.append((zigzag[-1] + (step if step % 2 else -step)) % k)
    square = [tuple((first + shift) % k for first in zigzag) for shift in range(k)]
    mirror = [tuple(reversed(row)) for row in square] if k % 2 else []
    return tuple(square + mirror)


def shuffled(count: int, seed: int, purpose: int) -> list[int]:
    """A permutation of range(count): Fisher-Yates with counter-based draws."""
    key = stream_key(mix_int(seed) ^ purpose, Stream.PLAN_ORDER)
    items = list(range(count))
    for last in range(count - 1, 0, -1):
        other = draw_int(last, key) % (last + 1)
        items[last], items[other] = items[other], items[last]
    return items


@cache
def deal(num_treatments: int, num_rounds: int, seed: int, purpose: int) -> tuple[tuple[int, ...], ...]:
    """One order for each round: whole Williams sets, each shuffled, so that any stretch of rounds is nearly balanced."""
    orders = williams(num_treatments)
    dealt: list[tuple[int, ...]] = []
    while len(dealt) < num_rounds:
        permutation = shuffled(len(orders), seed, mix_int(purpose * 1_000_003 + len(dealt)))
        dealt.extend(orders[index] for index in permutation)
    return tuple(dealt[:num_rounds])


def published(num_treatments: int, num_rounds: int) -> tuple[tuple[int, ...], ...]:
    """The published rotation of three arms.

    Raises:
        ValueError: Not three arms.
    """
    if num_treatments != 3:
        msg = f"the published order rotates 3 arms, this campaign has {num_treatments}: use order williams"
        raise ValueError(msg)
    return tuple(PUBLISHED_PATTERNS[start % 3] for start in range(num_rounds))


def spread(num_rounds: int, total_rounds: int) -> list[int]:
    """The overall rounds (from 0) in which an EP size with fewer rounds takes part: evenly over the campaign."""
    return [index * total_rounds // num_rounds for index in range(num_rounds)]
