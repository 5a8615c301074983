"""Kernel times by the profiler and the harness against a minimal loop: groups, figures, and a run of each over gloo."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ep_worker import selfcheck
from ep_worker.contract import kernel_groups
from ep_worker.contract.kernel_groups import group_of, groups_of, unmatched
from ep_worker.contract.probe import Found, kernel_medians_ns
from ep_worker.contract.spec import OVERHEAD, PROFILE
from ep_worker.contract.terms import Device
from ep_worker.probes import report
from ep_worker.probes.kernels import after_line_up, on_gpu
from ep_worker.selfcheck import main

if TYPE_CHECKING:
    from pathlib import Path

SPIN = "at::cuda::(anonymous namespace)::spin_kernel(long)"
LINE_UP = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
NAMES = [
    ("deepep-v1", "void deep_ep::legacy::intranode::dispatch<2, 768, 8192>(int4*, float*)", "dispatch"),
    ("deepep-v1", "void deep_ep::intranode::cached_notify_combine<2>(void**, int*)", "notify"),
    ("deepep-v1", "void deep_ep::legacy::intranode::notify_dispatch<2>(int const*)", "notify"),
    ("deepep-v1", "void deep_ep::legacy::layout::get_dispatch_layout<256, 4, 8>(long const*)", "layout"),
    ("deepep-v1", "void deep_ep::legacy::internode_ll::combine<true, 7168, 11, 4>(void*)", "combine"),
    ("deepep-v2", "void deep_ep::elastic::dispatch_impl<2, 8>(void*)", "dispatch"),
    ("deepep-v2", "void deep_ep::elastic::combine_reduce_epilogue_impl<2, 8>(void*)", "combine_epilogue"),
    ("uccl", "void uccl::intranode::combine<__nv_bfloat16, 2, 768, 4096>(__nv_bfloat16*)", "combine"),
    ("uccl", "void uccl::internode_ll::dispatch<true, false, 7168>(void*)", "dispatch"),
    ("torch-agrs", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "collective"),
    (
        "torch-a2a",
        "void at::native::vectorized_elementwise_kernel<4, at::native::AbsFunctor<float> >(int)",
        "elementwise",
    ),
    ("torch-a2a", "void at::native::(anonymous namespace)::indexSelectLargeIndex<long>(void*)", "index"),
    ("torch-a2a", "Memcpy DtoH (Device -> Pinned)", "copy"),
    ("torch-a2a", "sum_bags_kernel", "row_sums"),
    ("deepep-v1", LINE_UP, None),
    ("uccl", "void deep_ep::legacy::intranode::dispatch_other<2>(int4*)", None),
    ("torch-a2a", "void uccl::intranode::dispatch<2>(int4*)", None),
]


@pytest.mark.parametrize(("backend", "kernel", "group"), NAMES)
def test_a_kernel_belongs_to_the_group_of_its_backend(backend: str, kernel: str, group: str | None) -> None:
    """Names as the profiler gives them; a collective in an arm that has none, or another library's kernel, has no group."""
    assert group == group_of(kernel, groups_of(backend, Device.CUDA))


def test_a_backend_without_groups_is_refused() -> None:
    """What declares none cannot be profiled."""
    with pytest.raises(ValueError, match="backend 'mine' declares no groups of kernels"):
        groups_of("mine", Device.CUDA)


def test_unmatched_kernels_are_named_once() -> None:
    """Each strange kernel once, in order."""
    assert ["a", "z"] == unmatched(["z", "a", "z", "Memset (Device)"], groups_of("torch-a2a", Device.CUDA))


def test_the_harness_own_kernels_are_left_out() -> None:
    """All up to the collective after the spin is the harness's; a later all-reduce is the arm's."""
    mine = [("dispatch", 30, 5), (LINE_UP, 40, 5)]

    assert mine == after_line_up([*mine, (LINE_UP, 20, 9), (SPIN, 10, 9), ("flush", 1, 2)])


def test_kernels_of_a_gpu_are_told_from_calls_and_annotations() -> None:
    """Of the profiler's events: what ran on the device, and is no range that a library named there."""

    def event(name: str, device: str, **fields: object) -> SimpleNamespace:
        when = SimpleNamespace(start=2.0, elapsed_us=lambda: 3.5)
        return SimpleNamespace(name=name, device_type=SimpleNamespace(name=device), time_range=when, **fields)

    events = [
        event("cudaLaunchKernel", "CPU"),
        event("nccl:all_to_all", "CUDA"),
        event("dispatch", "CUDA", is_user_annotation=True),
        event("dispatch", "CUDA", is_user_annotation=False),
    ]

    assert [("dispatch", 2000, 3500)] == on_gpu(events)  # type: ignore[arg-type] # all that it reads


