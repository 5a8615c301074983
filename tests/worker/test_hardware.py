"""Probes of the hardware on a CPU: what they count, what they refuse, and that a lost add is no rate."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ep_worker.hardware import stride as stride_module
from ep_worker.hardware.__main__ import run_probe
from ep_worker.hardware.native import ProbeRefusedError, compiled

if TYPE_CHECKING:
    from pathlib import Path

STRIDE: dict[str, Any] = {
    "probe": "stride",
    "transport": "shm",
    "channels": 4,
    "strides": [8, 4096],
    "adds": 500,
    "iterations": 3,
    "warmups": 1,
}
LINK: dict[str, Any] = {
    "probe": "link",
    "pattern": "copy",
    "device": "cpu",
    "sizes": [4096],
    "ranks": 2,
    "iterations": 3,
    "warmups": 1,
}


def test_stride_counts_every_add(tmp_path: Path) -> None:
    """One rate an iteration and stride, all above 0, from adds that all arrived."""
    found = run_probe(STRIDE, tmp_path)

    assert ("ok", "") == (found["status"], found["reason_code"])
    assert [8, 4096] == [point["x"] for point in found["points"]]
    assert all(len(point["values"]) == 3 and min(point["values"]) > 0 for point in found["points"])


def test_a_rate_is_adds_over_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """4 x 500 adds in 10,000 ns are 200 adds a microsecond: 200 Mops."""
    monkeypatch.setattr(stride_module, "_transport", lambda *_: lambda *_: (10_000, 2_000))

    assert [200.0] * 3 == run_probe(STRIDE, tmp_path)["points"][0]["values"]


def test_a_lost_add_makes_the_start_incorrect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum over counters is held against what was issued; a rate of adds that did not arrive is none."""
    monkeypatch.setattr(stride_module, "_transport", lambda *_: lambda *_: (10_000, 1_999))
    found = run_probe(STRIDE, tmp_path)

    assert ("incorrect", "lost_adds") == (found["status"], found["reason_code"])
    assert "1999 adds arrived of 2000" in found["reason"]
    assert [] == found["points"][0]["values"]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"transport": "pigeon"}, "unknown_transport"),
        ({"strides": [12]}, "bad_stride"),
        ({"strides": [0]}, "bad_stride"),
        ({"transport": "device"}, "no_device"),
        ({"transport": "nvlink"}, "no_device"),
    ],
)
def test_what_cannot_be_probed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any], code: str
) -> None:
    """With a code, and no point."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    found = run_probe({**STRIDE, **fields}, tmp_path)

    assert ("inadmissible", code, []) == (found["status"], found["reason_code"], found["points"])


def test_no_compiler_and_a_failing_one_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiler's words are in the refusal."""
    broken = tmp_path / "cc"
    broken.write_text("#!/bin/sh\necho the header is missing >&2\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProbeRefusedError, match="ended with 7: the header is missing"):
        compiled("stride_shm.c", tmp_path)
    broken.unlink()
    with pytest.raises(ProbeRefusedError, match="none of cc, gcc, clang"):
        compiled("stride_shm.c", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "unit", "names"),
    [
        (LINK, "GB/s", [4096]),
        ({**LINK, "pattern": "all_to_all"}, "GB/s", [4096]),
        ({**LINK, "probe": "floor"}, "us", ["empty", "barrier"]),
    ],
)
def test_the_command_writes_its_account(tmp_path: Path, spec: dict[str, Any], unit: str, names: list[object]) -> None:
    """As a launcher runs it: contents checked by the ranks themselves, and one value an iteration."""
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec))
    command = [sys.executable, "-m", "ep_worker.hardware", str(path), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    found = json.loads((tmp_path / "out" / "probe.json").read_text())

    assert ("ok", 0) == (found["status"], done.returncode), found["reason"] + done.stderr
    assert [(name, unit, 3) for name in names] == [(p["x"], p["unit"], len(p["values"])) for p in found["points"]]
