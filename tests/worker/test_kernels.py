"""Quantising, packing, grouping and reducing, against plain loops."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from worker.problems import CPU
from worker.specs import TINY

from ep_worker.backends.protocol import Problem, Rows
from ep_worker.backends.torch_a2a import TorchA2a
from ep_worker.backends.torch_agrs import TorchAgrs
from ep_worker.backends.wire import PackedRows, count_selections, local_ids, target_ranks
from ep_worker.contract.terms import Dtype
from ep_worker.grouping import group, reduce
from ep_worker.quantise import dequantise, quantise


def problem(rank: int, ranks: int, expert_TK: list[list[int]], dtype: Dtype = Dtype.BF16) -> Problem:
    experts = torch.tensor(expert_TK, dtype=torch.int64).reshape(-1, TINY.top_k)
    return Problem(rank, ranks, TINY, dtype, CPU, experts, torch.ones(experts.shape), {})


class TestQuantise:
    """`quantise` and `dequantise`."""

    def test_a_block_is_scaled_to_the_largest_fp8_number(self) -> None:
        """The largest element of a block becomes 448, the scale is its share."""
        x = torch.zeros(1, 256)
        x[0, 3], x[0, 130] = -3.5, 0.4375
        values, scales = quantise(x.bfloat16())

        assert [[2.0**-7, 2.0**-10]] == scales.tolist()  # 448 is 7 * 2^6
        assert (-448.0, 448.0) == (values[0, 3].item(), values[0, 130].item())

    def test_zeros_stay_zeros(self) -> None:
        """A block of zeros has a scale that is not zero, and comes back as zeros."""
        values, scales = quantise(torch.zeros(2, 128, dtype=torch.bfloat16))

        assert (scales > 0).all()
        assert torch.equal(torch.zeros(2, 128), dequantise(values, scales))

    def test_the_error_is_that_of_three_mantissa_bits(self) -> None:
        """Values of a block come back within 1/16 of themselves, or 2^-10 of 448 scales where they are subnormal."""
        x = torch.linspace(-1, 1, 256).reshape(2, 128)
        values, scales = quantise(x)
        bound = x.abs() / 16 + scales.repeat_interleave(128, 1) * 2.0**-9

        assert ((dequantise(values, scales) - x).abs() <= bound).all()


class TestPackedRows:
    """`PackedRows`."""

    @pytest.mark.parametrize(("dtype", "row_bytes"), [(Dtype.BF16, 288), (Dtype.FP8, 160)])
    def test_fields_lie_side_by_side(self, dtype: Dtype, row_bytes: int) -> None:
        """A row of 128 columns and top-3 is 256 + 24 bytes in BF16, 128 + 4 + 24 in FP8, up to a multiple of 16."""
        rows = PackedRows(problem(0, 2, [[0, 1, 2]], dtype), 3)
        rows.payload_NH.copy_(torch.ones(3, 128))
        rows.expert_NK.fill_(7)
        rows.weight_NK.fill_(0.5)
        if rows.scale_NB is not None:
            rows.scale_NB.fill_(2.0)

        assert (3, row_bytes) == rows.rows_N.shape
        assert 3 * row_bytes == rows.num_bytes
        assert (rows.payload_NH.float() == 1).all()
        assert [7, 7, 7] == rows.gate_NK2[0, :3].tolist()
        assert [0.5] * 3 == rows.gate_NK2[0, 3:].view(torch.float32).tolist()
        assert (dtype is Dtype.FP8) == (rows.scale_NB is not None)

    def test_local_ids(self) -> None:
        """Rank 1 of 3 holds experts 4 to 7 of 12; a masked id, an index from the end, is nobody's."""
        table = local_ids(problem(1, 3, []))

        assert [-1, 0, 3, -1, -1] == table[torch.tensor([3, 4, 7, 8, -1], dtype=torch.int32)].tolist()

    def test_knobs_are_refused(self) -> None:
        """A knob that the arm does not have is an error that names it."""
        asked = replace(problem(0, 2, [[0, 1, 2]]), knobs={"num_sms": 24})
        for arm in (TorchA2a, TorchAgrs):
            with pytest.raises(ValueError, match="asks for num_sms"):
                arm(asked)

    def test_selections_are_counted_by_rank(self) -> None:
        """Masked slots count for nobody."""
        targets = target_ranks(problem(0, 3, [[0, 3, 4], [11, -1, 11]]))

        assert [[1, 1, 2], [3, 0, 3]] == targets.tolist()
        assert [2, 1, 2] == count_selections(targets, 3).tolist()


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[torch.Tensor, int]:
    """Local expert ids of some rows, and the number of local experts."""
    experts = draw(st.integers(1, 4))
    rows = draw(st.lists(st.lists(st.integers(-1, experts - 1), min_size=3, max_size=3), max_size=6))
    return torch.tensor(rows, dtype=torch.int32).reshape(-1, 3), experts


@settings(max_examples=60, deadline=None)
@given(arrivals(), st.integers(0, 2**31))
def test_grouping_and_reducing_agree_with_loops(case: tuple[torch.Tensor, int], seed: int) -> None:
    """Groups hold each (expert, row) pair once, in order; the reduction is the weighted sum to one BF16 rounding."""
    expert_NK, num_experts = case
    generator = torch.Generator().manual_seed(seed)
    wide = torch.randn(expert_NK.shape[0], 128 + 8, generator=generator).bfloat16()
    weights = torch.rand(expert_NK.shape, generator=generator)
    rows = Rows(wide[:, :128], None, expert_NK, weights, int((expert_NK >= 0).sum()), None)
    pairs = [
        (expert, row, slot)
        for expert in range(num_experts)
        for row, ids in enumerate(expert_NK.tolist())
        for slot, found in enumerate(ids)
        if found == expert
    ]
    groups = group(rows, num_experts)
    y = torch.randn(len(pairs), 128, generator=generator).bfloat16()
    out = reduce(y, groups)

    assert [sum(p[0] <= e for p in pairs) for e in range(num_experts)] == groups.end_L.tolist()
    assert [weights[row, slot].item() for _, row, slot in pairs] == groups.weight_G.tolist()
    for index, (_, row, _) in enumerate(pairs):
        assert torch.equal(wide[row, :128], groups.payload_GH[index])
    for row in range(expert_NK.shape[0]):
        terms = [(weights[r, s].item(), y[i].double()) for i, (_, r, s) in enumerate(pairs) if r == row]
        exact = sum((w * t for w, t in terms), torch.zeros(128, dtype=torch.float64))
        size = sum((abs(w) * t.abs() for w, t in terms), torch.zeros(128, dtype=torch.float64))
        assert ((out[row].double() - exact).abs() <= exact.abs() * 2.0**-8 + size * 2.0**-16).all()
        assert terms or (out[row] == 0).all()
