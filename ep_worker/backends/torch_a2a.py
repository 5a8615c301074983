"""All-to-all over torch.distributed: a token goes once to each rank that holds one of its experts.

Legend: T tokens of this rank, S rows that it sends, N rows that it receives, R ranks, H hidden columns, K top-k slots,
W 64-bit words of a payload.

It serves two arms. `torch-a2a` makes its layout in every round-trip: it counts, exchanges the counts by a collective and
waits for them on the host. `torch-a2a-cached` makes it once for a cell and never waits for the host, so that a graph can
capture it. Which of the two happens is the capability table's word; the code is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ep_worker.backends.protocol import Problem, Rows
from ep_worker.backends.torch_build import torch_provenance
from ep_worker.backends.wire import PackedRows, count_selections, local_ids, refuse_knobs, target_ranks
from ep_worker.bag import sum_bags
from ep_worker.collectives import all_to_all_single

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Layout:
    """What goes where.

    Attributes:
        send_rows: Rows to each rank.
        receive_rows: Rows from each rank.
        num_sent: Their sums.
        num_received: As above.
        num_selections: (row, expert) pairs that arrive here.
        source_S: Token of each sent row; rows are ordered by rank, then token.
        bag_S: Sent rows in the order of their tokens.
        bag_start_T: Where each token's rows begin in it.
    """

    send_rows: list[int]
    receive_rows: list[int]
    num_sent: int
    num_received: int
    num_selections: int
    source_S: Tensor
    bag_S: Tensor
    bag_start_T: Tensor


class TorchA2a:
    """Rank-deduplicated rows through `all_to_all_single`, sums in float32 with one rounding."""

    deterministic = True
    ends_device = False

    def __init__(self, problem: Problem) -> None:
        refuse_knobs(problem)
        self._problem = problem
        shape, num_ranks = problem.shape, problem.num_ranks
        most_sent = shape.max_tokens_per_rank * min(num_ranks, shape.top_k)
        self._send = PackedRows(problem, most_sent)
        self._receive = PackedRows(problem, shape.max_tokens_per_rank * num_ranks)
        self._back_SH = torch.zeros((most_sent, shape.hidden), dtype=torch.bfloat16, device=problem.device)
        self._gate_TK2 = torch.empty((problem.num_tokens, 2 * shape.top_k), dtype=torch.int32, device=problem.device)
        self._local_ids = local_ids(problem)

    def layout(self) -> Layout:
        """Counts rows and selections, exchanges the counts, and orders what is sent; waits for the host once."""
        problem, num_ranks = self._problem, self._problem.num_ranks
        target_TK = target_ranks(problem)
        hit_TR = torch.zeros((problem.num_tokens, num_ranks + 1), dtype=torch.bool, device=problem.device)
        hit_TR = hit_TR.scatter_(1, target_TK, True)[:, 1:]
        hit_RT = hit_TR.t().contiguous()
        sent_R2 = torch.stack((hit_RT.sum(1), count_selections(target_TK, num_ranks)), 1)
        received_R2 = torch.empty_like(sent_R2)
        all_to_all_single(received_R2, sent_R2)
        (send_rows, _), (receive_rows, selections) = torch.stack((sent_R2, received_R2)).transpose(1, 2).tolist()
        num_sent = sum(send_rows)
        source_S = torch.nonzero_static(hit_RT, size=num_sent)[:, 1].contiguous()
        hits_T = hit_TR.sum(1)
        return Layout(
            send_rows,
            receive_rows,
            num_sent,
            sum(receive_rows),
            sum(selections),
            source_S,
            torch.argsort(source_S, stable=True),
            hits_T.cumsum(0) - hits_T,
        )

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Layout) -> Rows:
        """Gathers rows straight into the send buffer and exchanges them; the payload that arrives stays packed."""
        problem, send, receive = self._problem, self._send, self._receive
        num_sent, num_received, top_k = handle.num_sent, handle.num_received, problem.shape.top_k
        if num_sent:
            source_S = handle.source_S
            torch.index_select(payload_TH.view(torch.int64), 0, source_S, out=send.words_NW[:num_sent])
            if scale_TB is not None and send.scale_NB is not None:
                torch.index_select(scale_TB, 0, source_S, out=send.scale_NB[:num_sent])
            self._gate_TK2[:, :top_k].copy_(problem.expert_TK)
            self._gate_TK2.view(torch.float32)[:, top_k:].copy_(problem.weight_TK)
            torch.index_select(self._gate_TK2, 0, source_S, out=send.gate_NK2[:num_sent])
        all_to_all_single(receive.rows_N[:num_received], send.rows_N[:num_sent], handle.receive_rows, handle.send_rows)
        return Rows(
            receive.payload_NH[:num_received],
            None if receive.scale_NB is None else receive.scale_NB[:num_received],
            self._local_ids[receive.expert_NK[:num_received]],
            receive.weight_NK[:num_received],
            handle.num_selections,
            handle,
        )

    def combine(self, y_NH: Tensor, handle: Layout) -> Tensor:
        """Sends rows back and sums each token's in float32."""
        back_SH = self._back_SH[: handle.num_sent]
        all_to_all_single(back_SH, y_NH, handle.send_rows, handle.receive_rows)
        return sum_bags(back_SH, handle.bag_S, handle.bag_start_T)

    def resolved(self) -> dict[str, Any]:
        """Bytes of its buffers."""
        back = self._back_SH.numel() * self._back_SH.element_size()
        return {"buffer_bytes": self._send.num_bytes + self._receive.num_bytes + back}

    @staticmethod
    def provenance() -> dict[str, Any]:
        """The build of torch."""
        return torch_provenance()

    def close(self) -> None:
        """Frees the buffers."""
        del self._send, self._receive, self._back_SH

    @staticmethod
    def release() -> None:
        """Nothing is shared between cells."""
