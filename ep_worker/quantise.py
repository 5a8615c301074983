"""The one FP8 quantiser of this worker: e4m3, blocks of 128 columns, a float32 scale of amax / 448 for each.

Legend: T tokens, N rows, G chosen rows, H hidden columns, B = H / 128 blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from ep_worker.contract.accounting import FP8_BLOCK

if TYPE_CHECKING:
    from torch import Tensor

FP8 = torch.float8_e4m3fn
FP8_MAX = 448.0
_LEAST_SCALE = 2.0**-100
"""Scale of an all-zero block: any positive number keeps its zeros."""


def take_rows(x_NH: Tensor, row_G: Tensor) -> Tensor:
    """Some rows of BF16 or FP8 rows, which may be strided: copied as 64-bit words, which every device can gather."""
    return x_NH.view(torch.int64).index_select(0, row_G).view(x_NH.dtype)


def quantise(x_TH: Tensor) -> tuple[Tensor, Tensor]:
    """FP8 values [T, H] and float32 scales [T, B] of BF16 or float32 rows."""
    num_rows, hidden = x_TH.shape
    x_TBC = x_TH.float().view(num_rows, hidden // FP8_BLOCK, FP8_BLOCK)
    # abs in float32: on the CPU a maximum over BF16 takes five times as long.
    scale_TB1 = x_TBC.abs().amax(2, keepdim=True).div_(FP8_MAX).clamp_(min=_LEAST_SCALE)
    return (x_TBC / scale_TB1).to(FP8).view(num_rows, hidden), scale_TB1.squeeze(2)


def dequantise(q_NH: Tensor, scale_NB: Tensor) -> Tensor:
    """Float32 rows [N, H] of FP8 values and their scales."""
    num_rows, hidden = q_NH.shape
    q_NBC = q_NH.float().view(num_rows, hidden // FP8_BLOCK, FP8_BLOCK)
    return (q_NBC * scale_NB.unsqueeze(2)).view(num_rows, hidden)
