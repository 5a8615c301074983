"""A `Buffer` over UCCL-EP's raw interface, for builds that ship the extension and no wrapper; ranks of one host only.

Legend: T tokens of this rank, N received rows, H hidden columns, K top-k slots, R ranks, C channels, L local experts,
M slots of one expert.

`uccl.ep` takes addresses and checks nothing: expert ids must be int64, weights float32, all contiguous on one device.
Signatures are those of uccl-project/uccl at da914a2, `ep/src/uccl_ep.cc`; 0.1.1 lacks what is looked for with `hasattr`.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import distributed as dist

if TYPE_CHECKING:
    from torch import Tensor

_BF16_CODE = 6
_DISPATCH_CHUNKS = {2: (24, 256, 6, 128), 4: (6, 256, 6, 128), 8: (6, 256, 6, 128)}
_COMBINE_CHUNKS = {2: (10, 256, 6, 128), 4: (9, 256, 6, 128), 8: (4, 256, 6, 128)}


def extension() -> Any:
    """`uccl.ep`, which the caller has imported."""
    from uccl import ep  # type: ignore[import-not-found] # noqa: PLC0415 - only images of this backend hold it

    return ep


def address(tensor: Tensor | None) -> int:
    """Where a tensor's first element lies; 0 for none."""
    return 0 if tensor is None else int(tensor.data_ptr())


def stream_of(device: torch.device) -> int:
    """The current stream of a GPU as the extension takes it; 0 where there is none."""
    return int(torch.cuda.current_stream(device).cuda_stream) if device.type == "cuda" else 0


def check_raw(expert_TK: Tensor, weight_TK: Tensor | None) -> None:
    """Refuses what the kernels would read as garbage.

    Raises:
        ValueError: A dtype or a layout is not what they take.
    """
    tensors = [("expert ids", expert_TK, torch.int64)]
    if weight_TK is not None:
        tensors.append(("gate weights", weight_TK, torch.float32))
    for name, tensor, dtype in tensors:
        if tensor.dtype is not dtype or not tensor.is_contiguous():
            msg = f"{name} are {tensor.dtype}, contiguous: {tensor.is_contiguous()}; UCCL reads contiguous {dtype} unchecked"
            raise ValueError(msg)


