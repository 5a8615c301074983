"""A fake of DeepEP with the signatures of deepseek-ai/DeepEP dd758ca: it moves rows through gloo, and checks its callers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from moving import GARBAGE, fill_slots, gather, rank_rows, send_rows, sum_back, sum_slots

__version__ = "2.1.0"
topk_idx_t = torch.int64
MADE: list[Any] = []


@dataclass(frozen=True)
class Config:
    """Normal mode's tuning."""

    num_sms: int = 20
    num_max_nvl_chunked_send_tokens: int = 6
    num_max_nvl_chunked_recv_tokens: int = 256
    num_max_rdma_chunked_send_tokens: int = 6
    num_max_rdma_chunked_recv_tokens: int = 256

    def get_nvl_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """Some multiple of 128."""
        return 128 * self.num_max_nvl_chunked_send_tokens * num_ranks + hidden_bytes * 128

    def get_rdma_buffer_size_hint(self, hidden_bytes: int, num_ranks: int) -> int:
        """Likewise."""
        return 128 * num_ranks + hidden_bytes * 128


@dataclass(frozen=True)
class Route:
    """A normal-mode handle."""

    origin: list[tuple[int, int]]
    num_tokens: int
    num_sms: int


class Buffer:
    """V1."""

    num_sms: int = 20

    def __init__(
        self,
        group,
        num_nvl_bytes=0,
        num_rdma_bytes=0,
        low_latency_mode=False,
        num_qps_per_rank=24,
        allow_nvlink_for_low_latency_mode=True,
        allow_mnnvl=False,
        explicitly_destroy=False,
        enable_shrink=False,
        comm=None,
    ):
        assert explicitly_destroy
        assert num_nvl_bytes % 128 == 0
        assert num_rdma_bytes % 128 == 0
        assert num_rdma_bytes == 0 or low_latency_mode or group.size() > 8
        assert gather(num_nvl_bytes + num_rdma_bytes) == [num_nvl_bytes + num_rdma_bytes] * group.size()
        self.group_size = group.size()
        self.low_latency_mode = low_latency_mode
        MADE.append(self)
        assert len(MADE) == 1, "a second buffer in one process"

    def destroy(self):
        """Gives back."""
        MADE.remove(self)

    @staticmethod
    def set_num_sms(new_num_sms: int) -> None:
        """Class-wide."""
        assert new_num_sms % 2 == 0
        Buffer.num_sms = new_num_sms

    @staticmethod
    def get_dispatch_config(num_ranks: int) -> Config:
        """The default."""
        return Config(Buffer.num_sms, 24, 256, 6, 128)

    @staticmethod
    def get_combine_config(num_ranks: int) -> Config:
        """The default."""
        return Config(Buffer.num_sms, 10, 256, 6, 128)

    @staticmethod
    def get_low_latency_rdma_size_hint(num_max_dispatch_tokens_per_rank, hidden, num_ranks, num_experts) -> int:
        """Some multiple of 128."""
        return 128 * num_experts * num_ranks * num_max_dispatch_tokens_per_rank

    def get_dispatch_layout(
        self, topk_idx, num_experts, previous_event=None, async_finish=False, allocate_on_comm_stream=False
    ):
        """Counts, and which token goes where."""
        assert topk_idx.dtype is topk_idx_t
        in_rank = rank_rows(topk_idx, num_experts, self.group_size)
        flat = topk_idx[topk_idx >= 0]
        return in_rank.sum(0).int(), None, torch.bincount(flat, minlength=num_experts).int(), in_rank, None

    def dispatch(
        self,
        x,
        handle=None,
        num_tokens_per_rank=None,
        num_tokens_per_rdma_rank=None,
        is_token_in_rank=None,
        num_tokens_per_expert=None,
        topk_idx=None,
        topk_weights=None,
        expert_alignment=1,
        num_worst_tokens=0,
        config=None,
        previous_event=None,
        async_finish=False,
        allocate_on_comm_stream=False,
    ):
        """Sends rows; in the worst case's form the unused ones hold garbage and ids of -1."""
        assert not self.low_latency_mode
        assert topk_idx.dtype is topk_idx_t
        assert topk_weights.dtype is torch.float32
        num_experts = num_tokens_per_expert.shape[0]
        assert torch.equal(is_token_in_rank, rank_rows(topk_idx, num_experts, self.group_size))
        x, scales = x if isinstance(x, tuple) else (x, None)
        assert (scales is None) == (x.dtype is torch.bfloat16)
        rows, scales, ids, weights, origin = send_rows(x, scales, topk_idx, topk_weights, num_experts)
        counts = torch.bincount(ids[ids >= 0], minlength=num_experts // self.group_size).tolist()
        if num_worst_tokens:
            rows, scales, ids, weights = pad(num_worst_tokens, rows, scales, ids, weights, -1)
            counts = []
        route = Route(origin, x.shape[0], config.num_sms)
        return rows if scales is None else (rows, scales), ids, weights, counts, route, None

    def combine(
        self,
        x,
        handle,
        topk_weights=None,
        bias=None,
        config=None,
        previous_event=None,
        async_finish=False,
        allocate_on_comm_stream=False,
    ):
        """Sums; a handle is bound to the SMs of its dispatch."""
        assert handle.num_sms == config.num_sms
        return sum_back(x[: len(handle.origin)], handle.origin, handle.num_tokens), None, None

    def low_latency_dispatch(
        self,
        x,
        topk_idx,
        num_max_dispatch_tokens_per_rank,
        num_experts,
        cumulative_local_expert_recv_stats=None,
        dispatch_wait_recv_cost_stats=None,
        use_fp8=True,
        round_scale=False,
        use_ue8m0=False,
        async_finish=False,
        return_recv_hook=False,
    ):
        """Fills slots; with a hook they hold garbage until it is called."""
        assert self.low_latency_mode
        assert x.dtype is torch.bfloat16
        assert x.shape[0] <= num_max_dispatch_tokens_per_rank
        slots, scales, counts, source = fill_slots(
            x, topk_idx, num_experts, num_max_dispatch_tokens_per_rank, fp8=use_fp8
        )
        handle = (source, counts, num_max_dispatch_tokens_per_rank, x.shape[1], num_experts)
        hook = None
        if return_recv_hook:
            late, slots = slots, torch.zeros_like(slots)
            hook = lambda: slots.view(torch.uint8).copy_(late.view(torch.uint8))  # noqa: E731
        if scales is not None:
            scales = scales.transpose(1, 2).contiguous().transpose(1, 2)  # column-major, as the kernels write them
        return slots if scales is None else (slots, scales), counts, handle, None, hook

    def low_latency_combine(
        self,
        x,
        topk_idx,
        topk_weights,
        handle,
        use_logfmt=False,
        zero_copy=False,
        async_finish=False,
        return_recv_hook=False,
        out=None,
        combine_wait_recv_cost_stats=None,
    ):
        """Weighted sums."""
        source, counts, max_tokens, hidden, num_experts = handle
        assert x.shape == (num_experts // self.group_size, self.group_size * max_tokens, hidden)
        combined = sum_slots(x, topk_idx, topk_weights, source, counts, max_tokens, num_experts)
        return combined, None, (lambda: None) if return_recv_hook else None


def pad(num_rows, rows, scales, ids, weights, fill):
    """Rows up to a worst case, the rest garbage."""
    more = num_rows - rows.shape[0]
    garbage = torch.full((more, rows.shape[1]), GARBAGE).to(rows.dtype)
    rows = torch.cat([rows.view(torch.uint8), garbage.view(torch.uint8)]).view(rows.dtype)
    scales = None if scales is None else torch.cat([scales, torch.full((more, scales.shape[1]), float("nan"))])
    ids = torch.cat([ids, ids.new_full((more, ids.shape[1]), fill)])
    return rows, scales, ids, torch.cat([weights, weights.new_full((more, weights.shape[1]), GARBAGE)])


@dataclass
class EPHandle:
    """What V2's dispatch returns besides its rows."""

    num_sms: int
    topk_idx: torch.Tensor
    num_recv_tokens_per_expert_list: list[int]
    psum_num_recv_tokens_per_scaleup_rank: torch.Tensor
    origin: list[tuple[int, int]] = field(default_factory=list)


class ElasticBuffer:
    """V2."""

    def __init__(
        self,
        group,
        num_bytes=None,
        num_cpu_bytes=0,
        num_max_tokens_per_rank=0,
        hidden=0,
        num_topk=0,
        use_fp8_dispatch=False,
        deterministic=False,
        allow_hybrid_mode=True,
        allow_multiple_reduction=True,
        prefer_overlap_with_compute=True,
        sl_idx=3,
        num_allocated_qps=0,
        num_cpu_timeout_secs=300,
        num_gpu_timeout_secs=100,
        explicitly_destroy=False,
    ):
        assert explicitly_destroy
        assert num_max_tokens_per_rank
        assert hidden
        assert num_topk
        self.num_bytes = 2 << 20
        self.num_ranks = group.size()
        self.num_allocated_qps = num_allocated_qps or 65
        self.prefer_overlap_with_compute = prefer_overlap_with_compute
        self.num_max_tokens_per_rank = num_max_tokens_per_rank
        self.fp8 = use_fp8_dispatch

    def destroy(self):
        """Gives back."""

    def get_theoretical_num_sms(
        self, num_experts, num_topk, num_scaleout_topk=0, rdma_gbs=0, nvlink_gbs=0, sm_read_gbs=200, sm_write_gbs=50
    ):
        """Few where compute should overlap."""
        return 24 if self.prefer_overlap_with_compute else 64

    def get_theoretical_num_qps(self, num_sms):
        """As many as are allocated."""
        return min(num_sms * 16 + 1, self.num_allocated_qps)

    def dispatch(
        self,
        x,
        topk_idx=None,
        topk_weights=None,
        cumulative_local_expert_recv_stats=None,
        num_experts=None,
        num_max_tokens_per_rank=None,
        expert_alignment=None,
        num_sms=0,
        num_qps=0,
        previous_event=None,
        previous_event_before_epilogue=None,
        async_with_compute_stream=False,
        allocate_on_comm_stream=False,
        handle=None,
        do_handle_copy=True,
        do_cpu_sync=None,
        do_expand=False,
        do_zero_padding=False,
        use_tma_aligned_col_major_sf=False,
    ):
        """Sends rows; without the host's wait, rows beyond the count hold garbage, ids too."""
        assert num_sms > 0
        assert 0 < num_qps <= self.num_allocated_qps
        assert topk_idx.dtype is topk_idx_t
        x, scales = x if isinstance(x, tuple) else (x, None)
        assert self.fp8 == (scales is not None)
        assert x.shape[0] <= num_max_tokens_per_rank
        rows, scales, ids, weights, origin = send_rows(x, scales, topk_idx, topk_weights, num_experts)
        counts = torch.bincount(ids[ids >= 0], minlength=num_experts // self.num_ranks).tolist()
        psum = torch.tensor([sum(o[0] <= rank for o in origin) for rank in range(self.num_ranks)])
        if not do_cpu_sync:
            worst = self.num_ranks * num_max_tokens_per_rank
            rows, scales, ids, weights = pad(worst, rows, scales, ids, weights, 1)
            counts = []
        route = EPHandle(num_sms, topk_idx.clone(), counts, psum, origin)
        return rows if scales is None else (rows, scales), ids, weights, route, None

    def combine(
        self,
        x,
        handle,
        topk_weights=None,
        bias=None,
        num_sms=0,
        num_qps=0,
        previous_event=None,
        previous_event_before_epilogue=None,
        async_with_compute_stream=False,
        allocate_on_comm_stream=False,
    ):
        """Sums."""
        assert num_sms == handle.num_sms
        return sum_back(x[: len(handle.origin)], handle.origin, handle.topk_idx.shape[0]), None, None
