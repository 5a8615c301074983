"""What each backend's interface can do, each fact with its source; the plan rejects by this table, never a run by surprise.

Sources: DeepEP is github.com/deepseek-ai/DeepEP at commit dd758ca (2.1.0); UCCL is github.com/uccl-project/uccl at
commit da914a2. "ours" is this repository.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from ep_worker.contract.terms import ApiMode, Boundary, Device, Dtype, Mode, Placement

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Capability:
    """One backend through one of its API modes.

    Attributes:
        devices: Where it runs.
        rank_counts: EP sizes that it is compiled for; empty for any.
        hidden_sizes: Hidden sizes that it is compiled for; empty for any multiple of `hidden_multiple`.
        hidden_multiple: Divisor of the hidden size.
        max_top_k: Most experts of a token; 0 for no limit of its own.
        max_tokens_per_rank: Largest capacity; 0 for no limit of its own.
        empty_ranks: Whether a rank may hold no token.
        separable_layout: Whether layout is a call of its own (False: inside dispatch, or reused).
        cast: Who makes FP8 of BF16.
        combine_weights: Whether combine itself applies the gate weights.
        expert_major: Whether dispatch already groups rows by local expert.
        graphable: Whether a CUDA graph can capture it.
        bf16_accumulations: BF16 roundings while contributions are summed, for each rank beyond the first (0: FP32 sums).
        sources: Where each fact stands, by attribute name.
    """

    devices: tuple[Device, ...]
    cast: Placement
    rank_counts: tuple[int, ...] = ()
    hidden_sizes: tuple[int, ...] = ()
    hidden_multiple: int = 128
    max_top_k: int = 0
    max_tokens_per_rank: int = 0
    empty_ranks: bool = True
    separable_layout: bool = False
    combine_weights: bool = False
    expert_major: bool = False
    graphable: bool = False
    bf16_accumulations: int = 0
    sources: tuple[tuple[str, str], ...] = ()

    def source(self, attribute: str) -> str:
        """The source of one fact."""
        return dict(self.sources).get(attribute, "ours")


_ANYWHERE = (Device.CPU, Device.CUDA)
_GPU = (Device.CUDA,)
_LOW_LATENCY_HIDDEN = (2048, 2560, 4096, 5120, 6144, 7168, 8192)
_V1_NORMAL = (
    ("rank_counts", "DeepEP csrc/kernels/launch.cuh and deep_ep/buffers/legacy.py get_dispatch_config"),
    ("cast", "DeepEP deep_ep/buffers/legacy.py Buffer.dispatch takes (fp8, scales)"),
    ("separable_layout", "DeepEP deep_ep/buffers/legacy.py Buffer.get_dispatch_layout"),
    ("graphable", "DeepEP csrc: dispatch waits on the host for receive counts"),
    ("empty_ranks", "sgl-project/sglang issue 25397: zero-token ranks assert or hang"),
)
_LOW_LATENCY = (
    ("hidden_sizes", "DeepEP csrc/kernels/launch.cuh SWITCH_HIDDEN"),
    ("max_top_k", "DeepEP csrc/kernels/internode_ll.cu kNumMaxTopK"),
    ("max_tokens_per_rank", "DeepEP issue 392: NVSHMEM queue depth 1024 bounds it to 511"),
    ("cast", "DeepEP deep_ep/buffers/legacy.py low_latency_dispatch casts in its kernel"),
    ("combine_weights", "DeepEP deep_ep/buffers/legacy.py low_latency_combine takes topk_weights"),
)

_V2 = (
    ("max_top_k", "DeepEP deep_ep/buffers/elastic.py"),
    ("cast", "DeepEP deep_ep/buffers/elastic.py ElasticBuffer.dispatch takes (x, sf)"),
    ("empty_ranks", "DeepEP tests/elastic/test_ep.py uses at least one token a rank"),
    ("graphable", "DeepEP deep_ep/buffers/elastic.py: do_cpu_sync waits on the host for receive counts"),
)

CAPABILITIES: Mapping[tuple[str, ApiMode], Capability] = {
    ("torch-a2a", ApiMode.PORTABLE): Capability(_ANYWHERE, Placement.CALLER_OUTSIDE, separable_layout=True),
    ("torch-a2a-cached", ApiMode.PORTABLE): Capability(_ANYWHERE, Placement.CALLER_OUTSIDE, graphable=True),
    ("torch-agrs", ApiMode.PORTABLE): Capability(
        _ANYWHERE, Placement.CALLER_OUTSIDE, graphable=True, bf16_accumulations=1
    ),
    ("deepep-v1", ApiMode.NORMAL): Capability(
        _GPU,
        Placement.CALLER_OUTSIDE,
        rank_counts=(2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 144, 160),
        separable_layout=True,
        empty_ranks=False,
        sources=_V1_NORMAL,
    ),
    ("deepep-v1-nosync", ApiMode.NORMAL): Capability(
        _GPU,
        Placement.CALLER_OUTSIDE,
        rank_counts=(2, 4, 8),
        separable_layout=True,
        empty_ranks=False,
        graphable=True,
        sources=(
            *_V1_NORMAL,
            ("rank_counts", "DeepEP deep_ep/buffers/legacy.py: num_worst_tokens is for NVLink ranks only"),
        ),
    ),
    ("deepep-v1", ApiMode.LOW_LATENCY): Capability(
        _GPU,
        Placement.IN_KERNEL,
        hidden_sizes=(*_LOW_LATENCY_HIDDEN, 3072),
        max_top_k=11,
        max_tokens_per_rank=511,
        combine_weights=True,
        expert_major=True,
        graphable=True,
        sources=_LOW_LATENCY,
    ),
    ("deepep-v2", ApiMode.ELASTIC): Capability(
        _GPU,
        Placement.CALLER_OUTSIDE,
        max_top_k=32,
        empty_ranks=False,
        sources=_V2,
    ),
    ("deepep-v2-nosync", ApiMode.ELASTIC): Capability(
        _GPU, Placement.CALLER_OUTSIDE, max_top_k=32, empty_ranks=False, graphable=True, sources=_V2
    ),
    ("uccl", ApiMode.NORMAL): Capability(
        _GPU,
        Placement.CALLER_OUTSIDE,
        rank_counts=(2, 4, 8, 16, 24, 32, 64),
        separable_layout=True,
        empty_ranks=False,
        sources=(
            ("rank_counts", "UCCL ep/src: intranode kernels for 2, 4, 8 ranks; RDMA ranks 2, 3, 4, 8"),
            ("cast", "UCCL ep/bench/buffer.py Buffer.dispatch"),
            ("separable_layout", "UCCL ep/bench/buffer.py Buffer.get_dispatch_layout"),
            ("empty_ranks", "UCCL 0.1.1 ep/src asserts num_tokens > 0; pull request 984"),
            ("graphable", "UCCL ep/bench/buffer.py: dispatch waits on the host for receive counts (intranode_prepare)"),
        ),
    ),
    ("uccl", ApiMode.LOW_LATENCY): Capability(
        _GPU,
        Placement.IN_KERNEL,
        hidden_sizes=_LOW_LATENCY_HIDDEN,
        max_top_k=9,
        max_tokens_per_rank=511,
        combine_weights=True,
        expert_major=True,
        graphable=True,
        sources=(
            ("hidden_sizes", "UCCL ep/include/ep_launch.cuh"),
            ("max_top_k", "UCCL 0.1.1 internode_ll: 9; 16 after pull request 1016"),
            ("max_tokens_per_rank", "DeepEP issue 392"),
            ("cast", "UCCL ep/bench/buffer.py low_latency_dispatch casts in its kernel"),
            ("combine_weights", "UCCL ep/bench/buffer.py low_latency_combine"),
        ),
    ),
}


@dataclass(frozen=True)
class Unsupported:
    """Why a capability table rejects something: a stable code, a sentence, and where the fact stands."""

    code: str
    reason: str
    source: str


def capability(backend: str, api_mode: ApiMode) -> Capability | None:
    """The table's entry, or None where the pair does not exist.

    A backend named `module:Class` says it itself, in a class attribute `capability`; None where it cannot be imported here.
    That form serves tests and launches by hand: a campaign's backends stand in the table, because the plan is made where no
    backend can be imported.
    """
    module, separator, name = backend.partition(":")
    if not separator:
        return CAPABILITIES.get((backend, api_mode))
    try:
        entry = getattr(import_module(module), name).capability
    except (ImportError, AttributeError):
        return None
    return entry if isinstance(entry, Capability) else None


def api_modes(backend: str) -> tuple[ApiMode, ...]:
    """The API modes of a backend, in the table's order; empty for an unknown backend."""
    return tuple(mode for name, mode in CAPABILITIES if name == backend)


