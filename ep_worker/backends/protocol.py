"""What an arm is: layout, dispatch, combine, on buffers made once; and what it is made from.

Legend: T tokens of this rank, N received rows, H hidden columns, K top-k slots, B = H / 128 scale blocks, L local experts.

A backend is a class that takes a `Problem`. Those of campaigns stand in `ep_worker.backends` and, with what they can do, in
`ep_worker.contract.capabilities`; tests and launches by hand may name another `module:Class`, with a class attribute
`capability`. All its methods are collective: every rank calls them in the same order.
The ranks are those of torch's default process group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from ep_worker.contract.spec import Shape
    from ep_worker.contract.terms import Dtype


@dataclass(frozen=True)
class Problem:
    """One cell as one rank sees it.

    Attributes:
        rank: This rank.
        num_ranks: EP size.
        shape: Shape; buffers are made for `max_tokens_per_rank`, which is at least `tokens_per_rank`.
        dtype: What dispatch carries.
        device: Where tensors live.
        expert_TK: Global expert ids of this rank's tokens, int64, -1 where a slot goes nowhere.
        weight_TK: Their gate weights, float32.
        knobs: What the arm asks for, as the campaign says it.
    """

    rank: int
    num_ranks: int
    shape: Shape
    dtype: Dtype
    device: torch.device
    expert_TK: Tensor
    weight_TK: Tensor
    knobs: dict[str, Any]

    @property
    def num_tokens(self) -> int:
        """Tokens of this rank."""
        return int(self.expert_TK.shape[0])

    @property
    def experts_per_rank(self) -> int:
        """Local experts."""
        return self.shape.experts // self.num_ranks


@dataclass(frozen=True)
class Rows:
    """What dispatch delivers: rows in the order of the arm, valid until the next dispatch of the same object.

    Attributes:
        payload_NH: BF16, or FP8; rows may be strided.
        scale_NB: Scales of FP8 rows; else None.
        expert_NK: Local expert ids of each row's slots, -1 for experts elsewhere; a row of -1 is padding.
        weight_NK: Gate weights; meaningful where the id is local.
        num_selections: Ids that are local, over all rows; None where the arm never learns it, and whoever groups must count.
        handle: What combine needs to know of this dispatch.
    """

    payload_NH: Tensor
    scale_NB: Tensor | None
    expert_NK: Tensor
    weight_NK: Tensor
    num_selections: int | None
    handle: Any


class Backend(Protocol):
    """One arm, made for one cell and boundary.

    Attributes:
        deterministic: Whether dispatches by one handle deliver their rows in one order.
    """

    deterministic: bool

    def __init__(self, problem: Problem) -> None: ...

    def layout(self) -> Any:
        """What goes where. Where layout is not a call of its own, it is made once for a cell, outside any timed region."""

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Any) -> Rows:
        """Delivers tokens (BF16, or FP8 with scales) to the ranks of their experts."""

    def combine(self, y_NH: Tensor, handle: Any) -> Tensor:
        """Sums, for each own token, what its rows came to on the ranks that got them: BF16 [T, H]."""

    def resolved(self) -> dict[str, Any]:
        """What the arm really runs with: `buffer_bytes`, and SM, queue or channel counts where it has such."""

    @staticmethod
    def provenance() -> dict[str, Any]:
        """`backend_version`, `backend_commit`, `backend_files` and `jit_cache`, as `contract.provenance` means them."""

    def close(self) -> None:
        """Gives buffers and connections back."""
