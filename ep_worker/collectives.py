"""Collectives under the names that this torch has, and the few things that ranks tell one another outside any timed region."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import distributed as dist

if TYPE_CHECKING:
    from collections.abc import Callable

# torch 2.13 renamed both; the old names warn there, the new ones are missing in 2.11.
all_gather_single: Callable[..., object] = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
reduce_scatter_single: Callable[..., object] = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
all_to_all_single: Callable[..., object] = dist.all_to_all_single


def agree(own: bool, device: torch.device) -> bool:
    """Whether every rank says yes; what ranks do next must follow from this and never from a rank's own verdict."""
    verdict = torch.tensor([int(own)], dtype=torch.int32, device=device)
    dist.all_reduce(verdict, op=dist.ReduceOp.MIN)
    return bool(verdict.item())


def gather_bytes(own: bytes, device: torch.device) -> list[bytes]:
    """The byte strings of all ranks, in rank order; they must have one length."""
    mine = torch.tensor(list(own), dtype=torch.uint8, device=device)
    all_RN = torch.empty((dist.get_world_size(), len(own)), dtype=torch.uint8, device=device)
    all_gather_single(all_RN.view(-1), mine)
    return [bytes(row) for row in all_RN.tolist()]
