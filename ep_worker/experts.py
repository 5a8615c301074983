"""What stands in for the experts: each flips the signs of its own half of the columns, so that a wrong expert shows.

Legend: T tokens, N received rows, G (row, local expert) pairs, K top-k slots, E experts, L local experts, H hidden columns,
M slots of one local expert.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ep_worker.backends.protocol import Slots
from ep_worker.contract import workload as formulas
from ep_worker.quantise import dequantise

if TYPE_CHECKING:
    from torch import Tensor

    from ep_worker.backends.protocol import Problem
    from ep_worker.roundtrip import Arrived

CHUNK_ROWS = 1024
"""Rows that are worked on at a time, so that float32 intermediates stay small beside the arm's own buffers."""


class Experts:
    """The transforms of all experts of one seed."""

    def __init__(self, problem: Problem, seed: int) -> None:
        expert_E = torch.arange(problem.shape.experts, dtype=torch.int64, device=problem.device)
        with problem.device:
            self._sign_EH: Tensor = formulas.expert_signs(torch, expert_E, problem.shape.hidden, seed)
        first = problem.rank * problem.experts_per_rank
        self._sign_LH = self._sign_EH[first : first + problem.experts_per_rank]

    def outputs(self, arrived: Arrived) -> Tensor:
        """What combine is given, BF16: of each pair or slot where experts stand apart, else each row's weighted sum."""
        rows, groups = arrived.rows, arrived.groups
        if isinstance(rows, Slots):
            return self._slot_outputs(rows)
        if groups is None:
            y_NH = torch.zeros(rows.payload_NH.shape, dtype=torch.bfloat16, device=rows.payload_NH.device)
            for chunk in chunks(y_NH.shape[0]):
                expert_CK = rows.expert_NK[chunk]
                gain_CH = _gains(expert_CK, rows.weight_NK[chunk], self._sign_LH)
                x_CH = values(rows.payload_NH[chunk], None if rows.scale_NB is None else rows.scale_NB[chunk])
                used_C1 = (expert_CK >= 0).any(1, keepdim=True)
                y_NH[chunk] = torch.where(used_C1, gain_CH * x_CH, 0.0).bfloat16()
            return y_NH
        y_GH = torch.empty(groups.payload_GH.shape, dtype=torch.bfloat16, device=groups.payload_GH.device)
        expert_G = experts_of_groups(groups.end_L, y_GH.shape[0])
        for chunk in chunks(y_GH.shape[0]):
            x_CH = values(groups.payload_GH[chunk], None if groups.scale_GB is None else groups.scale_GB[chunk])
            y_GH[chunk] = (self._sign_LH[expert_G[chunk]] * x_CH).bfloat16()
        return y_GH

    def _slot_outputs(self, slots: Slots) -> Tensor:
        """Of each valid slot, unweighted; zeros elsewhere."""
        y_LMH = torch.zeros(slots.payload_LMH.shape, dtype=torch.bfloat16, device=slots.payload_LMH.device)
        for local, num_rows in enumerate(slots.count_L.tolist()):
            scale_LMB = slots.scale_LMB
            x_MH = values(
                slots.payload_LMH[local, :num_rows], None if scale_LMB is None else scale_LMB[local, :num_rows]
            )
            y_LMH[local, :num_rows] = (self._sign_LH[local] * x_MH).bfloat16()
        return y_LMH

    def reference(self, expert_TK: Tensor, weight_TK: Tensor, x_TH: Tensor) -> Tensor:
        """What combined tokens must come to, float32 [T, H]; `x_TH` is what dispatch carries, as float32."""
        out_TH = torch.empty_like(x_TH)
        for chunk in chunks(x_TH.shape[0]):
            out_TH[chunk] = _gains(expert_TK[chunk], weight_TK[chunk], self._sign_EH) * x_TH[chunk]
        return out_TH


def _gains(expert_NK: Tensor, weight_NK: Tensor, sign_EH: Tensor) -> Tensor:
    """Sum of weight times sign over a row's slots, float32 [N, H]; ids of -1 count nothing."""
    num_rows, num_experts = expert_NK.shape[0], sign_EH.shape[0]
    column_NK = expert_NK.clamp(-1, num_experts - 1).long() + 1
    weight_NE = torch.zeros((num_rows, num_experts + 1), dtype=torch.float32, device=sign_EH.device)
    weight_NE.scatter_add_(1, column_NK, weight_NK.float())
    return weight_NE[:, 1:] @ sign_EH


def values(payload_NH: Tensor, scale_NB: Tensor | None) -> Tensor:
    """The float32 values that rows carry."""
    return payload_NH.float() if scale_NB is None else dequantise(payload_NH, scale_NB)


def experts_of_groups(end_L: Tensor, num_rows: int) -> Tensor:
    """Local expert of each grouped row; the last one's for rows that no group holds."""
    row_G = torch.arange(num_rows, dtype=end_L.dtype, device=end_L.device)
    return torch.searchsorted(end_L, row_G, right=True).clamp(max=end_L.shape[0] - 1)


def chunks(num_rows: int) -> list[slice]:
    """Slices of at most `CHUNK_ROWS` rows."""
    return [slice(start, min(start + CHUNK_ROWS, num_rows)) for start in range(0, num_rows, CHUNK_ROWS)]
