"""From rows to expert groups and back, for every arm whose interface is row-major: one helper, so that no arm is favoured.

Legend: N received rows, H hidden columns, K top-k slots, L local experts, G (row, local expert) pairs: the rows that a
grouped GEMM gets, B scale blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ep_worker.bag import sum_bags
from ep_worker.quantise import take_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ep_worker.backends.protocol import Rows


@dataclass(frozen=True)
class Groups:
    """Rows of each local expert together, experts in order, rows of one expert in the order they arrived in.

    Attributes:
        payload_GH: A copy of the row of each pair, contiguous.
        scale_GB: Its scales; None in BF16.
        end_L: Where each expert's rows end, int32: the offsets of a grouped GEMM.
        weight_G: Gate weight of each pair, float32, in the order of the groups.
        bag_G: The groups' rows in the order of the received rows.
        bag_start_N: Where each received row's pairs begin in it.
    """

    payload_GH: Tensor
    scale_GB: Tensor | None
    end_L: Tensor
    weight_G: Tensor
    bag_G: Tensor
    bag_start_N: Tensor


def group(rows: Rows, num_local_experts: int) -> Groups:
    """Copies each row into the group of each of its local experts; waits for the host only to count, where the arm did not."""
    top_k, num_pairs = rows.expert_NK.shape[1], rows.num_selections
    if num_pairs is None:
        num_pairs = int((rows.expert_NK >= 0).sum())
    key, order = torch.sort(rows.expert_NK.reshape(-1), stable=True)  # ids of -1 come first
    skipped = key.shape[0] - num_pairs
    key_G, slot_G = key[skipped:], order[skipped:]
    row_G = slot_G.div(top_k, rounding_mode="floor")
    expert_L = torch.arange(num_local_experts, dtype=key.dtype, device=key.device)
    pairs_N = (rows.expert_NK >= 0).sum(1)
    return Groups(
        take_rows(rows.payload_NH, row_G),
        None if rows.scale_NB is None else rows.scale_NB.index_select(0, row_G),
        torch.searchsorted(key_G, expert_L, right=True, out_int32=True),
        rows.weight_NK.reshape(-1).index_select(0, slot_G),
        torch.argsort(slot_G),
        pairs_N.cumsum(0) - pairs_N,
    )


def reduce(y_GH: Tensor, groups: Groups) -> Tensor:
    """Weights what the experts made of each pair and sums each received row's: BF16 [N, H], float32 sums, one rounding."""
    return sum_bags(y_GH, groups.bag_G, groups.bag_start_N, groups.weight_G.index_select(0, groups.bag_G))
