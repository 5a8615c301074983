"""The capability table: every refusal has a reason and a source, and placements say who does what."""

from __future__ import annotations

import pytest

from ep_worker.contract.capabilities import CAPABILITIES, api_modes, placements, reject_mode, reject_shape, same_work
from ep_worker.contract.terms import ApiMode, Boundary, Device, Dtype, Mode, Placement

LL = CAPABILITIES["deepep-v1", ApiMode.LOW_LATENCY]
SHAPE = {"ep_size": 16, "hidden": 7168, "top_k": 8, "max_tokens_per_rank": 128, "has_empty_rank": False}


@pytest.mark.parametrize(
    ("key", "change", "code"),
    [
        (("deepep-v1", ApiMode.NORMAL), {"ep_size": 12}, "rank_counts"),
        (("deepep-v1", ApiMode.LOW_LATENCY), {"hidden": 2880}, "hidden_sizes"),
        (("deepep-v1", ApiMode.LOW_LATENCY), {"top_k": 12}, "max_top_k"),
        (("deepep-v1", ApiMode.LOW_LATENCY), {"max_tokens_per_rank": 512}, "max_tokens_per_rank"),
        (("deepep-v2", ApiMode.ELASTIC), {"has_empty_rank": True}, "empty_ranks"),
        (("torch-a2a", ApiMode.PORTABLE), {"hidden": 2880}, "hidden_multiple"),
    ],
)
def test_shapes_beyond_a_limit_are_rejected(key, change, code):
    """The published shape passes, and one step beyond each limit is refused by its name with a source."""
    entry = CAPABILITIES[key]
    assert reject_shape(entry, Device.CUDA, **SHAPE) is None

    found = reject_shape(entry, Device.CUDA, **{**SHAPE, **change})
    assert code == found.code
    assert found.reason
    assert found.source


def test_a_gpu_backend_is_rejected_on_a_cpu():
    """The device is the first thing that is checked."""
    assert "device" == reject_shape(LL, Device.CPU, **SHAPE).code


def test_modes_of_a_cpu():
    """Three modes need a device; two are measured."""
    rejected = {mode for mode in Mode if reject_mode(CAPABILITIES["torch-a2a", ApiMode.PORTABLE], Device.CPU, mode)}

    assert {Mode.LAUNCH_HIDDEN, Mode.GRAPH, Mode.OVERLAPPED} == rejected


def test_a_host_wait_cannot_be_captured():
    """Graphs are rejected where the table says that the call waits on the host."""
    assert reject_mode(CAPABILITIES["torch-a2a", ApiMode.PORTABLE], Device.CUDA, Mode.GRAPH) is not None
    assert reject_mode(LL, Device.CUDA, Mode.GRAPH) is None


def test_placements_of_a_caller_cast():
    """A normal-mode arm casts outside at dispatch_ready, inside at bf16_ready, and groups and weights at gemm_ready."""
    entry = CAPABILITIES["deepep-v1", ApiMode.NORMAL]
    outside, inside = Placement.CALLER_OUTSIDE.value, Placement.CALLER_INSIDE.value

    cast = {boundary: placements(entry, Dtype.FP8, boundary)["cast_placement"] for boundary in Boundary}
    assert [outside, inside, inside] == list(cast.values())
    assert "none" == placements(entry, Dtype.BF16, Boundary.BF16_READY)["cast_placement"]
    gemm = placements(entry, Dtype.BF16, Boundary.GEMM_READY)
    assert {"cast_placement": "none", "permute_placement": inside, "weight_placement": inside} == gemm


def test_low_latency_kernels_do_all_of_it_at_every_boundary():
    """They cast, group and weight in the kernel: the three boundaries are one piece of work."""
    assert Boundary.DISPATCH_READY is same_work(LL, Dtype.FP8, Boundary.BF16_READY)
    assert Boundary.DISPATCH_READY is same_work(LL, Dtype.FP8, Boundary.GEMM_READY)


def test_every_limit_of_a_foreign_backend_has_a_source():
    """A non-default limit of a backend that is not ours names where it stands."""
    for (backend, mode), entry in CAPABILITIES.items():
        if backend.startswith("torch-"):
            continue
        limits = [n for n in ("rank_counts", "hidden_sizes", "max_top_k", "max_tokens_per_rank") if getattr(entry, n)]
        limits += [] if entry.empty_ranks else ["empty_ranks"]
        for name in limits:
            assert "ours" != entry.source(name), (backend, mode, name)


def test_api_modes_of_a_backend():
    """A backend with two interfaces lists both; an unknown one lists none."""
    assert {ApiMode.NORMAL, ApiMode.LOW_LATENCY} == set(api_modes("uccl"))
    assert () == api_modes("nvshmem")
