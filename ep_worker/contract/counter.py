"""Counter-based pseudo-randomness: a value is a function of (seed, stream, counter) and of nothing else.

SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): the output function applied to key + counter * gamma. Arms run different
torch versions on different devices; no library's random stream is the same on all of them, 64-bit integer arithmetic is.

Every function takes `z` as a signed 64-bit integer array (torch or numpy, whose products and sums wrap) and uses Python
operators only, so that ranks and host compute the same numbers from the same source.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

DRAW_BITS = 62
"""Draws are integers in [0, 2^62): non-negative in a signed word, with room for a threshold that equals the end."""

_GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = (30, 27, 31)


class Stream(IntEnum):
    """What a draw is for; streams of one seed are independent."""

    EXPERT = 1
    GROUP = 2
    WEIGHT = 3
    MASK = 4
    INPUT = 5
    EXPERT_SIGN = 6
    TOKEN_COUNT = 7
    EXPERT_ORDER = 8
    PLAN_ORDER = 9


def as_signed(value: int) -> int:
    """The signed 64-bit integer that has the low 64 bits of a Python integer."""
    low = value & (2**64 - 1)
    return low - 2**64 if low >= 2**63 else low


def _shift_right(z: Any, bits: int) -> Any:
    """Logical right shift of signed 64-bit integers; the operator alone would drag the sign in."""
    return (z >> bits) & (2 ** (64 - bits) - 1)


def mix(z: Any) -> Any:
    """SplitMix64's output function on an array of signed 64-bit integers."""
    z = (z ^ _shift_right(z, _SHIFTS[0])) * as_signed(_MULTIPLIERS[0])
    z = (z ^ _shift_right(z, _SHIFTS[1])) * as_signed(_MULTIPLIERS[1])
    return z ^ _shift_right(z, _SHIFTS[2])


def mix_int(z: int) -> int:
    """SplitMix64's output function on one Python integer, taken modulo 2^64; the result is unsigned."""
    z &= 2**64 - 1
    for shift, multiplier in zip(_SHIFTS, _MULTIPLIERS, strict=False):
        z = ((z ^ (z >> shift)) * multiplier) & (2**64 - 1)
    return z ^ (z >> _SHIFTS[2])


def stream_key(seed: int, stream: Stream) -> int:
    """The signed key of one stream of one seed."""
    return as_signed(mix_int(mix_int(seed) ^ (int(stream) * _GAMMA)))


def words(counter: Any, key: int) -> Any:
    """One signed 64-bit pseudo-random word for each element of an int64 array of counters."""
    return mix(counter * as_signed(_GAMMA) + key)


def draws(counter: Any, key: int) -> Any:
    """One integer in [0, 2^62) for each element of an int64 array of counters."""
    return _shift_right(words(counter, key), 64 - DRAW_BITS)


def word_int(counter: int, key: int) -> int:
    """`words` for one Python integer, unsigned: for plans, and the independent check of the array form."""
    return mix_int(counter * _GAMMA + key)


def draw_int(counter: int, key: int) -> int:
    """`draws` for one Python integer."""
    return word_int(counter, key) >> (64 - DRAW_BITS)
