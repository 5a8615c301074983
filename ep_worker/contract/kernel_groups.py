"""Which kernels an arm may run between its first and last stamp, in groups by name. A kernel of no group is an error.

Names are those of `__global__` functions in deepseek-ai/DeepEP at dd758ca (`deep_ep::legacy` for V1, which v1.2.1 has without
`legacy`; `deep_ep::elastic` for V2) and uccl-project/uccl at da914a2, and those of torch and NCCL. On a CPU torch's operators
stand for kernels.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ep_worker.contract.terms import Device

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_LEGACY_NORMAL = r"(intranode|internode)::"


def _legacy(library: str) -> dict[str, str]:
    """Kernels of the `Buffer` interface, of a library's namespace."""
    return {
        "layout": rf"\b{library}layout::get_dispatch_layout\b",
        "notify": rf"\b{library}{_LEGACY_NORMAL}(cached_)?notify(_dispatch|_combine)?\b",
        "dispatch": rf"\b{library}({_LEGACY_NORMAL}|internode_ll::)dispatch\b",
        "combine": rf"\b{library}({_LEGACY_NORMAL}|internode_ll::)combine\b",
        "barrier": rf"\b{library}{_LEGACY_NORMAL}barrier\b",
        "clean": rf"\b{library}internode_ll::clean_low_latency_buffer\b",
    }


_DEEPEP_V1 = _legacy(r"deep_ep::(legacy::)?")
_DEEPEP_V2 = {
    "dispatch": r"\bdeep_ep::elastic::(hybrid_)?dispatch_impl\b",
    "dispatch_prologue": r"\bdeep_ep::elastic::dispatch_deterministic_prologue_impl\b",
    "dispatch_epilogue": r"\bdeep_ep::elastic::dispatch_copy_epilogue_impl\b",
    "combine": r"\bdeep_ep::elastic::(hybrid_)?combine_impl\b",
    "combine_epilogue": r"\bdeep_ep::elastic::combine_reduce_epilogue_impl\b",
    "barrier": r"\bdeep_ep::elastic::barrier_impl\b",
}
_UCCL = _legacy(r"(uccl::)?")
_NCCL = {"collective": r"^ncclDevKernel_|^ncclKernel_|^ncclSymk"}
_TORCH = {
    "row_sums": r"^sum_bags_kernel|EmbeddingBag",
    "copy": r"^Memcpy |^Memset |CatArrayBatchedCopy",
    "index": r"at::native::.*([Ii]nd(ex|ices)|[Gg]ather|[Ss]catter|nonzero|flag_kernel|compute_agg)",
    "sort_scan": r"\b(at_cuda_detail::)?cub::|\bthrust::|at::native::.*([Ss]ort|[Ss]can|[Hh]istogram|searchsorted)",
    "reduce": r"at::native::.*reduce_kernel",
    "elementwise": r"at::native::.*elementwise",
}


def _operators(names: str) -> str:
    """Exactly these operators of torch, in place or not."""
    return rf"^aten::_?({'|'.join(names.split())})_?$"


_CPU = {
    "collective": r"^gloo:|^c10d::|^record_param_comms$",
    "index": _operators(
        "index index_select index_put index_add gather scatter scatter_add nonzero nonzero_static take"
    ),
    "sort_scan": _operators("sort argsort cumsum bincount"),
    "reduce": _operators("sum max min amax amin any all embedding_bag embedding_bag_forward_only"),
    "elementwise": _operators(
        "add sub mul div floor_divide clamp clamp_min abs where eq ne lt le gt ge to to_copy copy fill zero"
        " bitwise_and bitwise_or bitwise_not logical_and logical_or logical_not"
    ),
    "views_and_memory": _operators(
        "empty empty_like empty_strided new_empty zeros zeros_like new_zeros ones ones_like full arange"
        " view as_strided slice select narrow reshape"
        " reshape_alias unsafe_view transpose t permute expand expand_as unsqueeze squeeze contiguous clone resize detach alias"
        " chunk split split_with_sizes unbind stack cat item local_scalar_dense is_nonzero resolve_conj resolve_neg result_type"
    ),
}
_OWN: Mapping[str, Mapping[str, str]] = {
    "torch-a2a": _NCCL,
    "torch-a2a-cached": _NCCL,
    "torch-agrs": _NCCL,
    "deepep-v1": _DEEPEP_V1,
    "deepep-v1-nosync": _DEEPEP_V1,
    "deepep-v2": _DEEPEP_V2,
    "deepep-v2-nosync": _DEEPEP_V2,
    "uccl": _UCCL,
}


def groups_of(backend: str, device: Device) -> dict[str, str]:
    """Names of groups with the pattern of each, in the order in which they are tried.

    Raises:
        ValueError: The backend declares none.
    """
    if backend not in _OWN:
        msg = f"backend {backend!r} declares no groups of kernels, known are {', '.join(sorted(_OWN))}: declare them"
        raise ValueError(msg)
    return dict(_CPU) if device is Device.CPU else {**_OWN[backend], **_TORCH}


def group_of(kernel: str, groups: Mapping[str, str]) -> str | None:
    """The first group that a kernel's name belongs to, or None."""
    return next((name for name, pattern in groups.items() if re.search(pattern, kernel)), None)


def unmatched(kernels: Iterable[str], groups: Mapping[str, str]) -> list[str]:
    """Kernels of no group, each once, sorted."""
    return sorted({kernel for kernel in kernels if group_of(kernel, groups) is None})