def reject_shape(
    entry: Capability,
    device: Device,
    *,
    ep_size: int,
    hidden: int,
    top_k: int,
    max_tokens_per_rank: int,
    has_empty_rank: bool,
) -> Unsupported | None:
    """Why a backend cannot take a shape, or None."""
    if device not in entry.devices:
        return Unsupported("device", f"needs {entry.devices[-1].value}, the campaign runs on {device.value}", "ours")
    checks = (
        (
            entry.rank_counts and ep_size not in entry.rank_counts,
            "rank_counts",
            f"EP size {ep_size}",
            entry.rank_counts,
        ),
        (
            entry.hidden_sizes and hidden not in entry.hidden_sizes,
            "hidden_sizes",
            f"hidden {hidden}",
            entry.hidden_sizes,
        ),
        (
            hidden % entry.hidden_multiple,
            "hidden_multiple",
            f"hidden {hidden}",
            f"multiples of {entry.hidden_multiple}",
        ),
        (entry.max_top_k and top_k > entry.max_top_k, "max_top_k", f"top-k {top_k}", f"at most {entry.max_top_k}"),
        (
            entry.max_tokens_per_rank and max_tokens_per_rank > entry.max_tokens_per_rank,
            "max_tokens_per_rank",
            f"{max_tokens_per_rank} tokens/rank",
            f"at most {entry.max_tokens_per_rank}",
        ),
        (has_empty_rank and not entry.empty_ranks, "empty_ranks", "a rank without tokens", "at least one token a rank"),
    )
    for failed, attribute, found, expected in checks:
        if failed:
            return Unsupported(attribute, f"{found}; it takes {expected}", entry.source(attribute))
    return None


