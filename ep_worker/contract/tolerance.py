"""How far a combined token may be from its reference: what BF16 rounding explains, and nothing more."""

from __future__ import annotations

from typing import Any

ROUNDING = 2.0**-8
"""Largest relative error of one rounding to BF16: half a unit of a significand with 7 bits after the point."""

ARITHMETIC = 2.0**-16
"""Allowed beyond that for float32 sums, and for gate weights that a kernel takes as two BF16 numbers."""


def tolerance(num_roundings: Any) -> Any:
    """Largest error that a number (or float array) of successive BF16 roundings explains.

    It is relative to a token's gate weights times its largest input column.
    """
    return (1 + ROUNDING) ** num_roundings - 1 + ARITHMETIC


def most_roundings(max_hit_ranks: int, bf16_accumulations: int, *, expert_outputs_round: bool) -> int:
    """Roundings on the longest path of a token that reaches `max_hit_ranks` ranks.

    Each rank rounds its partial sum. The sum over ranks is rounded once where it is made in float32, else
    `bf16_accumulations` times for each rank beyond the first. The output of an expert that gets FP8 rows is rounded before
    that where it stands in memory by itself.
    """
    beyond = max_hit_ranks - 1
    sums = bf16_accumulations * beyond if bf16_accumulations else min(beyond, 1)
    return 1 + sums + int(expert_outputs_round)
