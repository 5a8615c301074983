"""The oracle's judgement: what a faultless dispatch passes, and every fault it must find, rank by rank and bit by bit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from worker.problems import delivered, make_rank, with_rows
from worker.specs import TINY, make_spec, route

from ep_worker.arrivals import check_arrivals
from ep_worker.contract.terms import Dtype
from ep_worker.contract.workload import RouteKind
from ep_worker.experts import Experts, values
from ep_worker.oracle import hit_ranks, judge_output, tolerances
from ep_worker.reason import Reason
from ep_worker.workload import tagged_rows

if TYPE_CHECKING:
    from ep_worker.roundtrip import Arrived

SPEC = make_spec(ranks=3, routes=[route(RouteKind.UNIFORM, 3)])
RANK = 1


def setting(dtype: Dtype = Dtype.FP8, *, grouped: bool = False) -> tuple:
    workload, problem = make_rank(SPEC, RANK, dtype)
    return workload, problem, delivered(SPEC, workload, problem, grouped=grouped)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("dtype", list(Dtype))
@pytest.mark.parametrize("kind", [kind for kind in RouteKind if kind is not RouteKind.TRACE])
def test_a_dispatch_without_a_fault_passes(kind: RouteKind, dtype: Dtype, grouped: bool) -> None:
    """What the route sends to a rank, in any order of rows, is accepted, and counted."""
    spec = make_spec(ranks=3, routes=[route(kind, 3)])
    for rank in range(3):
        workload, problem = make_rank(spec, rank, dtype)
        arrived = delivered(spec, workload, problem, grouped=grouped)
        result = check_arrivals(spec, workload, problem, arrived)

        assert result.finding is None
        assert arrived.rows.payload_NH.shape[0] == result.num_pairs
        assert arrived.rows.num_selections == result.num_expert_rows


def duplicated(a: Arrived) -> Arrived:
    again = torch.cat([torch.arange(a.rows.payload_NH.shape[0]), torch.tensor([0])])
    return with_rows(
        a,
        payload_NH=a.rows.payload_NH[again],
        scale_NB=a.rows.scale_NB[again],
        expert_NK=a.rows.expert_NK[again],
        weight_NK=a.rows.weight_NK[again],
    )


def without_first_row(a: Arrived) -> Arrived:
    rows = a.rows
    return with_rows(
        a,
        payload_NH=rows.payload_NH[1:],
        scale_NB=rows.scale_NB[1:],
        expert_NK=rows.expert_NK[1:],
        weight_NK=rows.weight_NK[1:],
    )


def swapped_experts(a: Arrived) -> Arrived:
    ids = a.rows.expert_NK
    return with_rows(a, expert_NK=torch.where(ids == 0, 1, torch.where(ids == 1, 0, ids)))


def other_weights(a: Arrived) -> Arrived:
    return with_rows(a, weight_NK=a.rows.weight_NK.nextafter(torch.tensor(1.0)))


def other_scales(a: Arrived) -> Arrived:
    scales = a.rows.scale_NB.clone()
    scales[-1, -1] = scales[-1, -1].nextafter(torch.tensor(1.0))
    return with_rows(a, scale_NB=scales)


def one_bit(a: Arrived) -> Arrived:
    payload = a.rows.payload_NH.clone()
    payload.view(torch.uint8)[2, 100] ^= 1
    return with_rows(a, payload_NH=payload)


def token_of_nobody(a: Arrived) -> Arrived:
    payload = a.rows.payload_NH.clone()
    payload.view(torch.uint8)[0, 20] ^= 0x80  # the sign of tag bit 20
    return with_rows(a, payload_NH=payload)


def wrong_count(a: Arrived) -> Arrived:
    return with_rows(a, num_selections=a.rows.num_selections - 1)


@pytest.mark.parametrize(
    ("fault", "code", "says"),
    [
        (duplicated, Reason.WRONG_TOKENS, "arrived more than once"),
        (without_first_row, Reason.WRONG_TOKENS, "did not arrive"),
        (token_of_nobody, Reason.WRONG_TOKENS, "a token that does not exist"),
        (swapped_experts, Reason.WRONG_EXPERTS, "the route says"),
        (wrong_count, Reason.WRONG_EXPERTS, "dispatch counts"),
        (other_weights, Reason.WRONG_WEIGHTS, "the route says"),
        (other_scales, Reason.WRONG_PAYLOAD, "wrong scales"),
        (one_bit, Reason.WRONG_PAYLOAD, "wrong values"),
    ],
)
def test_a_fault_of_rows_is_found(fault: object, code: Reason, says: str) -> None:
    """Every way of misdelivering rows has its code and names the first offending token."""
    workload, problem, arrived = setting()
    finding = check_arrivals(SPEC, workload, problem, fault(arrived)).finding

    assert code is finding.code
    assert says in finding.text


def test_a_neighbours_rows_are_found() -> None:
    """A rank that gets what is its neighbour's finds that these tokens have no expert here."""
    workload, problem, arrived = setting()
    neighbour_workload, neighbour = make_rank(SPEC, RANK + 1, Dtype.FP8)
    foreign = delivered(SPEC, neighbour_workload, neighbour, grouped=False)
    finding = check_arrivals(SPEC, workload, problem, foreign).finding

    assert arrived.rows.payload_NH.shape != foreign.rows.payload_NH.shape
    assert Reason.WRONG_TOKENS is finding.code


