"""Sums of bags against float32 sums of the same rows, rounded once."""

from __future__ import annotations

import pytest
import torch

from ep_worker.bag import method, sum_bags

CPU = torch.device("cpu")


def bags(device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, list[int]]:
    """Forty rows of 1,300 columns in six bags of 0, 3, 1, 0, 36 and 0 entries, some rows twice; unequal weights."""
    torch.manual_seed(5)
    rows = torch.randn(40, 1300).bfloat16()
    entries = torch.randint(0, 40, (40,))
    sizes = [0, 3, 1, 0, 36, 0]
    starts = torch.tensor(sizes).cumsum(0) - torch.tensor(sizes)
    weights = torch.rand(40) + 0.1
    return rows.to(device), entries.to(device), starts.to(device), weights.to(device), sizes


def check(device: torch.device, *, weighted: bool) -> None:
    """Every bag is its rows' float32 sum to one BF16 rounding (2^-8); an empty bag is exactly zero."""
    rows, entries, starts, weights, sizes = bags(device)
    out = sum_bags(rows, entries, starts, weights if weighted else None)

    assert (6, 1300) == tuple(out.shape)
    assert torch.bfloat16 is out.dtype
    for bag, (start, size) in enumerate(zip(starts.tolist(), sizes, strict=True)):
        chosen = rows[entries[start : start + size]].double()
        if weighted:
            chosen *= weights[start : start + size].double()[:, None]
        expected, scale = chosen.sum(0), chosen.abs().sum(0)
        assert ((out[bag].double() - expected).abs() <= 2.0**-8 * expected.abs() + 2.0**-15 * scale).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_bags_are_summed_on_a_cpu(weighted: bool) -> None:
    """With weights and without, bags of none, one and many rows."""
    assert "embedding_bag" == method(CPU)
    check(CPU, weighted=weighted)


def test_no_entry_at_all() -> None:
    """Bags of nothing are zeros; no bag is an empty result."""
    rows, none = torch.ones(3, 8).bfloat16(), torch.zeros(0, dtype=torch.int64)

    assert torch.equal(torch.zeros(2, 8).bfloat16(), sum_bags(rows, none, torch.zeros(2, dtype=torch.int64)))
    assert (0, 8) == tuple(sum_bags(rows, none, none).shape)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 1, reason="needs a CUDA GPU")
@pytest.mark.parametrize("weighted", [False, True])
def test_bags_are_summed_on_a_gpu(weighted: bool) -> None:
    """The Triton kernel, where torch brings Triton."""
    check(torch.device("cuda", 0), weighted=weighted)
