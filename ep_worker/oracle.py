"""The oracle: whether a cell's arm delivers every token to its experts and brings the right sums back. Misrouting must fail.

Legend: T tokens of this rank, N received rows, n rows of them that some local expert gets, G (row, local expert) pairs,
K top-k slots, H hidden columns, A tokens of all ranks, L local experts.

Tokens carry their global number as signs in their first 32 columns, experts flip the signs of half of the columns each.
What arrives is held against the route that every rank evaluates for itself; what comes back, against a float32 reference,
token by token, with the tolerance that the number of BF16 roundings on its way gives and no more.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from ep_worker.arrivals import Finding, check_arrivals
from ep_worker.contract.terms import Dtype
from ep_worker.contract.tolerance import tolerance
from ep_worker.experts import Experts, values
from ep_worker.quantise import CAST_ERROR, quantise
from ep_worker.reason import Reason
from ep_worker.workload import tagged_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ep_worker.contract.spec import StartSpec
    from ep_worker.roundtrip import Arrived, RoundTrip
    from ep_worker.workload import Workload

NOT_A_NUMBER_ERROR = 1e30
"""The error of a token that is not finite: records hold no infinities."""


@dataclass(frozen=True)
class OutputError:
    """How far combined tokens are from the reference: of the token that is worst for its tolerance.

    Attributes:
        max_token_error: Largest column's error over (sum of the weights times the largest input column).
        tolerance: What rounding explains of it.
        finding: What is wrong, or None.
    """

    max_token_error: float
    tolerance: float
    finding: Finding | None


@dataclass(frozen=True)
class Verdict:
    """What one check of one cell found on one rank.

    Attributes:
        passed: Whether everything held.
        reason_code: What did not; empty where it passed.
        reason: First offending token or rank, and the numbers.
        max_token_error: As in `OutputError`.
        tolerance: As there.
        num_pairs: (source rank, token) pairs that arrived here.
        num_expert_rows: (row, local expert) pairs of them.
    """

    passed: bool
    reason_code: str
    reason: str
    max_token_error: float
    tolerance: float
    num_pairs: int
    num_expert_rows: int

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return asdict(self)


class Oracle:
    """Checks of one cell at one boundary on one rank."""

    def __init__(self, spec: StartSpec, workload: Workload, trip: RoundTrip, bf16_accumulations: int) -> None:
        self._spec = spec
        self._workload = workload
        self._trip = trip
        self._tolerance_T = tolerances(
            hit_ranks(trip.problem.expert_TK, trip.problem.experts_per_rank),
            bf16_accumulations,
            expert_outputs_round=trip.expert_outputs_round,
        )
        if trip.kernel_casts:
            self._tolerance_T = self._tolerance_T + CAST_ERROR

    def check(self, stage_number: int) -> Verdict:
        """Sends tagged tokens on one fresh round-trip and judges what arrives and what comes back.

        Args:
            stage_number: Number of the check in its cell. It turns every expert's signs, so that results that an
                earlier check left behind cannot pass for this one's.
        """
        trip, problem = self._trip, self._trip.problem
        experts = Experts(problem, self._spec.seed + stage_number)
        x_TH = tagged_rows(self._spec, self._workload.own_tokens)
        arrived = trip.dispatch(trip.tokens(x_TH), trip.layout())
        arrivals = check_arrivals(self._spec, self._workload, problem, arrived)
        out_TH = trip.combine(experts.outputs(arrived), arrived)
        output = self._judge(experts, x_TH, out_TH, Reason.WRONG_OUTPUT)
        finding = arrivals.finding or output.finding
        return Verdict(
            finding is None,
            finding.code.value if finding else "",
            finding.text if finding else "",
            output.max_token_error,
            output.tolerance,
            arrivals.num_pairs,
            arrivals.num_expert_rows,
        )

    def expert_outputs(self, arrived: Arrived) -> Tensor:
        """What combine is given in timed loops: what the experts make of an untagged dispatch."""
        return Experts(self._trip.problem, self._spec.seed).outputs(arrived)

    def judge_timed(self, x_TH: Tensor, out_TH: Tensor) -> OutputError:
        """Holds what a timed loop returned last against the reference of its input."""
        return self._judge(Experts(self._trip.problem, self._spec.seed), x_TH, out_TH, Reason.WRONG_TIMED_OUTPUT)

    def _judge(self, experts: Experts, x_TH: Tensor, out_TH: Tensor, code: Reason) -> OutputError:
        problem = self._trip.problem
        # What a kernel's own cast carries is known to one rounding only, which the tolerance then includes.
        caller_casts = problem.dtype is Dtype.FP8 and not self._trip.kernel_casts
        carried_TH = values(*quantise(x_TH)) if caller_casts else x_TH.float()
        reference_TH = experts.reference(problem.expert_TK, problem.weight_TK, carried_TH)
        return judge_output(
            out_TH, reference_TH, carried_TH, problem.expert_TK, problem.weight_TK, self._tolerance_T, code
        )


def hit_ranks(expert_TK: Tensor, experts_per_rank: int) -> Tensor:
    """Number of ranks that hold an expert of each token."""
    target_TK = torch.where(expert_TK < 0, -1, expert_TK // experts_per_rank)
    sorted_TK = target_TK.sort(1).values
    first_TK = torch.ones_like(sorted_TK, dtype=torch.bool)
    first_TK[:, 1:] = sorted_TK[:, 1:] != sorted_TK[:, :-1]
    return (first_TK & (sorted_TK >= 0)).sum(1)


def tolerances(hits_T: Tensor, bf16_accumulations: int, *, expert_outputs_round: bool) -> Tensor:
    """Largest error of each token that rounding explains, relative to its weights times its largest input column.

    Each rank that a token hits rounds its partial sum. The sum over ranks is rounded once where it is made in float32,
    else `bf16_accumulations` times for each rank beyond the first. An FP8 row's expert output is rounded before that
    where it stands in memory by itself.
    """
    extra_T = (hits_T - 1).clamp(min=0)
    sums_T = bf16_accumulations * extra_T if bf16_accumulations else extra_T.clamp(max=1)
    roundings_T = sums_T.double() + 1 + int(expert_outputs_round)
    allowed_T: Tensor = tolerance(roundings_T)
    return allowed_T


def judge_output(
    out_TH: Tensor,
    reference_TH: Tensor,
    carried_TH: Tensor,
    expert_TK: Tensor,
    weight_TK: Tensor,
    tolerance_T: Tensor,
    code: Reason,
) -> OutputError:
    """Compares combined tokens with their reference, each against its own tolerance.

    Args:
        out_TH: Combined tokens, BF16.
        reference_TH: What they must come to, float32.
        carried_TH: What dispatch carried, float32.
        expert_TK: Global expert ids; tokens without any must come back as exact zeros.
        weight_TK: Gate weights.
        tolerance_T: Largest relative error of each token.
        code: Reason code of a difference.
    """
    if out_TH.shape != reference_TH.shape:
        text = f"combine returned {list(out_TH.shape)}, expected {list(reference_TH.shape)}"
        return OutputError(NOT_A_NUMBER_ERROR, 0.0, Finding(code, text))
    if out_TH.shape[0] == 0:
        return OutputError(0.0, 0.0, None)
    routed_TK = expert_TK >= 0
    size_T = torch.where(routed_TK, weight_TK, 0.0).abs().sum(1) * carried_TH.abs().amax(1)
    difference_T = (out_TH.float() - reference_TH).abs().amax(1)
    unrouted_T = ~routed_TK.any(1)
    error_T = torch.where(unrouted_T, difference_T, difference_T / size_T).double()
    error_T = error_T.nan_to_num(nan=NOT_A_NUMBER_ERROR, posinf=NOT_A_NUMBER_ERROR)
    error_T = torch.where(out_TH.isfinite().all(1), error_T, NOT_A_NUMBER_ERROR)
    allowed_T = torch.where(unrouted_T, 0.0, tolerance_T)
    worst = int((error_T - allowed_T).argmax())
    error, allowed = float(error_T[worst]), float(allowed_T[worst])
    if error <= allowed:
        return OutputError(float(error_T.max()), float(allowed_T[int(error_T.argmax())]), None)
    what = "without an expert, which must come back as zeros," if bool(unrouted_T[worst]) else ""
    text = f"own token {worst} {what} is off by {error:.3g}, rounding explains {allowed:.3g}"
    return OutputError(error, allowed, Finding(code, " ".join(text.split())))