def group_fault(name: str, arrived: Arrived) -> Arrived:
    groups = arrived.groups
    ends, payload, weight = groups.end_L.clone(), groups.payload_GH.clone(), groups.weight_G.clone()
    if name == "moved border":
        ends[0] += 1
    elif name == "swapped rows":
        last = int(ends[0])
        payload[[last - 1, last]] = payload[[last, last - 1]]
    elif name == "weight":
        weight[0] *= 2
    elif name == "extra row":
        payload = torch.cat([payload, payload[:1]])
    return replace(arrived, groups=replace(groups, end_L=ends, payload_GH=payload, weight_G=weight))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("moved border", Reason.WRONG_EXPERTS),
        ("swapped rows", Reason.WRONG_EXPERTS),
        ("extra row", Reason.WRONG_EXPERTS),
        ("weight", Reason.WRONG_WEIGHTS),
    ],
)
def test_a_fault_of_groups_is_found(name: str, code: Reason) -> None:
    """A row in the group of an expert that it was not routed to, or with another weight, is found."""
    workload, problem, arrived = setting(Dtype.BF16, grouped=True)

    assert code is check_arrivals(SPEC, workload, problem, group_fault(name, arrived)).finding.code


class TestOutput:
    """`judge_output`, on outputs that are summed here in float64 from each slot's contribution."""

    def setup_method(self) -> None:
        self.workload, self.problem = make_rank(SPEC, 0, Dtype.BF16)
        self.x = tagged_rows(SPEC, self.workload.own_tokens).float()
        self.experts = Experts(self.problem, seed=5)
        ids, weights = self.problem.expert_TK, self.problem.weight_TK
        self.parts_TKH = weights[:, :, None] * self.experts._sign_EH[ids] * self.x[:, None, :]
        self.tolerance = tolerances(hit_ranks(ids, 4), 0, expert_outputs_round=False)

    def judge(self, out: torch.Tensor) -> object:
        reference = self.experts.reference(self.problem.expert_TK, self.problem.weight_TK, self.x)
        return judge_output(
            out, reference, self.x, self.problem.expert_TK, self.problem.weight_TK, self.tolerance, Reason.WRONG_OUTPUT
        )

    def test_the_exact_sum_passes(self) -> None:
        """An output that is right but for its BF16 rounding is within the tolerance, and its error is not zero."""
        result = self.judge(self.parts_TKH.double().sum(1).bfloat16())

        assert result.finding is None
        assert 0 < result.max_token_error <= 2.0**-8

    def test_the_loss_of_the_smallest_contribution_is_found(self) -> None:
        """One token without the one of its slots that has the least weight is off by that weight."""
        out = self.parts_TKH.sum(1)
        slot = int(self.problem.weight_TK[2].argmin())
        out[2] -= self.parts_TKH[2, slot]
        result = self.judge(out.bfloat16())

        assert "own token 2 is off by" in result.finding.text
        assert result.max_token_error == pytest.approx(self.problem.weight_TK[2, slot].item(), abs=2.0**-7)

    def test_a_wrong_expert_is_found(self) -> None:
        """One slot of one token done by another expert is off by twice its weight."""
        ids = self.problem.expert_TK.clone()
        ids[1, 0] = (ids[1] + 1).max() % TINY.experts
        signs = self.experts._sign_EH[ids]
        result = self.judge((self.problem.weight_TK[:, :, None] * signs * self.x[:, None, :]).sum(1).bfloat16())

        assert result.max_token_error == pytest.approx(2 * self.problem.weight_TK[1, 0].item(), abs=2.0**-7)
        assert result.finding is not None

    @pytest.mark.parametrize(
        ("value", "says"), [(0.0, "own token 3 is off by 1"), (float("nan"), "1e+30"), (float("inf"), "1e+30")]
    )
    def test_a_spoilt_token_is_found(self, value: float, says: str) -> None:
        """One token of zeros, or with one element that is no number, fails the cell."""
        out = self.parts_TKH.sum(1).bfloat16()
        if value == 0.0:
            out[3] = value
        else:
            out[3, 7] = value

        assert says in self.judge(out).finding.text

    def test_a_token_without_an_expert_must_be_zero(self) -> None:
        """The smallest nonzero element in a token that goes nowhere fails the cell."""
        self.problem.expert_TK[4] = -1
        out = self.parts_TKH.sum(1).bfloat16()
        out[4] = 0
        passed = self.judge(out)
        out[4, 9] = 1e-30
        failed = self.judge(out)

        assert passed.finding is None
        assert "own token 4 without an expert" in failed.finding.text

    def test_another_shape_is_found(self) -> None:
        """A result with a token too few is an error and not an exception."""
        assert "returned [5, 128], expected [6, 128]" in self.judge(torch.zeros(5, 128)).finding.text


