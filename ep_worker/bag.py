"""Sums of bags of rows: float32 sums, one rounding to BF16; what combine does last, and what an expert's caller does after it.

Legend: S rows, P entries of all bags, M bags, H columns.

On a CPU it is an embedding bag, which keeps its float32 sums in registers. On a GPU the same call takes nine times as long
as memory needs (H200, H = 7168: 441 us for 4,096 bags of 2 rows, 1,415 us for 8,166 weighted bags of 4), so there one small
Triton kernel does it (49 and 156 us); torch's CUDA builds bring Triton, and where one does not, the embedding bag stays.
Both are deterministic: a bag's rows are added in their order, without atomics.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import embedding_bag

if TYPE_CHECKING:
    from torch import Tensor

_BLOCK = 1024


def sum_bags(rows_SH: Tensor, entry_P: Tensor, start_M: Tensor, weight_P: Tensor | None = None) -> Tensor:
    """BF16 [M, H]: for each bag the sum of its rows, each times its weight where there are weights.

    Args:
        rows_SH: Rows, BF16, contiguous.
        entry_P: Row of each entry, int64, bag after bag.
        start_M: Where each bag begins, int64; it ends where the next one begins.
        weight_P: Weight of each entry, float32.
    """
    if entry_P.shape[0] == 0:
        return rows_SH.new_zeros((start_M.shape[0], rows_SH.shape[1]))
    if rows_SH.is_cuda and (kernel := _triton_kernel()) is not None:
        out_MH = rows_SH.new_empty((start_M.shape[0], rows_SH.shape[1]))
        grid = (out_MH.shape[0], -(-out_MH.shape[1] // _BLOCK))
        weights = rows_SH if weight_P is None else weight_P
        kernel[grid](
            rows_SH, entry_P, start_M, weights, out_MH, entry_P.shape[0], *out_MH.shape, weight_P is not None, _BLOCK
        )
        return out_MH
    if weight_P is None:
        return embedding_bag(entry_P, rows_SH, start_M, mode="sum")
    return _weighted_embedding_bag(rows_SH, entry_P, start_M, weight_P)


def method(device: torch.device) -> str:
    """How bags are summed on a device: `triton` or `embedding_bag`; recorded with what a backend resolved."""
    return "triton" if device.type == "cuda" and _triton_kernel() is not None else "embedding_bag"


def _weighted_embedding_bag(rows_SH: Tensor, entry_P: Tensor, start_M: Tensor, weight_P: Tensor) -> Tensor:
    """An embedding bag takes its weights in the dtype of its rows: each float32 weight goes in as two BF16 numbers.

    Their sum is the weight to 2^-17, and the row stands twice. That is still half the time of converting all rows to float32
    (52 against 106 us for 600 rows of H = 1024 on one core), because no float32 row ever reaches memory.
    """
    high_P = weight_P.bfloat16()
    low_P = (weight_P - high_P).bfloat16()
    return embedding_bag(
        entry_P.repeat_interleave(2, output_size=2 * entry_P.shape[0]),
        rows_SH,
        start_M * 2,
        per_sample_weights=torch.stack((high_P, low_P), 1).view(-1),
        mode="sum",
    )


@cache
def _triton_kernel() -> Any:
    """The kernel, compiled by Triton at its first use; None where torch came without Triton."""
    try:
        from ep_worker.bag_kernel import sum_bags_kernel  # noqa: PLC0415 - imports triton
    except ImportError:
        return None
    return sum_bags_kernel
