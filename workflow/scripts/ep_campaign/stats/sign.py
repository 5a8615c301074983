"""The sign test: in how many rounds was the arm faster, and what is that worth."""

from __future__ import annotations

from functools import lru_cache

from scipy.stats import binom


@lru_cache(maxsize=4096)
def sign_p(num_lower: int, num_higher: int) -> float:
    """Exact two-sided p of a split of rounds; rounds with a difference of zero are left out by the caller.

    Twice the binomial tail of the smaller side, at most 1; 1 where there is no round at all.
    """
    if min(num_lower, num_higher) < 0:
        msg = f"counts of rounds are {num_lower} and {num_higher}; expected none below 0"
        raise ValueError(msg)
    return min(1.0, 2 * float(binom.cdf(min(num_lower, num_higher), num_lower + num_higher, 0.5)))


def best_paired_p(n: int) -> float:
    """The smallest two-sided p that n rounds can give, signed-rank and sign alike: all in one direction, 2^(1-n)."""
    return min(1.0, 2.0 ** (1 - n))
