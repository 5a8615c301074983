"""A fake of `uccl.ep` with the parameters of uccl-project/uccl da914a2: it reads and writes raw addresses, like the real one."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch
from moving import fill_slots, rank_rows, send_rows, sum_back, sum_slots

DEVICE_ENDED = []
_ITEM = {torch.int64: 8, torch.int32: 4, torch.float32: 4, torch.bfloat16: 2, torch.float8_e4m3fn: 1, torch.bool: 1}


def view(address, shape, dtype):
    """A tensor over raw memory."""
    assert address
    num_bytes = max(int(torch.Size(shape).numel()) * _ITEM[dtype], 1)
    raw = torch.frombuffer((ctypes.c_char * num_bytes).from_address(address), dtype=torch.uint8)
    return raw.view(dtype).view(shape) if torch.Size(shape).numel() else torch.empty(shape, dtype=dtype)


def put(address, value):
    """Writes a tensor's bytes."""
    if value.numel():
        view(address, value.shape, value.dtype).view(torch.uint8).copy_(value.contiguous().view(torch.uint8))


@dataclass(frozen=True)
class Config:
    """Normal mode's tuning."""

    num_sms: int = 20
    num_max_nvl_chunked_send_tokens: int = 6
    num_max_nvl_chunked_recv_tokens: int = 256
    num_max_rdma_chunked_send_tokens: int = 6
    num_max_rdma_chunked_recv_tokens: int = 256

    def get_nvl_buffer_size_hint(self, hidden_bytes, num_ranks):
        """Some multiple of 128."""
        return 128 * hidden_bytes


class Proxy:
    """A thread that is never started here."""

    def __init__(
        self,
        thread_idx,
        gpu_buffer_addr,
        total_size,
        rank=0,
        node_idx=-1,
        local_rank=0,
        num_experts=-1,
        num_ranks=-1,
        num_nodes=0,
        use_normal_mode=False,
        is_intranode=False,
        gpu_buffer_is_host_allocated=False,
        barrier_local_rank=-1,
        device_index=-1,
        nic_local_rank=-1,
    ):
        assert is_intranode
        assert (barrier_local_rank, device_index) == (rank, local_rank)
        self.offset = None

    def get_atomic_buffer_ptr(self):
        """Some address."""
        return 4096

    def set_atomic_buffer_ptr(self, ptr):
        """Takes it."""
        assert ptr == 4096

    def calculate_and_set_dispatch_recv_data_offset(self, num_tokens, hidden, num_experts):
        """Before every low-latency dispatch."""
        self.offset = (num_tokens, hidden, num_experts)


def get_num_proxy_threads():
    """Two."""
    return 2


def get_physical_gpu_rank(device):
    """As visible."""
    return device


def get_rdma_buffer(num_rdma_bytes, device_index, force_device_alloc=False):
    """A capsule, and whether it lies in host memory."""
    return torch.zeros(max(num_rdma_bytes, 1), dtype=torch.uint8), False


def register_proxies(device_index, proxies):
    """Once for a device."""
    assert len(proxies) == get_num_proxy_threads()


def unregister_proxy(device_index):
    """After the buffer is gone."""
    assert DEVICE_ENDED


def connect_atomic_buffer(proxy, buffer):
    """After sync."""
    assert buffer.is_available()


def get_low_latency_rdma_size_hint(max_tokens, hidden, num_ranks, num_experts):
    """Some size."""
    return 128 * num_ranks * num_experts


