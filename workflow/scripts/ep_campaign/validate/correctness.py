"""Was what was timed also right? An ok record needs an oracle that passed, within the tolerance that rounding allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.validate.finding import Violation, refusal
from ep_campaign.validate.matrix import record_name
from ep_worker.contract.terms import Boundary, Dtype, Placement, Status
from ep_worker.contract.tolerance import most_roundings, tolerance

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.validate.attempt import Attempt

CAST_ERROR = 2.0**-4 * (1 + 2.0**-8)
"""What one rounding to E4M3 in a kernel of the backend adds; `ep_worker.quantise` says why, and a test holds both equal."""
_LAST_DIGITS = 1e-12
"""A device's float64 power may differ from this machine's in its last digits."""


def check_oracle(attempt: Attempt) -> Iterator[Violation]:
    """Every ok record passed before and after timing, with an error within a tolerance that was not widened."""
    max_hit_ranks = min(attempt.spec.ep_size, attempt.spec.shape.top_k)
    accumulations = attempt.capability.bf16_accumulations
    for record in attempt.record.records:
        if record.status is not Status.OK:
            continue
        # Rows of one expert stand together at gemm_ready, and always where dispatch delivers them so.
        grouped = record.boundary is Boundary.GEMM_READY or attempt.capability.expert_major
        alone = record.dtype is Dtype.FP8 and grouped
        widest = tolerance(most_roundings(max_hit_ranks, accumulations, expert_outputs_round=alone))
        if record.cast_placement is Placement.IN_KERNEL:
            widest += CAST_ERROR
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
            if result.tolerance > widest * (1 + _LAST_DIGITS):
                expected = f"at most {widest:g}, which rounding explains"
                yield refusal(
                    "tolerance_widened", attempt.file, f"{field}.tolerance", f"{result.tolerance:g}", expected
                )