class UcclBuffer:
    """What `LegacyNormal` and `LegacyLowLatency` need of a buffer, in synchronous form.

    The numbers of queues and what may use NVLink are parts of that interface which this library ignores, as its own wrapper does.

    Attributes:
        num_sms: SMs of the normal mode's kernels, class-wide as in DeepEP.
    """

    num_sms: ClassVar[int] = 20

    def __init__(
        self,
        group: Any,
        num_nvl_bytes: int = 0,
        num_rdma_bytes: int = 0,
        *,
        low_latency_mode: bool = False,
        num_qps_per_rank: int = 24,
        allow_nvlink_for_low_latency_mode: bool = True,
        allow_mnnvl: bool = False,
        explicitly_destroy: bool = False,
    ) -> None:
        self._ep = extension()
        self._rank, self._num_ranks = group.rank(), group.size()
        # Not the local rank: ranks may share a GPU.
        self._device = torch.cuda.current_device() if torch.cuda.is_available() else int(os.environ["LOCAL_RANK"])
        _refuse_hosts(_gather(socket.gethostname()))
        capsule, on_host = self._ep.get_rdma_buffer(num_rdma_bytes, self._device)
        if low_latency_mode and on_host:
            msg = "UCCL put its low-latency buffer into host memory, which NVLink cannot reach: build uccl at da914a2 or later"
            raise RuntimeError(msg)
        self._scratch = torch.utils.dlpack.from_dlpack(capsule)
        self._proxies = self._make_proxies(num_rdma_bytes, on_host=on_host, normal=not low_latency_mode)
        self.runtime = self._ep.Buffer(
            self._rank,
            self._num_ranks,
            num_nvl_bytes,
            num_rdma_bytes,
            low_latency_mode,
            explicitly_destroy,
            int(os.environ["LOCAL_WORLD_SIZE"]),
        )
        self._connect(num_rdma_bytes, on_host=on_host)

    def _make_proxies(self, num_bytes: int, *, on_host: bool, normal: bool) -> list[Any]:
        """Registered but never started: on one host nothing goes through them but the buffer of atomics."""
        extra = {}
        if hasattr(self._ep, "get_physical_gpu_rank"):  # since 0.1.1
            physical = self._ep.get_physical_gpu_rank(self._device)
            extra = {"barrier_local_rank": self._rank, "device_index": self._device, "nic_local_rank": physical}
        proxies = [
            self._ep.Proxy(
                thread_idx=thread,
                gpu_buffer_addr=address(self._scratch),
                total_size=num_bytes,
                rank=self._rank,
                node_idx=0,
                local_rank=self._device,
                num_experts=0,
                num_ranks=self._num_ranks,
                num_nodes=1,
                use_normal_mode=normal,
                is_intranode=True,
                gpu_buffer_is_host_allocated=on_host,
                **extra,
            )
            for thread in range(self._ep.get_num_proxy_threads())
        ]
        self._ep.register_proxies(self._device, proxies)
        return proxies

    def _connect(self, num_rdma_bytes: int, *, on_host: bool) -> None:
        if num_rdma_bytes:
            self.runtime.set_rdma_buffer(address(self._scratch), on_host)
        devices = _gather(self.runtime.get_local_device_id())
        handles = _gather(self.runtime.get_local_ipc_handle())
        shared = bool(num_rdma_bytes) and not on_host
        rdma_handles = _gather(self.runtime.get_local_rdma_ipc_handle() if shared else None)
        self.runtime.sync(devices, handles, None, rdma_handles)
        if not self.runtime.is_available():
            msg = "UCCL's buffer is not available after its ranks were connected"
            raise RuntimeError(msg)
        self._ep.connect_atomic_buffer(self._proxies[0], self.runtime)
        for proxy in self._proxies:
            proxy.set_atomic_buffer_ptr(self._proxies[0].get_atomic_buffer_ptr())

    @classmethod
    def set_num_sms(cls, num_sms: int) -> None:
        """Sets the SMs of configs made from now on."""
        cls.num_sms = num_sms

    @classmethod
    def get_dispatch_config(cls, num_ranks: int) -> Any:
        """Upstream's chunk sizes for dispatch."""
        return extension().Config(cls.num_sms, *_DISPATCH_CHUNKS[num_ranks])

    @classmethod
    def get_combine_config(cls, num_ranks: int) -> Any:
        """Upstream's chunk sizes for combine."""
        return extension().Config(cls.num_sms, *_COMBINE_CHUNKS[num_ranks])

    @staticmethod
    def get_low_latency_rdma_size_hint(max_tokens: int, hidden: int, num_ranks: int, num_experts: int) -> int:
        """Bytes of a low-latency buffer."""
        return int(extension().get_low_latency_rdma_size_hint(max_tokens, hidden, num_ranks, num_experts))

    def get_dispatch_layout(self, expert_TK: Tensor, num_experts: int) -> tuple[Tensor, None, Tensor, Tensor, Any]:
        """Tokens to each rank and expert, and whether a token goes to a rank."""
        check_raw(expert_TK, None)
        num_tokens, top_k = expert_TK.shape
        per_rank = expert_TK.new_empty((self._num_ranks,), dtype=torch.int32)
        per_expert = expert_TK.new_empty((num_experts,), dtype=torch.int32)
        in_rank = expert_TK.new_empty((num_tokens, self._num_ranks), dtype=torch.bool)
        outputs = (address(per_rank), 0, address(per_expert), address(in_rank))
        stream = stream_of(expert_TK.device)
        event = self.runtime.get_dispatch_layout(
            address(expert_TK), num_tokens, top_k, num_experts, *outputs, None, False, False, stream
        )
        return per_rank, None, per_expert, in_rank, event

    def dispatch(
        self,
        x: Tensor | tuple[Tensor, Tensor],
        *,
        num_tokens_per_rank: Tensor,
        num_tokens_per_rdma_rank: None,
        is_token_in_rank: Tensor,
        num_tokens_per_expert: Tensor,
        topk_idx: Tensor,
        topk_weights: Tensor,
        expert_alignment: int,
        num_worst_tokens: int,
        config: Any,
    ) -> tuple[Any, Tensor, Tensor, list[int], tuple[Any, ...], Any]:
        """Waits on the host for the counts, then moves the rows."""
        check_raw(topk_idx, topk_weights)
        x_TH, scale_TB = x if isinstance(x, tuple) else (x, None)
        num_tokens, hidden = x_TH.shape
        num_channels, stream = self.num_sms // 2, stream_of(x_TH.device)
        ranks = self._num_ranks

        def ints(*shape: int) -> Tensor:
            return torch.empty(shape, dtype=torch.int32, device=x_TH.device)

        rank_prefix_RR, channel_prefix_RC = (
            ints(ranks, ranks),
            ints(ranks, num_channels),
        )
        prefixes = (address(rank_prefix_RR), address(channel_prefix_RC))
        counts_in = (address(num_tokens_per_rank), address(is_token_in_rank), address(num_tokens_per_expert))
        num_experts = num_tokens_per_expert.shape[0]
        flags = (expert_alignment, num_worst_tokens, config, None, False, False, stream)
        num_received, counts, _ = self.runtime.intranode_prepare(*counts_in, num_tokens, num_experts, *prefixes, *flags)
        rows = max(num_received, 1)  # every address must be of something
        out_NH = x_TH.new_empty((rows, hidden))
        out_scale_NB = None if scale_TB is None else scale_TB.new_empty((rows, scale_TB.shape[1]))
        out_expert_NK = topk_idx.new_empty((rows, topk_idx.shape[1]))
        out_weight_NK = topk_weights.new_empty((rows, topk_idx.shape[1]))
        source_N, head_TR = ints(rows), ints(num_tokens, ranks)
        recv_prefix_RC = ints(ranks, num_channels)
        scale_shape = (0, 0, 0) if scale_TB is None else (scale_TB.shape[1], scale_TB.stride(0), scale_TB.stride(1))
        event = self.runtime.intranode_dispatch(
            *(address(x_TH), num_tokens, hidden, x_TH.element_size(), address(scale_TB), *scale_shape),
            *(address(topk_idx), topk_idx.shape[1], address(topk_weights), address(is_token_in_rank)),
            *(*prefixes, num_experts, num_worst_tokens, False, config, num_received),
            *(address(out_NH), address(out_scale_NB), address(out_expert_NK), address(out_weight_NK)),
            *(address(recv_prefix_RC), address(source_N), address(head_TR), None, False, False, stream),
        )
        received = out_NH[:num_received]
        scaled = received if out_scale_NB is None else (received, out_scale_NB[:num_received])
        # The last two keep what the kernels still read alive until combine.
        route = (rank_prefix_RR, recv_prefix_RC, source_N, head_TR, channel_prefix_RC, is_token_in_rank)
        return scaled, out_expert_NK[:num_received], out_weight_NK[:num_received], counts, route, event

    def combine(self, y_NH: Tensor, route: tuple[Any, ...], *, config: Any) -> tuple[Tensor, None, Any]:
        """Brings rows back and sums them, unweighted."""
        rank_prefix_RR, recv_prefix_RC, source_N, head_TR, *_ = route
        num_rows, hidden = y_NH.shape
        y_NH = y_NH if num_rows else y_NH.new_zeros((1, hidden))
        out_TH = y_NH.new_empty((max(head_TR.shape[0], 1), hidden))
        event = self.runtime.intranode_combine(
            *(address(y_NH), num_rows, hidden, _BF16_CODE, y_NH.element_size(), 0, 0, 0, 0),
            *(address(source_N), head_TR.shape[0], address(rank_prefix_RR), address(recv_prefix_RC), address(head_TR)),
            *(config, address(out_TH), 0, None, False, False, stream_of(y_NH.device)),
        )
        return out_TH[: head_TR.shape[0]], None, event

    def low_latency_dispatch(
        self,
        x_TH: Tensor,
        expert_TK: Tensor,
        max_tokens: int,
        num_experts: int,
        *,
        use_fp8: bool,
        round_scale: bool,
        use_ue8m0: bool,
        async_finish: bool,
        return_recv_hook: bool,
    ) -> tuple[Any, Tensor, tuple[Any, ...], Any, Any]:
        """Casts if asked, and fills the slots of each local expert."""
        check_raw(expert_TK, None)
        num_tokens, hidden = x_TH.shape
        for proxy in self._proxies:
            proxy.calculate_and_set_dispatch_recv_data_offset(
                num_tokens=num_tokens, hidden=hidden, num_experts=num_experts
            )
        local, slots = num_experts // self._num_ranks, self._num_ranks * max_tokens
        dtype = torch.float8_e4m3fn if use_fp8 else torch.bfloat16
        out_LMH = x_TH.new_empty((local, slots, hidden), dtype=dtype)
        scale_LBM = x_TH.new_empty((local, hidden // 128, slots), dtype=torch.float32) if use_fp8 else None
        count_L = x_TH.new_empty((local,), dtype=torch.int32)
        source_LM = x_TH.new_empty((local, slots), dtype=torch.int32)
        range_LR = x_TH.new_empty((local, self._num_ranks), dtype=torch.int64)
        event, hook = self.runtime.low_latency_dispatch(
            *(
                address(x_TH),
                num_tokens,
                hidden,
                address(expert_TK),
                *expert_TK.shape,
                address(out_LMH),
                address(scale_LBM),
            ),
            *(
                address(count_L),
                address(source_LM),
                address(range_LR),
                0,
                0,
                stream_of(x_TH.device),
                max_tokens,
                num_experts,
            ),
            *(use_fp8, round_scale, use_ue8m0, async_finish, return_recv_hook),
        )
        received = out_LMH if scale_LBM is None else (out_LMH, scale_LBM.transpose(1, 2))
        return received, count_L, (source_LM, range_LR, max_tokens, num_experts), event, hook or _nothing

    def low_latency_combine(
        self,
        y_LMH: Tensor,
        expert_TK: Tensor,
        weight_TK: Tensor,
        route: tuple[Any, ...],
        *,
        use_logfmt: bool,
        zero_copy: bool,
        async_finish: bool,
        return_recv_hook: bool,
    ) -> tuple[Tensor, Any, Any]:
        """Brings slots back and sums them by their gate weights."""
        check_raw(expert_TK, weight_TK)
        source_LM, range_LR, max_tokens, num_experts = route
        out_TH = y_LMH.new_empty((expert_TK.shape[0], y_LMH.shape[2]))
        event, hook = self.runtime.low_latency_combine(
            *(address(y_LMH), *y_LMH.shape, address(expert_TK), *expert_TK.shape, address(weight_TK)),
            *(address(source_LM), *source_LM.shape, address(range_LR), *range_LR.shape, 0, stream_of(y_LMH.device)),
            *(max_tokens, num_experts, use_logfmt, zero_copy, async_finish, return_recv_hook, address(out_TH)),
        )
        return out_TH, event, hook or _nothing

    def destroy(self) -> None:
        """Gives everything back; the device must not be used any more afterwards."""
        self.runtime.destroy()
        self._ep.unregister_proxy(self._device)
        for left in Path("/dev/shm").glob(f"uccl_barrier_*_uid{os.getuid()}_*"):  # noqa: S108 - named by the library
            left.unlink(missing_ok=True)


def _nothing() -> None:
    """The hook of a call that had nothing to receive."""


def _gather(value: Any) -> list[Any]:
    """A value of every rank, in rank order."""
    gathered: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def _refuse_hosts(names: list[str]) -> None:
    """Refuses ranks of more than one host.

    Raises:
        RuntimeError: There are several.
    """
    if len(set(names)) > 1:
        msg = f"ranks are on {', '.join(sorted(set(names)))}; beyond one host UCCL needs its own wrapper, which this image lacks"
        raise RuntimeError(msg)
