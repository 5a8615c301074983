"""A group in waiting: met, filled with weights and rehearsed beside the one that serves, and taken into use between two steps.

Two groups meet: one of all ranks, old and new, through which weights travel, and the one that will serve. The latter makes a
few steps before it is used, so that no request waits for connections, memory and code that are touched for the first time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ep_serve.batch import Segment
from ep_serve.group import Group, join
from ep_serve.model import Model
from ep_serve.placement import Move, moves
from ep_serve.settings import Settings, Transport
from ep_serve.weights import Dense, Expert, empty_dense, empty_expert

if TYPE_CHECKING:
    from ep_serve.evidence import Evidence

_FLOAT_BYTES = 4
_REHEARSED_ROWS = 4


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
        model: The rehearsed model of a rank that is new; None on the others, which keep their own.
        group: The ranks that will serve; None where this rank will not be one.
        experts: Experts that came.
        told: What the front is told of it.
    """

    change: Change
    model: Model | None
    group: Group | None
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
    moved = time.monotonic_ns()
    model = None
    if group is not None:
        held = {**experts, **came}
        if received is not None:
            model = Model(settings, received, held, change.new_owner, group)
            rehearse(model)
        else:
            assert dense is not None
            rehearse(Model(_scratch(settings), dense, held, change.new_owner, group))
    told = {
        "op": "ready",
        "generation": change.generation,
        "meet_s": (met - began) / 1e9,
        "move_s": (moved - met) / 1e9,
        "rehearse_s": (time.monotonic_ns() - moved) / 1e9,
        "sent_bytes": num_bytes,
        "num_received": len(came),
        "transport_seen": seen,
    }
    return Standby(change, model, group, came, told)


def rehearse(model: Model) -> None:
    """Makes steps of each kind that serving makes, on all ranks of the group together; what they leave is written over."""
    tokens = list(range(_REHEARSED_ROWS))
    for segment in (Segment(0, 0, tokens), Segment(0, _REHEARSED_ROWS, [0]), Segment(0, _REHEARSED_ROWS, [1])):
        model.step([segment])


def _scratch(settings: Settings) -> Settings:
    """For a rehearsal beside serving: as little memory as it needs."""
    return replace(settings, max_num_seqs=1, max_len=_REHEARSED_ROWS + 1)


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