@pytest.mark.parametrize("kernels", [[], [("dispatch", 1, 1)], [(LINE_UP, 1, 1), (SPIN, 2, 1)]])
def test_a_profile_without_the_line_up_is_refused(kernels: list) -> None:
    """Without spin and collective nobody knows whose kernels these are."""
    with pytest.raises(RuntimeError, match="expected spin_kernel, then AllReduce, first"):
        after_line_up(kernels)


class TestFigures:
    """`report`."""

    def test_kernel_medians(self) -> None:
        """Slowest ranks are 5, 7, 6: median 6; a group that never ran is left out."""
        ranks = [{"dispatch": [5, 1, 2], "barrier": [0, 0, 0]}, {"dispatch": [3, 7, 6], "barrier": [0, 0, 0]}]

        assert {"dispatch": 6.0} == kernel_medians_ns(ranks)

    def test_interval_of_a_median(self) -> None:
        """n = 20: ranks 6 and 15, level 0.959; n = 5: the extremes, whose level is 0.94."""
        assert (6, 15) == report.median_interval(range(1, 21))
        assert (1, 5) == report.median_interval(range(1, 6))

    @pytest.mark.parametrize(
        ("ours", "verdict", "holds"),
        [(1010, report.WITHIN, True), (1100, report.BEYOND, False), (900, report.BEYOND, False)],
    )
    def test_verdicts(self, ours: int, verdict: str, holds: bool) -> None:
        """1 % more than the minimal loop is within 2 %; 10 % more, or less, is not."""
        blocks = [{"ours": [ours, ours], "minimal": [1000, 1000]}] * 20
        row = report.summary(OVERHEAD, "arm", Found([{"mode": "host_start", "blocks": blocks}] * 2, ""))

        assert (verdict, holds) == (row["verdict"], row["holds"])
        assert row["verdict"] in report.overhead([row])

    def test_a_spread_across_the_border_is_not_resolved(self) -> None:
        """Ratios from 0.9 to 1.1 decide nothing, and are not called a failure."""
        blocks = [{"ours": [900 + 10 * number], "minimal": [1000]} for number in range(20)]
        row = report.summary(OVERHEAD, "arm", Found([{"mode": "host_start", "blocks": blocks}], ""))

        assert (report.NOT_RESOLVED, True) == (row["verdict"], row["holds"])

    def test_an_arm_without_a_result_says_why(self) -> None:
        """The reason stands where figures would."""
        row = report.summary(PROFILE, "arm", Found([], "crashed x: y"))

        assert "**none**: crashed x: y" in report.kernels([row])
        assert "**none**: crashed x: y" in report.overhead([row])
        assert not row["holds"]


ARM = ["--arm", "torch-a2a-cached:portable", "--shape", "tiny"]


def test_kernels_are_profiled_over_gloo(tmp_path: Path) -> None:
    """One arm, whole: its collective takes time, groups add up, and nothing is unmatched."""
    status = main(["kernels", *ARM, "--out", str(tmp_path / "found.json")])
    (row,) = json.loads((tmp_path / "found.json").read_text())["rows"]

    assert 0 == status, row
    assert 0 < row["median_ns"]["collective"] < row["median_ns"]["span"]


def test_a_kernel_of_no_group_fails_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A group that is not declared is an error that names the operator, on a run whose ranks see the same table."""
    table = tmp_path / "sitecustomize.py"
    table.write_text(
        "from ep_worker.contract import kernel_groups\nkernel_groups._CPU.pop('collective')\n", encoding="ascii"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    assert 1 == main(["kernels", *ARM])
    assert "inadmissible unmatched_kernel: rank" in capfd.readouterr().out
    assert "collective" in kernel_groups.groups_of("torch-a2a", Device.CPU)


def test_the_harness_is_held_against_a_minimal_loop(tmp_path: Path) -> None:
    """Both loops run block by block; how the ratio falls is the machine's matter, that it is one is ours."""
    main(["overhead", *ARM, "--out", str(tmp_path / "found.json")])
    (row,) = json.loads((tmp_path / "found.json").read_text())["rows"]

    assert 20 == len(row["ratios"])
    assert 0 < row["minimal_median_ns"]
    assert row["interval"][0] <= row["median_ratio"] <= row["interval"][1]


def test_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """An arm that the capability table does not know is status 2 and a line."""
    assert 2 == main(["overhead", "--arm", "nccl"])
    assert "found arm 'nccl', expected one of torch-a2a:portable" in capsys.readouterr().err


def test_only_arms_that_can_run_here_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --arm: those of the device and shape whose package is there; low latency takes no 4,096 tokens."""
    monkeypatch.setattr(selfcheck, "find_spec", lambda name: None if name == "uccl" else object())
    names = [arm.name for arm in selfcheck._present(Device.CUDA, selfcheck.SHAPES["prefill"], 2)]

    assert {"deepep-v1-normal", "deepep-v2-elastic", "torch-agrs-portable"} <= set(names)
    assert not {"deepep-v1-low_latency", "uccl-normal"} & set(names)
    assert 3 == len(selfcheck._present(Device.CPU, selfcheck.SHAPES["decode"], 2))
