"""A round-trip at one boundary: what is cast, dispatched, grouped, weighted and combined, in the code that is timed.

Legend: T tokens of this rank, N received rows, G (row, local expert) pairs, H hidden columns, B scale blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_worker.backends.protocol import Slots
from ep_worker.contract.terms import Boundary, Dtype, Placement
from ep_worker.grouping import Groups, group, reduce
from ep_worker.quantise import quantise

if TYPE_CHECKING:
    from torch import Tensor

    from ep_worker.backends.protocol import Backend, Problem, Rows
    from ep_worker.contract.capabilities import Capability


@dataclass(frozen=True)
class Tokens:
    """The input of a round-trip in the form that its boundary starts from: BF16, or FP8 with scales."""

    payload_TH: Tensor
    scale_TB: Tensor | None


@dataclass(frozen=True)
class Arrived:
    """What one dispatch delivered; `groups` where the boundary ends with rows that this worker grouped."""

    rows: Rows | Slots
    groups: Groups | None


class RoundTrip:
    """The steps of one arm at one boundary.

    Attributes:
        backend: The arm.
        problem: The cell.
        expert_outputs_round: Whether an expert's own BF16 output is a rounding of its exact one: of grouped FP8 rows.
        kernel_casts: Whether dispatch itself makes FP8 of BF16, by an arithmetic of its own.
    """

    def __init__(self, backend: Backend, problem: Problem, entry: Capability, boundary: Boundary) -> None:
        fp8 = problem.dtype is Dtype.FP8
        caller_casts = fp8 and entry.cast is Placement.CALLER_OUTSIDE
        self.backend = backend
        self.problem = problem
        self.expert_outputs_round = fp8 and (boundary is Boundary.GEMM_READY or entry.expert_major)
        self.kernel_casts = fp8 and entry.cast is Placement.IN_KERNEL
        self._cast_before = caller_casts and boundary is Boundary.DISPATCH_READY
        self._cast_inside = caller_casts and boundary is not Boundary.DISPATCH_READY
        self._grouped = boundary is Boundary.GEMM_READY

    def tokens(self, x_TH: Tensor) -> Tokens:
        """BF16 input in the form that this boundary starts from; outside any timed region."""
        return Tokens(*quantise(x_TH)) if self._cast_before else Tokens(x_TH, None)

    def layout(self) -> Any:
        """What goes where."""
        return self.backend.layout()

    def dispatch(self, tokens: Tokens, handle: Any) -> Arrived:
        """Delivers tokens to their experts."""
        payload_TH, scale_TB = (
            quantise(tokens.payload_TH) if self._cast_inside else (tokens.payload_TH, tokens.scale_TB)
        )
        rows = self.backend.dispatch(payload_TH, scale_TB, handle)
        if isinstance(rows, Slots) or not self._grouped:
            return Arrived(rows, None)
        return Arrived(rows, group(rows, self.problem.experts_per_rank))

    def combine(self, y: Tensor, arrived: Arrived) -> Tensor:
        """Brings expert outputs back to their tokens: of each group's row, or of each row, already weighted and summed."""
        y_NH = y if arrived.groups is None else reduce(y, arrived.groups)
        return self.backend.combine(y_NH, arrived.rows.handle)
