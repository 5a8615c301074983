"""Adapters of GPU backends against recorded call contracts: the fakes hold the signatures, move the rows, and can misroute."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from worker.specs import TINY, How, launch, make_spec, route

from ep_worker.contract.assembly import assemble
from ep_worker.contract.terms import Boundary, Dtype, Mode
from ep_worker.contract.workload import RouteKind

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
ARMS = ("V1", "V1NoSync", "V1LowLatency", "V2", "V2NoSync", "Uccl", "UcclLow")
SHORT = How(modes=(Mode.HOST_START,), iterations=2, warmups=0, isolated_loops=True)


def run(folder: Path, arm: str, *, fakes: bool = True, fault: str = "", how: How = SHORT, **fields) -> dict:
    """One start of a faked arm on two ranks."""
    paths = [str(TESTS), *([str(TESTS / "fakes")] if fakes else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "FAKE_FAULT": fault}
    routes = [route(kind, 2, TINY) for kind in (RouteKind.UNIFORM, RouteKind.MASKED)]
    spec = make_spec(f"worker.faked_arms:{arm}", 2, routes, TINY, how, **fields)
    done = launch(folder, spec, env=environment)
    assert 0 == done.returncode, done.stderr
    return assemble(folder, spec, json.loads((folder / "launcher.json").read_text()), {})


@pytest.mark.parametrize("arm", ARMS)
def test_an_adapter_passes_the_oracle(tmp_path, arm):
    """Every dtype, boundary and loop passes before and after timing, over one shared buffer, with a clean teardown."""
    start = run(tmp_path, arm)

    assert [] == [(r["cell"], r["boundary"], r["reason"]) for r in start["records"] if r["status"] != "ok"]
    assert ("ok", []) == (start["teardown"], start["failures"])
    assert start["provenance"]["backend_version"]["value"] == ("0.1.1" if arm.startswith("Uccl") else "2.1.0")


def test_an_arms_folder_is_the_build_that_runs(tmp_path):
    """A folder that the arm names is imported from, and a folder that is not there is no licence to take another build."""
    fakes = str(TESTS / "fakes")
    found = run(tmp_path / "found", "V1", fakes=False, build=(fakes,))
    missing = run(tmp_path / "missing", "V1", build=("/no/such/build",))

    assert {"ok"} == {record["status"] for record in found["records"]}
    assert {("inadmissible", "missing_build")} == {(r["status"], r["reason_code"]) for r in missing["records"]}
    assert "there is no folder /no/such/build here" in missing["records"][0]["reason"]


@pytest.mark.parametrize(
    ("arm", "fault", "code"),
    [
        ("V1LowLatency", "wrong_experts", "wrong_experts"),
        ("V2NoSync", "wrong_experts", "wrong_experts"),
        ("V1", "dropped_rank", "wrong_output"),
        ("UcclLow", "dropped_rank", "wrong_output"),
        ("Uccl", "lost_row", "wrong_tokens"),
        ("V2", "lost_row", "wrong_tokens"),
    ],
)
def test_misrouting_under_an_adapter_is_caught(tmp_path, arm, fault, code):
    """A library that swaps experts, loses a row or drops a rank's part makes the cell incorrect, and nothing is timed."""
    start = run(tmp_path, arm, fault=fault, how=How((Boundary.DISPATCH_READY,), iterations=2, dtypes=(Dtype.BF16,)))

    assert {("incorrect", code)} == {(record["status"], record["reason_code"]) for record in start["records"]}
    assert not [record for record in start["records"] if "latency" in record]


def test_wrong_scales_of_a_kernel_cast_are_caught(tmp_path):
    """Scales that are not amax / 448 fail, though the cast is the kernel's own."""
    how = How((Boundary.DISPATCH_READY,), iterations=2, dtypes=(Dtype.FP8,))
    start = run(tmp_path, "V1LowLatency", fault="wrong_scales", how=how)

    assert {("incorrect", "wrong_payload")} == {(r["status"], r["reason_code"]) for r in start["records"]}


def test_a_missing_build_is_inadmissible_and_says_how_to_get_one(tmp_path):
    """Without the library the start is `inadmissible`, with what was found and what to build."""
    start = run(tmp_path, "V1", fakes=False, how=How((Boundary.DISPATCH_READY,), iterations=2, dtypes=(Dtype.BF16,)))

    assert ("inadmissible", "missing_build") == (start["status"], start["records"][0]["reason_code"])
    assert "deep_ep cannot be imported here" in start["records"][0]["reason"]
    assert "nothing of that name; build deepseek-ai/DeepEP from its sources" in start["records"][0]["reason"]


def test_low_latency_hooks_are_called(tmp_path):
    """With `return_recv_hook` the slots hold nothing until the hook ran, so that an arm that forgot it would fail."""
    how = How((Boundary.DISPATCH_READY,), iterations=2, dtypes=(Dtype.BF16,))
    start = run(tmp_path, "V1LowLatency", how=how, knobs={"return_recv_hook": True, "num_qps_per_rank": 4})
    resolved = start["records"][0]["resolved"]

    assert "ok" == start["status"]
    assert (True, 4, 128 * 2 * 12 * 8) == tuple(
        resolved[name] for name in ("return_recv_hook", "num_qps_per_rank", "buffer_bytes")
    )
