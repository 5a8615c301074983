"""Every arm on two GPUs: what the capability table admits passes the oracle, with whole provenance."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
import torch
from worker.specs import How, launch, make_spec, route

from ep_worker import selfcheck
from ep_worker.contract.assembly import assemble
from ep_worker.contract.provenance import provenance_problems
from ep_worker.contract.spec import Shape
from ep_worker.contract.terms import ApiMode, Device, Mode
from ep_worker.contract.workload import RouteKind

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA GPUs"),
]

MODES = (Mode.HOST_START, Mode.LAUNCH_HIDDEN, Mode.GRAPH, Mode.CHAINED)


@pytest.mark.parametrize("backend", ["torch-a2a", "torch-a2a-cached", "torch-agrs"])
def test_an_arm_passes_in_every_mode(tmp_path: Path, backend: str) -> None:
    """All admitted modes are `ok` at every boundary; what cannot be captured is `unsupported` and not missing."""
    shape = Shape("small", tokens_per_rank=64, max_tokens_per_rank=96, hidden=1024, experts=32, top_k=4)
    routes = [route(kind, 2, shape) for kind in (RouteKind.UNIFORM, RouteKind.MASKED, RouteKind.RAGGED)]
    how = How(modes=MODES, iterations=20, warmups=5, chain_length=5, isolated_loops=True)
    spec = make_spec(backend, 2, routes, shape, how, Device.CUDA)
    assert 0 == launch(tmp_path, spec).returncode
    start = assemble(tmp_path, spec, json.loads((tmp_path / "launcher.json").read_text()), {})
    rejected = {"unsupported"} if backend == "torch-a2a" else set()

    assert {"ok"} | rejected == {record["status"] for record in start["records"]}, start["failures"]
    assert "ok" == start["teardown"]
    assert [] == provenance_problems(start["provenance"], Device.CUDA)


LIBRARIES = [
    ("deepep-v1", ApiMode.NORMAL, "deep_ep"),
    ("deepep-v1-nosync", ApiMode.NORMAL, "deep_ep"),
    ("deepep-v1", ApiMode.LOW_LATENCY, "deep_ep"),
    ("deepep-v2", ApiMode.ELASTIC, "deep_ep"),
    ("deepep-v2-nosync", ApiMode.ELASTIC, "deep_ep"),
    ("uccl", ApiMode.NORMAL, "uccl"),
    ("uccl", ApiMode.LOW_LATENCY, "uccl"),
]


@pytest.mark.parametrize(("backend", "mode", "package"), LIBRARIES)
def test_a_library_passes_in_every_mode(tmp_path: Path, backend: str, mode: ApiMode, package: str) -> None:
    """At the published shape, without a NIC: all admitted modes are `ok` at every boundary."""
    if find_spec(package) is None:
        pytest.skip(f"this environment holds no {package}")
    shape = Shape("decode", tokens_per_rank=128, max_tokens_per_rank=128, hidden=7168, experts=256, top_k=8)
    how = How(modes=MODES, iterations=20, warmups=5, chain_length=5, isolated_loops=True)
    routes = [route(kind, 2, shape) for kind in (RouteKind.UNIFORM, RouteKind.MASKED)]
    environment = {"EP_DISABLE_GIN": "1", "NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1"}
    spec = make_spec(backend, 2, routes, shape, how, Device.CUDA, mode, watchdog_s=600.0, environment=environment)
    assert 0 == launch(tmp_path, spec, timeout_s=650).returncode
    start = assemble(tmp_path, spec, json.loads((tmp_path / "launcher.json").read_text()), {})

    assert {record["status"] for record in start["records"]} <= {"ok", "unsupported"}, start["failures"]
    assert "ok" == start["teardown"]
    assert [] == provenance_problems(start["provenance"], Device.CUDA)


def test_every_break_is_caught() -> None:
    """What the gates catch over gloo they catch over NCCL."""
    assert 0 == selfcheck.main(["break", "--device", "cuda"])


@pytest.mark.parametrize("arm", ["torch-a2a:portable", "torch-a2a-cached:portable", "torch-agrs:portable"])
def test_no_kernel_of_a_portable_arm_is_unmatched(arm: str) -> None:
    """Every kernel that the profiler sees belongs to a declared group."""
    assert 0 == selfcheck.main(["kernels", "--device", "cuda", "--arm", arm, "--shape", "tiny", "--dtype", "fp8"])
