"""What every statistic accepts: one-dimensional samples of finite numbers."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]


def as_sample(values: npt.ArrayLike, name: str = "values", min_size: int = 1) -> FloatArray:
    """`values` as a one-dimensional float64 array.

    Raises:
        ValueError: Not one-dimensional, fewer than `min_size` values, or a value that is not finite.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.ndim != 1:
        msg = f"{name} has {sample.ndim} dimensions; expected one value per start in one dimension"
        raise ValueError(msg)
    if sample.size < min_size:
        msg = f"{name} holds {sample.size} values; expected at least {min_size}"
        raise ValueError(msg)
    bad = np.flatnonzero(~np.isfinite(sample))
    if bad.size:
        msg = (
            f"{name}[{bad[0]}] is {sample[bad[0]]}; expected finite numbers only (drop failed starts before this call)"
        )
        raise ValueError(msg)
    return sample


def as_positive_sample(values: npt.ArrayLike, name: str = "values", min_size: int = 1) -> FloatArray:
    """`as_sample`, and every value above zero, so that its logarithm exists."""
    sample = as_sample(values, name, min_size)
    bad = np.flatnonzero(sample <= 0)
    if bad.size:
        msg = f"{name}[{bad[0]}] is {sample[bad[0]]}; expected durations above zero"
        raise ValueError(msg)
    return sample


def check_probability(value: float, name: str) -> None:
    """Raise `ValueError` unless 0 < value < 1."""
    if not 0 < value < 1:
        msg = f"{name} is {value}; expected a probability strictly between 0 and 1"
        raise ValueError(msg)
