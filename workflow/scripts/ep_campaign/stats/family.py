"""Multiplicity: Holm's procedure over the declared family, and how many rounds a family needs at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ep_campaign.stats.arrays import as_sample, check_probability

if TYPE_CHECKING:
    import numpy.typing as npt

ALPHA = 0.05
"""Family-wise error rate unless a plan declares another."""


def holm(p_values: npt.ArrayLike, family_size: int | None = None) -> tuple[float, ...]:
    """Holm-adjusted p-values, in the order given.

    Args:
        p_values: One p per contrast that could be tested.
        family_size: Declared contrasts; those without a p count as p = 1, so that a failed contrast never makes the
            others easier. Default: as many as given.

    Raises:
        ValueError: A p outside [0, 1], or a family smaller than the p-values given.
    """
    raw = as_sample(p_values, "p_values", min_size=0)
    size = raw.size if family_size is None else family_size
    if size < raw.size:
        msg = f"{raw.size} p-values for a family of {size}; expected at most {size}"
        raise ValueError(msg)
    if ((raw < 0) | (raw > 1)).any():
        msg = f"p-values run from {raw.min()} to {raw.max()}; expected 0 to 1"
        raise ValueError(msg)
    order = np.argsort(raw, kind="stable")
    stepped = raw[order] * (size - np.arange(raw.size))
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(stepped))
    return tuple(adjusted.tolist())


def smallest_n(family_size: int, alpha: float = ALPHA) -> int:
    """The fewest complete rounds whose best possible p survives Holm's first step, for signed-rank and sign alike.

    The best p of n rounds is 2^(1-n), so n = 1 + ceil(log2(family_size / alpha)). With fewer, no data whatsoever could
    give a verdict.
    """
    check_probability(alpha, "alpha")
    if family_size < 1:
        msg = f"a family of {family_size} contrasts; expected at least 1"
        raise ValueError(msg)
    n = 1
    while 2.0 ** (1 - n) * family_size > alpha:  # powers of two: no logarithm to round
        n += 1
    return n


def largest_family(n: int, alpha: float = ALPHA) -> int:
    """The largest family that n complete rounds can decide; 0 where they can decide none."""
    check_probability(alpha, "alpha")
    return int(alpha * 2.0 ** (n - 1))
