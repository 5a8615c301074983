"""A group in waiting: met and filled with weights beside the one that serves, and taken into use between two steps.

Two groups meet: one of all ranks, old and new, through which weights travel, and the one that will serve.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_serve.group import Group, join
from ep_serve.placement import Move, moves
from ep_serve.settings import Settings, Transport
from ep_serve.weights import Dense, Expert, empty_dense, empty_expert

if TYPE_CHECKING:
    from ep_serve.evidence import Evidence

_FLOAT_BYTES = 4


@dataclass(frozen=True)
class Change:
    """One resize as every rank hears of it.

    Attributes:
        generation: Number of the group to come.
        meeting: Where its ranks meet.
        old_width: Ranks that serve.
        new_width: Ranks that will.
        old_owner: Rank of each expert now.
        new_owner: Rank of each expert then.
    """

    generation: int
    meeting: str
    old_width: int
    new_width: int
    old_owner: tuple[int, ...]
    new_owner: tuple[int, ...]

    @classmethod
    def of(cls, message: dict[str, Any]) -> Change:
        """From the front's message."""
        return cls(
            message["generation"],
            message["meeting"],
            message["old_width"],
            message["new_width"],
            tuple(message["old_owner"]),
            tuple(message["new_owner"]),
        )

    @property
    def moves(self) -> tuple[Move, ...]:
        """Experts that travel."""
        return moves(self.old_owner, self.new_owner)


@dataclass
class Standby:
    """What a rank holds ready.

    Attributes:
        change: What it is for.
        group: The ranks that will serve; None where this rank will not be one.
        dense: Dense weights that came; None where the rank had them.
        experts: Experts that came.
        told: What the front is told of it.
    """

    change: Change
    group: Group | None
    dense: Dense | None
    experts: dict[tuple[int, int], Expert]
    told: dict[str, Any]


def capacity(settings: Settings) -> int:
    """Bytes that one rank sends another at most in one exchange: every row of a step, with its expert's number."""
    return settings.max_step_tokens * settings.shape.top_k * (settings.shape.hidden + 1) * _FLOAT_BYTES


def meet(settings: Settings, meeting: str, rank: int, width: int) -> Group:
    """This rank's end of a group."""
    return join(
        Transport(settings.transport), meeting, rank, width, capacity=capacity(settings), timeout_s=settings.timeout_s
    )


def prepare(
    settings: Settings,
    rank: int,
    change: Change,
    dense: Dense | None,
    experts: dict[tuple[int, int], Expert],
    evidence: Evidence,
) -> Standby:
    """Meets both groups and moves weights.

    Args:
        settings: The engine's.
        rank: This rank, the same in both groups.
        change: What is to come.
        dense: Dense weights; None on a rank that is new.
        experts: Experts that lie here now.
        evidence: Notes what the group to come runs over.
    """
    began = time.monotonic_ns()
    before = evidence.look()
    group = None
    if rank < change.new_width:
        group = meet(settings, f"{change.meeting}.serve", rank, change.new_width)
    seen = evidence.log(change.generation, before)
    carrier = meet(settings, f"{change.meeting}.weights", rank, max(change.old_width, change.new_width))
    met = time.monotonic_ns()
    came, num_bytes = _move_experts(settings, rank, change, experts, carrier)
    received = _move_dense(settings, rank, change, dense, carrier)
    carrier.close()
    told = {
        "op": "ready",
        "generation": change.generation,
        "meet_s": (met - began) / 1e9,
        "move_s": (time.monotonic_ns() - met) / 1e9,
        "sent_bytes": num_bytes,
        "num_received": len(came),
        "transport_seen": seen,
    }
    return Standby(change, group, received, came, told)


def _move_experts(
    settings: Settings, rank: int, change: Change, experts: dict[tuple[int, int], Expert], carrier: Group
) -> tuple[dict[tuple[int, int], Expert], int]:
    """Sends and receives in one order on all ranks, so that no two ever wait for one another."""
    came: dict[tuple[int, int], Expert] = {}
    num_bytes = 0
    for move in change.moves:
        for layer in range(settings.shape.num_layers):
            key = (layer, move.expert)
            if move.source == rank:
                for part in experts[key]:
                    carrier.send(part, move.target)
                    num_bytes += part.numel() * _FLOAT_BYTES
            elif move.target == rank:
                came[key] = empty_expert(settings.shape)
                for part in came[key]:
                    carrier.receive(part, move.source)
    return came, num_bytes


def _move_dense(settings: Settings, rank: int, change: Change, dense: Dense | None, carrier: Group) -> Dense | None:
    """Rank 0 gives the dense weights to every rank that is new."""
    new_ranks = range(change.old_width, change.new_width)
    if rank == 0:
        assert dense is not None
        for target in new_ranks:
            for tensor in dense.tensors():
                carrier.send(tensor, target)
    elif rank in new_ranks:
        received = empty_dense(settings)
        for tensor in received.tensors():
            carrier.receive(tensor, 0)
        return received
    return None
