"""An arm's round-trip with its data, as steps without arguments; each timed iteration's result is looked at between iterations.

Legend: T tokens of this rank, N received rows, H hidden columns, B scale blocks.

Input and expert outputs stand in one pair of buffers, which is filled anew before each iteration, outside of what is timed: in turn
with two inputs of which no token is the other's. An arm that hands out what an earlier iteration left, or does not wait for its
data, is therefore caught in the iteration in which it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ep_worker.arrivals import Finding
from ep_worker.backends.protocol import Slots
from ep_worker.contract.terms import Loop
from ep_worker.oracle import OutputError
from ep_worker.reason import Reason
from ep_worker.roundtrip import Tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from ep_worker.oracle import Oracle
    from ep_worker.roundtrip import Arrived, RoundTrip

    Step = Callable[[], None]


@dataclass(frozen=True)
class Side:
    """One of the two inputs, and what comes of it.

    Attributes:
        x_TH: Input, BF16.
        tokens: The same in the form that the boundary starts from.
        y: What the experts make of it: what combine is given in timed loops. Never zeros.
        digest: Of the rows that its dispatch delivers, whatever their order.
        out_TH: What its combine returned, proved right; None where rows come in another order each time.
    """

    x_TH: Tensor
    tokens: Tokens
    y: Tensor
    digest: int
    out_TH: Tensor | None


class Trip:
    """The steps of timed loops, and the checks between them.

    Attributes:
        worst: The worst error of an output that was not the proved one bit by bit; None where all were.
        tokens: The buffer of the input.
        y: The buffer of expert outputs.
    """

    def __init__(self, steps_of: RoundTrip, oracle: Oracle, x_TH: Tensor) -> None:
        self.worst: OutputError | None = None
        self._steps_of, self._oracle = steps_of, oracle
        self._handle = steps_of.layout()
        self._sides = [self._side(x_TH), self._side(-x_TH.flip(0))]
        first = self._sides[0]
        self.tokens = Tokens(first.tokens.payload_TH.clone(), _clone(first.tokens.scale_TB))
        self.y = first.y.clone()
        self._arrived = steps_of.dispatch(self.tokens, self._handle)
        self._out: Tensor | None = None
        self._now, self._num_iterations = 0, 0
        self._dispatched = self._combined = False

    def _side(self, x_TH: Tensor) -> Side:
        trip = self._steps_of
        tokens = trip.tokens(x_TH)
        arrived = trip.dispatch(tokens, self._handle)
        y, digest = self._oracle.expert_outputs(arrived), digest_of(arrived)
        out_TH = None
        if trip.backend.deterministic:
            out_TH = trip.combine(y, arrived).clone()
            self._hold(self._oracle.judge_timed(x_TH, out_TH))
        return Side(x_TH, tokens, y, digest, out_TH)

    # -- what is timed -------------------------------------------------------------------------------------------------

    def layout(self) -> None:
        """Makes a new handle."""
        self._handle = self._steps_of.layout()

    def dispatch(self) -> None:
        """Dispatches by the last handle."""
        self._arrived = self._steps_of.dispatch(self.tokens, self._handle)

    def combine(self) -> None:
        """Combines by the last dispatch."""
        self._out = self._steps_of.combine(self.y, self._arrived)

    def steps(self, loop: Loop, *, fresh_layout: bool) -> list[Step]:
        """The steps of a loop, one for each phase that is not the whole."""
        alone: dict[Loop, Step] = {Loop.LAYOUT: self.layout, Loop.DISPATCH: self.dispatch, Loop.COMBINE: self.combine}
        self._dispatched = self._combined = False
        if loop is not Loop.ROUNDTRIP:
            return [alone[loop]]
        return [self.layout, self.dispatch, self.combine] if fresh_layout else [self.dispatch, self.combine]

    # -- what is not ---------------------------------------------------------------------------------------------------

    def turn(self, loop: Loop) -> None:
        """Between two iterations: looks at what the last one returned, and fills the buffers with the other input."""
        self.look(loop)
        self._now = 1 - self._now
        side = self._sides[self._now]
        self.tokens.payload_TH.copy_(side.tokens.payload_TH)
        if self.tokens.scale_TB is not None and side.tokens.scale_TB is not None:
            self.tokens.scale_TB.copy_(side.tokens.scale_TB)
        self.y.copy_(side.y)
        self._dispatched = loop in (Loop.ROUNDTRIP, Loop.DISPATCH)
        self._combined = loop in (Loop.ROUNDTRIP, Loop.COMBINE)
        self._num_iterations += 1

    def look(self, loop: Loop) -> None:
        """Holds what the last iteration of a loop returned against what its input comes to; before any, nothing."""
        side = self._sides[self._now]
        if self._dispatched and loop in (Loop.ROUNDTRIP, Loop.DISPATCH) and digest_of(self._arrived) != side.digest:
            text = f"what dispatch delivered in timed iteration {self._num_iterations} is not what was sent in it"
            self._hold(OutputError(0.0, 0.0, Finding(Reason.WRONG_TIMED_OUTPUT, text)))
        if self._combined and self._out is not None and side.out_TH is not None:
            same = self._out.shape == side.out_TH.shape and torch.equal(self._out, side.out_TH)
            if not same:
                self._hold(self._oracle.judge_timed(side.x_TH, self._out))

    def adopt(self, arrived: Arrived, out: Tensor) -> None:
        """Takes what another loop over the same buffers got, so that `turn` looks at it."""
        self._arrived, self._out = arrived, out

    def _hold(self, error: OutputError) -> None:
        worst = self.worst
        if worst is None or (error.finding is not None, error.max_token_error) > (
            worst.finding is not None,
            worst.max_token_error,
        ):
            self.worst = error


def digest_of(arrived: Arrived) -> int:
    """A sum over every bit pattern of the rows that some local expert gets: the same for the same rows in any order."""
    rows = arrived.rows
    if isinstance(rows, Slots):
        place_M = torch.arange(rows.payload_LMH.shape[1], device=rows.count_L.device)
        used = place_M[None, :] < rows.count_L[:, None]
        payload, scale = rows.payload_LMH, rows.scale_LMB
    else:
        used, payload, scale = (rows.expert_NK >= 0).any(1), rows.payload_NH, rows.scale_NB
    total = _row_sums(payload)[used].sum()
    if scale is not None:
        total = total + _row_sums(scale[used]).sum()
    return int(total)


def _row_sums(rows: Tensor) -> Tensor:
    """Sum of the bytes along the last axis, taken four at a time where that is possible; wraps around."""
    plain = rows if rows.stride(-1) == 1 else rows.contiguous()
    wide = torch.int32 if plain.shape[-1] * plain.element_size() % 4 == 0 and plain.is_contiguous() else torch.uint8
    return plain.view(wide).sum(-1, dtype=torch.int64)


def _clone(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.clone()
