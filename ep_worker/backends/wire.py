"""How a token travels: one packed row of payload, scales, expert ids and weights, so that a dispatch is one collective.

Legend: N rows, T tokens of this rank, H hidden columns, B = H / 128 scale blocks, K top-k slots, R ranks, E experts.

One collective and not one for each field: with gloo over loopback on 2 cores, H = 1024, an all-to-all of packed rows takes
101 us against 193 us for two (R = 2, T = 32), 222 against 317 us (T = 256), 444 against 827 us (R = 4, T = 32); an
all-gather 139 against 288 us (R = 2, T = 32). Every collective costs a fixed part, and the fields beside the payload are
a few per cent of the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ep_worker.contract.accounting import FP8_BLOCK
from ep_worker.contract.terms import Dtype
from ep_worker.quantise import FP8

if TYPE_CHECKING:
    from torch import Tensor

    from ep_worker.backends.protocol import Problem

_ROW_ALIGNMENT_BYTES = 16  # the widest load of a GPU
_WORD_BYTES = 8


class PackedRows:
    """A buffer of packed rows and a view of it for each field; every view is strided by the whole row.

    Attributes:
        rows_N: The rows, uint8.
        words_NW: Payload as 64-bit words: what copies move.
        payload_NH: Payload in its own dtype.
        scale_NB: Scales of FP8 rows; None in BF16.
        gate_NK2: Expert ids and weights side by side as int32 [N, 2 K], to be moved as one.
        expert_NK: Global expert ids, int32.
        weight_NK: Gate weights, float32.
    """

    def __init__(self, problem: Problem, num_rows: int) -> None:
        hidden, top_k = problem.shape.hidden, problem.shape.top_k
        fp8 = problem.dtype is Dtype.FP8
        payload_bytes = hidden if fp8 else 2 * hidden
        num_blocks = hidden // FP8_BLOCK if fp8 else 0
        used = payload_bytes + 4 * (num_blocks + 2 * top_k)
        row_bytes = -(-used // _ROW_ALIGNMENT_BYTES) * _ROW_ALIGNMENT_BYTES
        self.rows_N = torch.zeros((num_rows, row_bytes), dtype=torch.uint8, device=problem.device)
        ints, floats = self.rows_N.view(torch.int32), self.rows_N.view(torch.float32)
        gate = payload_bytes // 4 + num_blocks
        self.words_NW = self.rows_N.view(torch.int64)[:, : payload_bytes // _WORD_BYTES]
        self.payload_NH = self.rows_N.view(FP8 if fp8 else torch.bfloat16)[:, :hidden]
        self.scale_NB = floats[:, payload_bytes // 4 : gate] if fp8 else None
        self.gate_NK2 = ints[:, gate : gate + 2 * top_k]
        self.expert_NK = ints[:, gate : gate + top_k]
        self.weight_NK = floats[:, gate + top_k : gate + 2 * top_k]

    @property
    def num_bytes(self) -> int:
        """Bytes of the buffer."""
        return self.rows_N.numel()


def refuse_knobs(problem: Problem) -> None:
    """Refuses knobs that an arm does not have: one that is asked for and ignored would name the arm wrongly.

    Raises:
        ValueError: The campaign asks for some.
    """
    if problem.knobs:
        msg = f"this arm has no knobs, the campaign asks for {', '.join(sorted(problem.knobs))}: take them out"
        raise ValueError(msg)


def local_ids(problem: Problem) -> Tensor:
    """Table int32 [E + 1] from a global expert id to this rank's own, -1 for experts elsewhere.

    Its last entry is -1 too, so that the id -1 of a masked slot, an index from the end, finds that it goes nowhere.
    """
    table = torch.full((problem.shape.experts + 1,), -1, dtype=torch.int32, device=problem.device)
    local = torch.arange(problem.experts_per_rank, dtype=torch.int32, device=problem.device)
    table[problem.rank * problem.experts_per_rank :][: problem.experts_per_rank] = local
    return table


def target_ranks(problem: Problem) -> Tensor:
    """Rank of each slot's expert plus one, int64 [T, K]; 0 where the slot is masked."""
    return problem.expert_TK.div(problem.experts_per_rank, rounding_mode="floor") + 1


def count_selections(target_TK: Tensor, num_ranks: int) -> Tensor:
    """Slots that go to each rank, int64 [R], of targets as `target_ranks` gives them; without a wait for the host."""
    flat = target_TK.reshape(-1)
    return flat.new_zeros(num_ranks + 1).scatter_add_(0, flat, torch.ones_like(flat))[1:]