def reject_mode(entry: Capability, device: Device, mode: Mode) -> Unsupported | None:
    """Why a mode cannot be measured, or None."""
    if device is Device.CPU:
        reasons = {
            Mode.LAUNCH_HIDDEN: "a CPU has no queue of launches to hide: the call is the work",
            Mode.GRAPH: "a CPU has no device graph to capture",
            Mode.OVERLAPPED: "a CPU rank computes and communicates on the same core: there is nothing to overlap with",
        }
        return Unsupported("cpu_mode", reasons[mode], "ours") if mode in reasons else None
    if mode is Mode.GRAPH and not entry.graphable:
        return Unsupported("graphable", "waits on the host, so a graph cannot capture it", entry.source("graphable"))
    if mode is Mode.OVERLAPPED:
        return Unsupported("overlapped", "this worker has no asynchronous form of this backend", "ours")
    return None


def placements(entry: Capability, dtype: Dtype, boundary: Boundary) -> dict[str, str]:
    """Who casts, permutes and weights at a boundary: the fields `cast_`, `permute_` and `weight_placement` of a record."""
    inside = boundary is not Boundary.DISPATCH_READY
    gemm = boundary is Boundary.GEMM_READY
    cast = Placement.NONE
    if dtype is Dtype.FP8:
        cast = entry.cast
        if cast is Placement.CALLER_OUTSIDE and inside:
            cast = Placement.CALLER_INSIDE
    permute = Placement.IN_KERNEL if entry.expert_major else (Placement.CALLER_INSIDE if gemm else Placement.NONE)
    weight = Placement.CALLER_INSIDE if gemm else Placement.CALLER_OUTSIDE
    if entry.combine_weights:
        weight = Placement.IN_KERNEL
    return {"cast_placement": cast.value, "permute_placement": permute.value, "weight_placement": weight.value}


def same_work(entry: Capability, dtype: Dtype, boundary: Boundary) -> Boundary | None:
    """An earlier boundary that times exactly the same work, so that one measurement serves both names; else None."""
    order = list(Boundary)
    for earlier in order[: order.index(boundary)]:
        mine, other = placements(entry, dtype, boundary), placements(entry, dtype, earlier)
        if mine == other:
            return earlier
    return None
