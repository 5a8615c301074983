"""What the iterations inside one start say about it: steadiness and spikes. Flags for a reader, never a reason to drop.

Shapes: I iterations, R ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

UNSTEADY_SHARE = 0.05
SPIKE_RATIO = 1.5


class WithinStart(NamedTuple):
    """Flags of one start.

    Attributes:
        median: Of the slowest rank over iterations, in the unit of the samples: the start's value.
        half_ratio: Median of the second half of the iterations over that of the first.
        unsteady: The halves differ by more than 5 %.
        system_wide_spikes: Iterations whose slowest rank exceeds 1.5 x the median while most ranks exceed 1.5 x theirs.
        single_rank_spikes: The other spikes: at most half of the ranks exceed 1.5 x their own median.
        spikes_by_rank: For each rank, in how many of the single-rank spikes it exceeds 1.5 x its median: a lasting
            culprit stands out.
    """

    median: float
    half_ratio: float
    unsteady: bool
    system_wide_spikes: tuple[int, ...]
    single_rank_spikes: tuple[int, ...]
    spikes_by_rank: tuple[int, ...]


def within_start(samples_IR: npt.ArrayLike) -> WithinStart:
    """Flag a start from its iteration x rank durations (any unit, above zero).

    Raises:
        ValueError: Not two-dimensional, fewer than two iterations, no rank, or a duration that is not positive.
    """
    durations_IR = np.asarray(samples_IR, dtype=np.float64)
    if durations_IR.ndim != 2 or durations_IR.shape[0] < 2 or durations_IR.shape[1] < 1:
        msg = f"samples have shape {durations_IR.shape}; expected [iterations >= 2, ranks >= 1]"
        raise ValueError(msg)
    if not (np.isfinite(durations_IR).all() and (durations_IR > 0).all()):
        msg = "samples hold a duration that is not finite and above zero"
        raise ValueError(msg)
    slowest_I = durations_IR.max(axis=1)
    half = slowest_I.size // 2
    half_ratio = float(np.median(slowest_I[-half:]) / np.median(slowest_I[:half]))
    median = float(np.median(slowest_I))
    spike_I = slowest_I > SPIKE_RATIO * median
    slow_IR = durations_IR > SPIKE_RATIO * np.median(durations_IR, axis=0)
    wide_I = slow_IR.sum(axis=1) > durations_IR.shape[1] / 2
    return WithinStart(
        median=median,
        half_ratio=half_ratio,
        unsteady=abs(half_ratio - 1) > UNSTEADY_SHARE,
        system_wide_spikes=tuple(np.flatnonzero(spike_I & wide_I).tolist()),
        single_rank_spikes=tuple(np.flatnonzero(spike_I & ~wide_I).tolist()),
        spikes_by_rank=tuple(slow_IR[spike_I & ~wide_I].sum(axis=0).tolist()),
    )
