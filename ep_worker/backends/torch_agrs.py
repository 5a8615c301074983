"""All-gather and reduce-scatter over torch.distributed: every rank gets every token, and each sums what comes back to it.

Legend: T tokens of this rank, P rows that each rank sends (tokens, then padding), R ranks, N = R P rows that each rank
holds, H hidden columns, K top-k slots.

Ranks send as many rows as the fullest of them has tokens, which a serving system knows beforehand; the rest are padding
whose slots are all masked. Nothing waits for the host. The sums are BF16: that is what NCCL's reduce-scatter adds in.

gloo's reduce-scatter moves what an all-reduce moves: 708 us where the exchange that it needs takes 228 (R = 2, T = 256,
H = 1024, 2 cores). There the arm makes the exchange and adds up itself, in float32 with one rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ep_worker.backends.protocol import Problem, Rows
from ep_worker.backends.torch_build import torch_provenance
from ep_worker.backends.wire import PackedRows, count_selections, local_ids, refuse_knobs, target_ranks
from ep_worker.bag import sum_bags
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
        self._exchanged_NH: Tensor | None = None
        if problem.device.type == "cpu":
            self._exchanged_NH = self._out_PH.new_zeros((problem.num_ranks * num_rows, problem.shape.hidden))
            self._bag_N = torch.arange(problem.num_ranks * num_rows).view(problem.num_ranks, num_rows).t().reshape(-1)
            self._bag_start_P = torch.arange(num_rows) * problem.num_ranks
        self._local_ids = local_ids(problem)

    def layout(self) -> int | None:
        """Number of (row, expert) pairs of this rank, which a grouped input must know; on a CPU it is counted when it is needed.

        On a GPU counting would make the host wait, and a graph impossible: there it is a layout that is made once.
        """
        if self._problem.device.type == "cpu":
            return None
        sent_R = count_selections(target_ranks(self._problem), self._problem.num_ranks)
        received_R = torch.empty_like(sent_R)
        all_to_all_single(received_R, sent_R)
        return int(received_R.sum().item())

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: int | None) -> Rows:
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

    def combine(self, y_NH: Tensor, handle: int | None) -> Tensor:
        """Adds the ranks' partial sums up; the result is valid until the next combine."""
        num_tokens = self._problem.num_tokens
        if self._exchanged_NH is None:
            reduce_scatter_single(self._out_PH, y_NH)
            return self._out_PH[:num_tokens]
        all_to_all_single(self._exchanged_NH, y_NH)
        return sum_bags(self._exchanged_NH, self._bag_N, self._bag_start_P)[:num_tokens]

    def resolved(self) -> dict[str, Any]:
        """Bytes of its buffers, and how it adds up."""
        out = self._out_PH.numel() * self._out_PH.element_size()
        exchanged = 0 if self._exchanged_NH is None else self._exchanged_NH.numel() * self._exchanged_NH.element_size()
        return {
            "buffer_bytes": self._send.num_bytes + self._receive.num_bytes + out + exchanged,
            "reduce_scatter": "native" if self._exchanged_NH is None else "exchange_and_sum",
        }

    @staticmethod
    def provenance() -> dict[str, Any]:
        """The build of torch."""
        return torch_provenance()

    def close(self) -> None:
        """Frees the buffers."""
        del self._send, self._receive, self._out_PH
