"""Where the numbers of a synthetic results folder come from: one seeded model of latencies with effects planted on purpose."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from ep_worker.contract.terms import Boundary, Dtype, Mode, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from ep_campaign.plan import Start
    from ep_worker.contract.series import Series

PHASE_SHARE = {Phase.LAYOUT: 0.1, Phase.DISPATCH: 0.5, Phase.COMBINE: 0.4, Phase.ROUNDTRIP: 1.0}
BOUNDARY_FACTOR = {Boundary.DISPATCH_READY: 1.0, Boundary.BF16_READY: 1.05, Boundary.GEMM_READY: 1.2}


@dataclass(frozen=True)
class Model:
    """Where latencies come from; spreads are standard deviations of natural logarithms (0.03 is about 3 %).

    Attributes:
        seed: Seed of every draw.
        base_us: Round-trip of the reference at `dispatch_ready`, BF16, host-started [us].
        arm_factor: Latency of an arm over the base, by arm; 1 where absent.
        cell_factor: The same for one arm in one cell, by (cell, arm).
        loop_factor: The same for one arm in one loop of one profile, by (profile, loop, arm).
        start_sd: Spread between starts.
        round_sd: Spread between rounds, common to all arms of a round.
        iteration_sd: Spread between iterations of a start.
        rank_sd: Spread between ranks within an iteration.
        order_effect: Growth for each place later in a round's order, as a logarithm.
        drift: Growth from round to round, as a logarithm.
        outlier_starts: Starts (by id) that are slower throughout, with their factor.
        spike_share: Share of iterations in which one rank takes twice as long.
    """

    seed: int = 1
    base_us: float = 200.0
    arm_factor: Mapping[str, float] = field(default_factory=dict)
    cell_factor: Mapping[tuple[str, str], float] = field(default_factory=dict)
    loop_factor: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    start_sd: float = 0.02
    round_sd: float = 0.01
    iteration_sd: float = 0.05
    rank_sd: float = 0.01
    order_effect: float = 0.0
    drift: float = 0.0
    outlier_starts: Mapping[str, float] = field(default_factory=dict)
    spike_share: float = 0.0

    def generator(self, *key: object) -> np.random.Generator:
        """Draws of one purpose, independent of every other purpose."""
        return np.random.default_rng([self.seed, crc32(repr(key).encode())])

    def start_level(self, start: Start, attempt: int) -> float:
        """Logarithm of a start's own factor: what all of its series share."""
        block = (start.ep_size, start.profile, start.round)
        return float(
            self.round_sd * self.generator("round", block).standard_normal()
            + self.start_sd * self.generator("start", start.id, attempt).standard_normal()
            + self.order_effect * (start.order_position - 1)
            + self.drift * (start.round - 1)
            + math.log(self.outlier_starts.get(start.id, 1.0) * self.arm_factor.get(start.arm, 1.0))
        )

    def times_ns(
        self, start: Start, attempt: int, series: Series, dtype: Dtype, shown: Sequence[Phase]
    ) -> npt.NDArray[np.int64]:
        """Raw times of one series, [sample, rank, phase]."""
        num_samples = series.iterations // series.chain_length
        draw = self.generator(start.id, attempt, series.key)
        factor = BOUNDARY_FACTOR[series.boundary] * self.cell_factor.get((series.cell, start.arm), 1.0)
        factor *= self.loop_factor.get((start.profile, series.loop.value, start.arm), 1.0)
        factor *= (0.8 if dtype is Dtype.FP8 else 1.0) * (0.9 if series.mode is Mode.CHAINED else 1.0)
        level = math.log(self.base_us * 1e3 * factor) + self.start_level(start, attempt)
        noise = self.iteration_sd * draw.standard_normal((num_samples, 1))
        noise = noise + self.rank_sd * draw.standard_normal((num_samples, start.ep_size))
        spike = (draw.random((num_samples, 1)) < self.spike_share) & (np.arange(start.ep_size) == 0)
        whole_SR = np.exp(level + noise) * np.where(spike, 2.0, 1.0) * series.chain_length
        share_P = np.array([PHASE_SHARE[phase] for phase in shown])
        if Phase.ROUNDTRIP in shown and len(shown) > 1:
            share_P[:-1] /= share_P[:-1].sum()
        times_ns: npt.NDArray[np.int64] = np.rint(whole_SR[:, :, None] * share_P).astype(np.int64)
        return times_ns