class Buffer:
    """The runtime."""

    def __init__(
        self,
        rank,
        num_ranks,
        num_nvl_bytes=0,
        num_rdma_bytes=0,
        low_latency_mode=False,
        explicitly_destroy=False,
        num_local_ranks=-1,
    ):
        assert explicitly_destroy
        assert num_local_ranks == num_ranks
        self.rank, self.num_ranks = rank, num_ranks
        self.available, self.rdma = False, num_rdma_bytes == 0
        self.sent = self.origin = self.counts = None

    def set_rdma_buffer(self, addr, is_host_ptr=False):
        """Needed before sync wherever there is one."""
        self.rdma = addr != 0

    def get_local_device_id(self):
        """Rank."""
        return self.rank

    def get_local_ipc_handle(self):
        """Bytes."""
        return b"nvl%d" % self.rank

    def get_local_rdma_ipc_handle(self):
        """Bytes."""
        return b"rdma%d" % self.rank

    def sync(self, device_ids, ipc_handles, root_unique_id, rdma_ipc_handles):
        """Connects."""
        assert self.rdma
        assert device_ids == list(range(self.num_ranks))
        assert ipc_handles == [b"nvl%d" % rank for rank in range(self.num_ranks)]
        self.available = True

    def is_available(self):
        """After sync."""
        return self.available

    def destroy(self):
        """The device is gone after it."""
        DEVICE_ENDED.append(True)

    def get_dispatch_layout(
        self, topk, T, K, E, per_rank, per_rdma, per_expert, in_rank, previous, is_async, allocate, stream
    ):
        """Writes counts."""
        experts = view(topk, (T, K), torch.int64)
        hit = rank_rows(experts, E, self.num_ranks)
        put(in_rank, hit)
        put(per_rank, hit.sum(0).int())
        put(per_expert, torch.bincount(experts[experts >= 0], minlength=E).int())
        assert per_rdma == 0

    def intranode_prepare(
        self,
        per_rank,
        in_rank,
        per_expert,
        T,
        E,
        rank_prefix,
        channel_prefix,
        alignment,
        worst,
        config,
        previous,
        is_async,
        allocate,
        stream,
    ):
        """How many rows, and how many of each local expert."""
        from moving import gather

        hits = gather(view(in_rank, (T, self.num_ranks), torch.bool).clone())
        local = E // self.num_ranks
        total = sum(gather(view(per_expert, (E,), torch.int32).clone()))
        counts = total[self.rank * local : (self.rank + 1) * local].tolist()
        put(rank_prefix, torch.ones((self.num_ranks, self.num_ranks), dtype=torch.int32))
        put(channel_prefix, torch.ones((self.num_ranks, config.num_sms // 2), dtype=torch.int32))
        return int(sum(hit[:, self.rank].sum() for hit in hits)), counts, None

    def intranode_dispatch(
        self,
        x,
        T,
        H,
        element_size,
        scales,
        num_scales,
        scale_token_stride,
        scale_hidden_stride,
        topk,
        K,
        weights,
        in_rank,
        rank_prefix,
        channel_prefix,
        E,
        worst,
        cached,
        config,
        num_recv,
        out,
        out_scales,
        out_topk,
        out_weights,
        recv_prefix,
        source,
        head,
        previous,
        is_async,
        allocate,
        stream,
    ):
        """Writes rows."""
        assert not cached
        dtype = torch.bfloat16 if element_size == 2 else torch.float8_e4m3fn
        scale_TB = None
        if scales:
            assert (scale_token_stride, scale_hidden_stride) == (num_scales, 1)
            scale_TB = view(scales, (T, num_scales), torch.float32)
        given = (
            view(x, (T, H), dtype),
            scale_TB,
            view(topk, (T, K), torch.int64),
            view(weights, (T, K), torch.float32),
        )
        rows, scale_NB, ids, gates, self.origin = send_rows(*given, E)
        assert num_recv == rows.shape[0]
        for address, value in ((out, rows), (out_scales, scale_NB), (out_topk, ids), (out_weights, gates)):
            if address:
                put(address, value)
        put(recv_prefix, torch.ones((self.num_ranks, config.num_sms // 2), dtype=torch.int32))
        put(source, torch.arange(num_recv, dtype=torch.int32))
        put(head, torch.ones((T, self.num_ranks), dtype=torch.int32))

    def intranode_combine(
        self,
        x,
        rows,
        H,
        dtype_code,
        element_size,
        weights,
        K,
        bias0,
        bias1,
        source,
        num_out,
        rank_prefix,
        recv_prefix,
        head,
        config,
        out,
        out_weights,
        previous,
        is_async,
        allocate,
        stream,
    ):
        """Writes sums."""
        assert (dtype_code, element_size) == (6, 2)
        assert rows == len(self.origin)
        assert (view(recv_prefix, (self.num_ranks, config.num_sms // 2), torch.int32) == 1).all()
        put(out, sum_back(view(x, (rows, H), torch.bfloat16), self.origin, num_out))

    def low_latency_dispatch(
        self,
        x_ptr,
        x_rows,
        x_cols,
        topk_idx_ptr,
        topk_rows,
        topk_cols,
        packed_recv_x_ptr,
        packed_recv_x_scales_ptr,
        packed_recv_count_ptr,
        packed_recv_src_info_ptr,
        packed_recv_layout_range_ptr,
        cumulative_local_expert_recv_stats_ptr=0,
        dispatch_wait_recv_cost_stats_ptr=0,
        compute_stream_ptr=0,
        num_max_dispatch_tokens_per_rank=0,
        num_experts=1,
        use_fp8=True,
        round_scale=False,
        use_ue8m0=False,
        is_async=False,
        return_recv_hook=False,
    ):
        """Writes slots; scales are column-major."""
        x = view(x_ptr, (x_rows, x_cols), torch.bfloat16)
        experts = view(topk_idx_ptr, (topk_rows, topk_cols), torch.int64)
        slots, scales, counts, source = fill_slots(
            x, experts, num_experts, num_max_dispatch_tokens_per_rank, fp8=use_fp8
        )
        put(packed_recv_x_ptr, slots)
        if use_fp8:
            put(packed_recv_x_scales_ptr, scales.transpose(1, 2).contiguous())
        put(packed_recv_count_ptr, counts)
        put(packed_recv_src_info_ptr, source)
        self.counts = counts
        return None, (lambda: None) if return_recv_hook else None

    def low_latency_combine(
        self,
        x_ptr,
        x_dim0,
        x_dim1,
        x_dim2,
        topk_idx_ptr,
        topk_rows,
        topk_cols,
        topk_weights_ptr,
        src_info_ptr,
        src_info_dim0,
        src_info_dim1,
        layout_range_ptr,
        layout_range_dim0,
        layout_range_dim1,
        combine_wait_recv_cost_stats_ptr=0,
        compute_stream_ptr=0,
        num_max_dispatch_tokens_per_rank=0,
        num_experts=1,
        use_logfmt=False,
        zero_copy=False,
        is_async=False,
        return_recv_hook=False,
        out_ptr=0,
    ):
        """Writes weighted sums."""
        y = view(x_ptr, (x_dim0, x_dim1, x_dim2), torch.bfloat16)
        experts = view(topk_idx_ptr, (topk_rows, topk_cols), torch.int64)
        gates = view(topk_weights_ptr, (topk_rows, topk_cols), torch.float32)
        source = view(src_info_ptr, (src_info_dim0, src_info_dim1), torch.int32)
        put(out_ptr, sum_slots(y, experts, gates, source, self.counts, num_max_dispatch_tokens_per_rank, num_experts))
        return None, (lambda: None) if return_recv_hook else None
