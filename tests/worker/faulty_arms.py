"""Arms with a fault, named `worker.faulty_arms:Class` in a spec: what the oracle must catch, and how a rank can fail.

`Misdelivering` has another fault in every cell: knob `faults` lists them, in the order of the cells.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ep_worker.backends.torch_a2a import TorchA2a
from ep_worker.breaks.arms import Broken
from ep_worker.contract.capabilities import CAPABILITIES, Capability
from ep_worker.contract.terms import ApiMode

if TYPE_CHECKING:
    from torch import Tensor

    from ep_worker.backends.protocol import Problem, Rows
    from ep_worker.backends.torch_a2a import Layout

CACHED = CAPABILITIES[("torch-a2a-cached", ApiMode.PORTABLE)]


class Misdelivering(Broken):
    """One fault for each cell; a name with `late_` acts from its third round-trip on, which is after the first check.

    What the worker's own check of itself breaks is there; the rest is here.
    """

    made: ClassVar[int] = 0

    def __init__(self, problem: Problem) -> None:
        fault = problem.knobs["faults"][Misdelivering.made]
        Misdelivering.made += 1
        super().__init__(replace(problem, knobs={"fault": fault}))

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Layout) -> Rows:
        """Delivers, and spoils what arrived."""
        rows = super().dispatch(payload_TH, scale_TB, handle)
        if self._fault == "duplicated_row":
            again = torch.cat([torch.zeros(1, dtype=torch.int64), torch.arange(rows.expert_NK.shape[0])])
            return replace(
                rows,
                payload_NH=rows.payload_NH[again],
                scale_NB=rows.scale_NB[again],
                expert_NK=rows.expert_NK[again],
                weight_NK=rows.weight_NK[again],
            )
        return rows

    def combine(self, y_NH: Tensor, handle: Layout) -> Tensor:
        """Combines, and spoils what comes back."""
        last = self._last_out
        out = super().combine(y_NH, handle)
        if self._fault == "late_stale" and self._num_combined > 2:
            return last if last is not None else out
        if self._fault == "late_timed" and 2 <= self._num_combined <= 6:
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
