"""Was what was timed also right? An ok record needs an oracle that passed, within the tolerance that rounding allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.validate.finding import Violation, refusal
from ep_campaign.validate.matrix import record_name
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.validate.attempt import Attempt

BF16_ROUNDING = 2.0**-9
"""Largest relative error of one rounding to BF16."""
ARITHMETIC = 2.0**-16
"""Allowed beyond that for float32 sums and split gate weights."""


def widest_tolerance(num_accumulations: int, max_hit_ranks: int) -> float:
    """The most that BF16 rounding explains of a combined token's error, relative to its weights times its input.

    One rounding of an expert's output, one of each rank's partial sum, and then one of the sum over ranks, or
    `num_accumulations` for each rank beyond the first where an arm sums in BF16.
    """
    beyond = max_hit_ranks - 1
    num_roundings = 2 + (num_accumulations * beyond if num_accumulations else min(beyond, 1))
    return float((1 + BF16_ROUNDING) ** num_roundings - 1 + ARITHMETIC)


def check_oracle(attempt: Attempt) -> Iterator[Violation]:
    """Every ok record passed before and after timing, with an error within a tolerance that was not widened."""
    max_hit_ranks = min(attempt.spec.ep_size, attempt.spec.shape.top_k)
    widest = widest_tolerance(attempt.capability.bf16_accumulations, max_hit_ranks)
    for record in attempt.record.records:
        if record.status is not Status.OK:
            continue
        for stage in ("before", "after"):
            result = None if record.oracle is None else getattr(record.oracle, stage)
            field = f"{record_name(record)}.oracle.{stage}"
            if result is None or not result.passed:
                found = "no result" if result is None else f"failed: {result.reason}"
                yield refusal("oracle_not_passed", attempt.file, field, found, "passed, where the status is ok")
                continue
            if result.max_token_error > result.tolerance:
                found, expected = f"{result.max_token_error:g}", f"at most the tolerance {result.tolerance:g}"
                yield refusal("oracle_error_over_tolerance", attempt.file, f"{field}.max_token_error", found, expected)
            if result.tolerance > widest:
                expected = f"at most {widest:g}, which BF16 rounding explains"
                yield refusal(
                    "tolerance_widened", attempt.file, f"{field}.tolerance", f"{result.tolerance:g}", expected
                )