class TestTolerance:
    """`tolerances` and `hit_ranks`."""

    def test_hit_ranks(self) -> None:
        """Experts of one rank count once, masked slots not at all."""
        ids = torch.tensor([[0, 1, 2], [0, 4, 11], [-1, 5, -1], [-1, -1, -1]])

        assert [1, 3, 1, 0] == hit_ranks(ids, 4).tolist()

    def test_roundings(self) -> None:
        """Float32 sums: partial and total, 2; BF16 sums: partial and one for each further rank; FP8 groups: one more."""
        hits = torch.tensor([1, 2, 4])
        rounds = [round((t - 2.0**-16) / 2.0**-8) for t in tolerances(hits, 0, expert_outputs_round=False).tolist()]
        chained = [round((t - 2.0**-16) / 2.0**-8) for t in tolerances(hits, 1, expert_outputs_round=False).tolist()]
        fp8 = [round((t - 2.0**-16) / 2.0**-8) for t in tolerances(hits, 0, expert_outputs_round=True).tolist()]

        assert [1, 2, 2] == rounds
        assert [1, 2, 4] == chained
        assert [2, 3, 3] == fp8

    def test_no_tolerance_hides_the_smallest_weight_of_top_8(self) -> None:
        """At top-8 the least weight is 64 / (64 + 7 * 192) = 0.045; eight BF16 sums allow 0.032."""
        most = tolerances(torch.tensor([8]), 1, expert_outputs_round=False).item()

        assert most == pytest.approx((1 + 2.0**-8) ** 8 - 1 + 2.0**-16)
        assert most < 64 / (64 + 7 * 192)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("dtype", list(Dtype))
def test_partial_sums_of_all_ranks_add_up_to_the_reference(dtype: Dtype, grouped: bool) -> None:
    """Expert outputs, reduced where grouped and summed over ranks by token, come to each token's reference."""
    from ep_worker.grouping import reduce
    from ep_worker.quantise import quantise

    workload, problem = make_rank(SPEC, 0, dtype)
    total = torch.zeros(workload.expert_AK.shape[0], TINY.hidden)
    x = tagged_rows(SPEC, torch.arange(total.shape[0]))
    for rank in range(3):
        rank_workload, rank_problem = make_rank(SPEC, rank, dtype)
        arrived = delivered(SPEC, rank_workload, rank_problem, grouped=grouped)
        y = Experts(rank_problem, seed=5).outputs(arrived)
        y_NH = reduce(y, arrived.groups) if grouped else y
        token_N = (x[None, :, :32] == values(arrived.rows.payload_NH, arrived.rows.scale_NB)[:, None, :32].round()).all(
            2
        )
        total.index_add_(0, token_N.int().argmax(1), y_NH.float())
    carried = values(*quantise(x)) if dtype is Dtype.FP8 else x.float()
    reference = Experts(problem, seed=5).reference(workload.expert_AK, workload.weight_AK, carried)

    assert (total - reference).abs().max() <= 3 * 2.0**-8
