"""Which rank holds which expert, and the fewest moves from one width to another.

Every layer is placed alike. A rank that stays gives experts away only where it holds more than its new share, and no
expert moves between two ranks that both stay unless one of them has too few.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """One expert (of every layer) that changes its rank."""

    expert: int
    source: int
    target: int


def first_placement(num_experts: int, width: int) -> tuple[int, ...]:
    """Rank of each expert [E] for a fresh engine: contiguous, shares that differ by one at most."""
    return tuple(expert * width // num_experts for expert in range(num_experts))


def shares(num_experts: int, width: int) -> tuple[int, int]:
    """Smallest and largest number of experts that a rank may hold."""
    return num_experts // width, -(-num_experts // width)


def next_placement(owner_E: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Rank of each expert [E] at another width, balanced, with as few moves as balance allows."""
    low, high = shares(len(owner_E), width)
    num_large = len(owner_E) - low * width
    held = {rank: [e for e, owner in enumerate(owner_E) if owner == rank] for rank in range(width)}
    # The larger share goes to those that hold most: what stays is never moved for the sake of a tie.
    by_load = sorted(range(width), key=lambda rank: (-len(held[rank]), rank))
    quota = {rank: high if place < num_large else low for place, rank in enumerate(by_load)}
    loose = [expert for expert, owner in enumerate(owner_E) if owner >= width]
    for rank in range(width):
        loose.extend(held[rank][quota[rank] :])
        held[rank] = held[rank][: quota[rank]]
    result = list(owner_E)
    for expert in sorted(loose):
        target = max(range(width), key=lambda rank: (quota[rank] - len(held[rank]), -rank))
        held[target].append(expert)
        result[expert] = target
    return tuple(result)


def moves(old_E: tuple[int, ...], new_E: tuple[int, ...]) -> tuple[Move, ...]:
    """What must travel, in the order of the experts."""
    pairs = enumerate(zip(old_E, new_E, strict=True))
    return tuple(Move(expert, old, new) for expert, (old, new) in pairs if old != new)
