"""All-gather and reduce-scatter over torch.distributed: every rank gets every token, and each sums what comes back to it.

Legend: T tokens of this rank, P rows that each rank sends (tokens, then padding), R ranks, N = R P rows that each rank
holds, H hidden columns, K top-k slots.

Ranks send as many rows as the fullest of them has tokens, which a serving system knows beforehand; the rest are padding
whose slots are all masked. Nothing waits for the host. The sums are BF16: that is what the reduce-scatter adds in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ep_worker.backends.protocol import Problem, Rows
from ep_worker.backends.torch_build import torch_provenance
from ep_worker.backends.wire import PackedRows, count_selections, local_ids, refuse_knobs, target_ranks
from ep_worker.collectives import all_gather_single, all_to_all_single, reduce_scatter_single

if TYPE_CHECKING:
    from torch import Tensor


class TorchAgrs:
    """`all_gather` of packed rows, `reduce_scatter` of partial sums."""

    deterministic = True

    def __init__(self, problem: Problem) -> None:
        refuse_knobs(problem)
        self._problem = problem
        num_rows = problem.shape.tokens_per_rank
        self._send = PackedRows(problem, num_rows)
        self._send.expert_NK.fill_(-1)
        self._receive = PackedRows(problem, num_rows * problem.num_ranks)
        self._out_PH = torch.zeros((num_rows, problem.shape.hidden), dtype=torch.bfloat16, device=problem.device)
        self._local_ids = local_ids(problem)

    def layout(self) -> int:
        """Number of (row, expert) pairs of this rank: the one size that a grouped input must know beforehand."""
        sent_R = count_selections(target_ranks(self._problem), self._problem.num_ranks)
        received_R = torch.empty_like(sent_R)
        all_to_all_single(received_R, sent_R)
        return int(received_R.sum().item())

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: int) -> Rows:
        """Packs this rank's tokens once and gathers everybody's."""
        problem, send, receive = self._problem, self._send, self._receive
        num_tokens = problem.num_tokens
        send.words_NW[:num_tokens].copy_(payload_TH.view(torch.int64))
        if scale_TB is not None and send.scale_NB is not None:
            send.scale_NB[:num_tokens].copy_(scale_TB)
        send.expert_NK[:num_tokens].copy_(problem.expert_TK)
        send.weight_NK[:num_tokens].copy_(problem.weight_TK)
        all_gather_single(receive.rows_N, send.rows_N)
        local_NK = self._local_ids[receive.expert_NK]
        return Rows(receive.payload_NH, receive.scale_NB, local_NK, receive.weight_NK, handle, handle)

    def combine(self, y_NH: Tensor, handle: int) -> Tensor:
        """Adds the ranks' partial sums up; the result is valid until the next combine."""
        reduce_scatter_single(self._out_PH, y_NH)
        return self._out_PH[: self._problem.num_tokens]

    def resolved(self) -> dict[str, Any]:
        """Bytes of its buffers."""
        out = self._out_PH.numel() * self._out_PH.element_size()
        return {"buffer_bytes": self._send.num_bytes + self._receive.num_bytes + out}

    @staticmethod
    def provenance() -> dict[str, Any]:
        """The build of torch."""
        return torch_provenance()

    def close(self) -> None:
        """Frees the buffers."""
        del self._send, self._receive, self._out_PH
