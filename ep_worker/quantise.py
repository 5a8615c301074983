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


CAST_ERROR = 2.0**-4 * (1 + 2.0**-8)
"""Largest relative error of one rounding to e4m3 (3 bits of mantissa: half of 2^-3), with room for float32 before it."""

_HALF_STEP_NEAR_ZERO = 2.0**-10 * (1 + 2.0**-8)
_SCALE_ERROR = 2.0**-16


def is_cast_of(q_NH: Tensor, scale_NB: Tensor, x_NH: Tensor) -> Tensor:
    """Whether FP8 rows are a rounding of their input, bool [N], whoever rounded: kernels differ from `quantise` in last bits.

    Scales must be amax / 448 of their blocks to 2^-16, values the input to one rounding.
    """
    num_rows, hidden = x_NH.shape
    x_NBC = x_NH.float().view(num_rows, hidden // FP8_BLOCK, FP8_BLOCK)
    amax_NB = x_NBC.abs().amax(2)
    right_NB = (scale_NB * FP8_MAX - amax_NB).abs() <= _SCALE_ERROR * amax_NB
    error_NBC = (dequantise(q_NH, scale_NB).view_as(x_NBC) - x_NBC).abs()
    allowed_NBC = torch.maximum(x_NBC.abs() * CAST_ERROR, scale_NB.unsqueeze(2) * _HALF_STEP_NEAR_ZERO)
    right: Tensor = right_NB.all(1) & (error_NBC <= allowed_NBC).flatten(1).all(1)
    return right
