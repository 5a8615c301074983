"""Arms with a fault, named `worker.faulty_arms:Class` in a spec: what the oracle must catch, and how a rank can fail.

`Misdelivering` has another fault in every cell: knob `faults` lists them, in the order of the cells.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ep_worker.backends.torch_a2a import TorchA2a
from ep_worker.contract.capabilities import CAPABILITIES, Capability
from ep_worker.contract.terms import ApiMode

if TYPE_CHECKING:
    from torch import Tensor

    from ep_worker.backends.protocol import Problem, Rows
    from ep_worker.backends.torch_a2a import Layout

CACHED = CAPABILITIES[("torch-a2a-cached", ApiMode.PORTABLE)]


class Misdelivering(TorchA2a):
    """One fault for each cell; a name with `late_` acts from its third round-trip on, which is after the first check."""

    capability: ClassVar[Capability] = CACHED
    made: ClassVar[int] = 0

    def __init__(self, problem: Problem) -> None:
        super().__init__(replace(problem, knobs={}))
        self._fault = problem.knobs["faults"][Misdelivering.made]
        Misdelivering.made += 1
        self._rank = problem.rank
        self._num_dispatched = 0
        self._num_combined = 0
        self._last_out: Tensor | None = None

    def layout(self) -> Layout:
        """Lays out; with the fault `neighbour`, as if each rank held the experts of the one before it."""
        honest = self._problem
        if self._fault == "neighbour":
            away_TK = (honest.expert_TK + honest.experts_per_rank) % honest.shape.experts
            self._problem = replace(honest, expert_TK=away_TK)
        handle = super().layout()
        self._problem = honest
        return handle

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Layout) -> Rows:
        """Delivers, and spoils what arrived."""
        rows = super().dispatch(payload_TH, scale_TB, handle)
        self._num_dispatched += 1
        ids = rows.expert_NK
        if self._fault == "swapped_experts":
            return replace(rows, expert_NK=torch.where(ids == 0, 1, torch.where(ids == 1, 0, ids)))
        if self._fault == "wrong_weights":
            return replace(rows, weight_NK=rows.weight_NK.flip(1))
        if self._fault == "wrong_scales":
            return replace(rows, scale_NB=rows.scale_NB * 2)
        if self._fault == "duplicated_row":
            again = torch.cat([torch.zeros(1, dtype=torch.int64), torch.arange(ids.shape[0])])
            return replace(
                rows,
                payload_NH=rows.payload_NH[again],
                scale_NB=rows.scale_NB[again],
                expert_NK=ids[again],
                weight_NK=rows.weight_NK[again],
            )
        return rows

    def combine(self, y_NH: Tensor, handle: Layout) -> Tensor:
        """Combines, and spoils what comes back."""
        y_NH = y_NH[-handle.num_received :]
        if self._fault == "dropped_rank" and self._rank == 1:
            y_NH = torch.zeros_like(y_NH)
        out = super().combine(y_NH, handle)
        self._num_combined += 1
        last, self._last_out = self._last_out, out
        late = self._num_combined > 2
        if self._fault == "zeroed_token":
            out[0] = 0
        elif self._fault == "late_stale" and late:
            return last if last is not None else out
        elif self._fault == "late_timed" and 2 <= self._num_combined <= 6:
            out[0] *= 2
        elif self._fault == "unrouted":
            out += 2.0**-20
        return out


class Remembering(TorchA2a):
    """Communicates once for each buffer and handle that it is given: every later iteration moves nothing."""

    capability: ClassVar[Capability] = CACHED

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._seen: dict[tuple[str, int, int], Any] = {}

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Layout) -> Rows:
        """Delivers what it delivered before."""
        key = ("dispatch", payload_TH.data_ptr(), id(handle))
        if key not in self._seen:
            self._seen[key] = super().dispatch(payload_TH, scale_TB, handle)
        return self._seen[key]


class Hasty(TorchA2a):
    """Every fifth dispatch does not wait for its data: it hands out what the last one left."""

    capability: ClassVar[Capability] = CACHED

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._num_dispatched = 0
        self._last: Rows | None = None

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Layout) -> Rows:
        """Delivers, or does not."""
        self._num_dispatched += 1
        if self._num_dispatched % 5 or self._last is None:
            rows = super().dispatch(payload_TH, scale_TB, handle)
            payload_NH = rows.payload_NH.clone()  # else the next dispatch overwrites it, and an old buffer looks new
            self._last = replace(rows, payload_NH=payload_NH)
        return self._last


class Raising(TorchA2a):
    """Raises on rank 1 at its tenth dispatch."""

    capability: ClassVar[Capability] = CACHED

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._rank = problem.rank
        self._left = 10

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Layout) -> Rows:
        """Counts down."""
        self._left -= 1
        if self._rank == 1 and self._left == 0:
            msg = "the tenth dispatch is too much"
            raise ValueError(msg)
        return super().dispatch(payload_TH, scale_TB, handle)


class Unclosable(TorchA2a):
    """Raises when it is given back."""

    capability: ClassVar[Capability] = CACHED

    def close(self) -> None:
        """Refuses."""
        msg = "the proxy does not stop"
        raise RuntimeError(msg)


class Endless(TorchA2a):
    """Dispatches for a minute, a millisecond at a time: a start that a test can hit while it measures."""

    capability: ClassVar[Capability] = CACHED

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Layout) -> Rows:
        """Takes its time."""
        time.sleep(0.001)
        return super().dispatch(payload_TH, scale_TB, handle)


class Bare(TorchA2a):
    """Says nothing of what it can do."""

    capability: ClassVar[Any] = None
