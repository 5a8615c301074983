"""The `Buffer` interface that DeepEP V1 defined and UCCL-EP took over, in its normal and low-latency modes.

Legend: T tokens of this rank, N received rows, H hidden columns, K top-k slots, L local experts, M slots of one expert.

Calls are those of deepseek-ai/DeepEP at dd758ca, `deep_ep/buffers/legacy.py`, and uccl-project/uccl at da914a2,
`ep/bench/buffer.py`. Normal-mode combine sums without weights; low-latency combine applies them, and casts to FP8 itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed as dist

from ep_worker.backends.knobs import chunk_sizes, even, take_knobs
from ep_worker.backends.protocol import Problem, Rows, Slots
from ep_worker.backends.shared import destroy_shared, shared_buffer
from ep_worker.backends.wire import count_selections, target_ranks
from ep_worker.collectives import all_to_all_single

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

NVLINK_RANKS = 8
"""Ranks that normal mode reaches without an RDMA buffer."""

_SLOT_MULTIPLE = 4
_NORMAL_KNOBS = {"num_sms": 20, "num_qps_per_rank": 24, "dispatch_config": "", "combine_config": "", "num_nvl_bytes": 0}
_LOW_LATENCY_KNOBS = {
    "num_qps_per_rank": 0,
    "allow_nvlink_for_low_latency_mode": True,
    "allow_mnnvl": False,
    "return_recv_hook": False,
}


@dataclass(frozen=True)
class Library:
    """What a build offers.

    Attributes:
        buffer: Its `Buffer` class.
        config: Its `Config` class: SMs, then chunk sizes of NVLink and RDMA.
        topk_dtype: What its kernels read expert ids as; another one is an error or garbage.
        extra: What the arm's record says of it besides.
    """

    buffer: Any
    config: Any
    topk_dtype: torch.dtype
    extra: dict[str, Any]


def received_selections(problem: Problem) -> int:
    """(row, expert) pairs that this rank gets, counted by a collective: for arms that never tell the host."""
    sent_R = count_selections(target_ranks(problem), problem.num_ranks)
    received_R = torch.empty_like(sent_R)
    all_to_all_single(received_R, sent_R)
    return int(received_R.sum().item())


class LegacyNormal:
    """Normal mode: row-major, rank-deduplicated, ordered by source rank.

    Attributes:
        num_worst_tokens: Rows that dispatch returns whatever arrives; 0 where it waits on the host to learn how many.
    """

    deterministic = True
    ends_device = False
    load: Callable[[], Library]
    waits_for_host = True

    def __init__(self, problem: Problem) -> None:
        library = self.load()
        knobs = take_knobs(problem, _NORMAL_KNOBS)
        num_sms = even("num_sms", knobs["num_sms"])
        library.buffer.set_num_sms(num_sms)  # class-wide: whoever ran before must not decide
        self._problem, self._class = problem, library.buffer
        self._expert_TK = problem.expert_TK.to(library.topk_dtype).contiguous()
        ranks = problem.num_ranks
        self._configs = [
            library.config(num_sms, *sizes) if sizes is not None else default(ranks)
            for sizes, default in (
                (chunk_sizes("dispatch_config", knobs["dispatch_config"]), library.buffer.get_dispatch_config),
                (chunk_sizes("combine_config", knobs["combine_config"]), library.buffer.get_combine_config),
            )
        ]
        self.num_worst_tokens = 0 if self.waits_for_host else ranks * problem.shape.max_tokens_per_rank
        self._num_selections = 0 if self.waits_for_host else received_selections(problem)
        num_nvl_bytes, num_rdma_bytes = self._sizes(knobs["num_nvl_bytes"])
        self._buffer = shared_buffer(
            ("normal", num_nvl_bytes, num_rdma_bytes, knobs["num_qps_per_rank"]),
            lambda: library.buffer(
                dist.group.WORLD,
                num_nvl_bytes,
                num_rdma_bytes,
                low_latency_mode=False,
                num_qps_per_rank=knobs["num_qps_per_rank"],
                explicitly_destroy=True,
            ),
        )
        self._resolved = {
            "buffer_bytes": num_nvl_bytes + num_rdma_bytes,
            "num_qps_per_rank": knobs["num_qps_per_rank"],
            "dispatch_config": knobs["dispatch_config"] or "library",
            "combine_config": knobs["combine_config"] or "library",
            "expert_alignment": 1,
            "num_worst_tokens": self.num_worst_tokens,
            **library.extra,
        }

    def _sizes(self, num_nvl_bytes: int) -> tuple[int, int]:
        """NVLink and RDMA bytes: what the larger of the two configs hints at. BF16 is the wider dtype: all cells fit."""
        ranks, hidden_bytes = self._problem.num_ranks, 2 * self._problem.shape.hidden
        nvl = max(config.get_nvl_buffer_size_hint(hidden_bytes, ranks) for config in self._configs)
        if ranks <= NVLINK_RANKS:
            return num_nvl_bytes or nvl, 0
        rdma = max(config.get_rdma_buffer_size_hint(hidden_bytes, ranks) for config in self._configs)
        return num_nvl_bytes or nvl, rdma

    def layout(self) -> Any:
        """Counts by rank and expert, and which token goes to which rank."""
        return self._buffer.get_dispatch_layout(self._expert_TK, self._problem.shape.experts)[:4]

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Any) -> Rows:
        """Delivers; waits on the host for the counts unless the arm has a worst case instead."""
        per_rank, per_rdma_rank, per_expert, in_rank = handle
        received, expert_NK, weight_NK, counts, route, _ = self._buffer.dispatch(
            payload_TH if scale_TB is None else (payload_TH, scale_TB),
            num_tokens_per_rank=per_rank,
            num_tokens_per_rdma_rank=per_rdma_rank,
            is_token_in_rank=in_rank,
            num_tokens_per_expert=per_expert,
            topk_idx=self._expert_TK,
            topk_weights=self._problem.weight_TK,
            expert_alignment=1,
            num_worst_tokens=self.num_worst_tokens,
            config=self._configs[0],
        )
        payload_NH, scale_NB = received if isinstance(received, tuple) else (received, None)
        num_selections = self._num_selections if self.num_worst_tokens else sum(counts)
        return Rows(payload_NH, scale_NB, expert_NK, weight_NK, num_selections, route)

    def combine(self, y_NH: Tensor, handle: Any) -> Tensor:
        """Sums over ranks, unweighted."""
        out_TH: Tensor = self._buffer.combine(y_NH, handle, config=self._configs[1])[0]
        return out_TH

    def resolved(self) -> dict[str, Any]:
        """SMs as the class says them now, whoever set them last, and every knob."""
        return {**self._resolved, "num_sms": int(self._class.num_sms)}

    def close(self) -> None:
        """Lets go of the shared buffer."""
        del self._buffer

    @staticmethod
    def release() -> None:
        """Destroys what cells shared."""
        destroy_shared()


class LegacyLowLatency:
    """Low-latency mode: expert-major slots, cast in the dispatch kernel, weighted in the combine kernel."""

    deterministic = False  # slots are given out by atomics
    ends_device = False
    load: Callable[[], Library]

    def __init__(self, problem: Problem) -> None:
        library = self.load()
        knobs = take_knobs(problem, _LOW_LATENCY_KNOBS)
        shape, ranks = problem.shape, problem.num_ranks
        if ranks * shape.max_tokens_per_rank % _SLOT_MULTIPLE:
            slots = ranks * shape.max_tokens_per_rank
            msg = f"an expert has {slots} slots, expected a multiple of {_SLOT_MULTIPLE}: change max_tokens_per_rank"
            raise ValueError(msg)
        num_bytes = library.buffer.get_low_latency_rdma_size_hint(
            shape.max_tokens_per_rank, shape.hidden, ranks, shape.experts
        )
        num_qps = knobs["num_qps_per_rank"] or problem.experts_per_rank
        self._problem = problem
        self._expert_TK = problem.expert_TK.to(library.topk_dtype).contiguous()
        self._hooked = knobs["return_recv_hook"]
        self._buffer = shared_buffer(
            ("low_latency", num_bytes, num_qps, knobs["allow_nvlink_for_low_latency_mode"], knobs["allow_mnnvl"]),
            lambda: library.buffer(
                dist.group.WORLD,
                0,
                num_bytes,
                low_latency_mode=True,
                num_qps_per_rank=num_qps,
                allow_nvlink_for_low_latency_mode=knobs["allow_nvlink_for_low_latency_mode"],
                allow_mnnvl=knobs["allow_mnnvl"],
                explicitly_destroy=True,
            ),
        )
        self._resolved = {**knobs, "buffer_bytes": num_bytes, "num_qps_per_rank": num_qps, **library.extra}

    def layout(self) -> None:
        """Nothing: dispatch does it."""

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Any) -> Slots:
        """Casts where the cell is FP8, and delivers; with hooks, sends and then receives."""
        shape, fp8 = self._problem.shape, self._problem.dtype.value == "fp8"
        received, count_L, route, _, hook = self._buffer.low_latency_dispatch(
            payload_TH,
            self._expert_TK,
            shape.max_tokens_per_rank,
            shape.experts,
            use_fp8=fp8,
            round_scale=False,
            use_ue8m0=False,
            async_finish=False,
            return_recv_hook=self._hooked,
        )
        if self._hooked:
            hook()
        payload_LMH, scale_LMB = received if fp8 else (received, None)
        return Slots(payload_LMH, scale_LMB, count_L, route)

    def combine(self, y_NH: Tensor, handle: Any) -> Tensor:
        """Sums over experts, by the gate weights of the sender."""
        out_TH, _, hook = self._buffer.low_latency_combine(
            y_NH,
            self._expert_TK,
            self._problem.weight_TK,
            handle,
            use_logfmt=False,
            zero_copy=False,
            async_finish=False,
            return_recv_hook=self._hooked,
        )
        if self._hooked:
            hook()
        combined_TH: Tensor = out_TH
        return combined_TH

    def resolved(self) -> dict[str, Any]:
        """Buffer size, queues, and every knob. These kernels have no SM knob."""
        return self._resolved

    def close(self) -> None:
        """Lets go of the shared buffer."""
        del self._buffer

    @staticmethod
    def release() -> None:
        """Destroys what cells shared."""
        destroy_shared()
