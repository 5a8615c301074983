"""aiperf's export, read by our definitions."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ep_campaign.elastic.aiperf import figures, import_aiperf
from ep_campaign.errors import CampaignError

START_NS = 1_759_813_207_532_900_363
SCRIPT = Path(__file__).parents[2] / "workflow" / "scripts" / "import_aiperf.py"


def line(number: int = 0, **fields: Any) -> dict[str, Any]:
    """A line as aiperf writes it: first token after 250 ms, then gaps of 5, 5 and 90, 4 tokens."""
    metadata = {
        "session_num": number,
        "x_request_id": "7609a2e7",
        "request_start_ns": START_NS,
        "request_ack_ns": START_NS + 100,
        "request_end_ns": START_NS + 360_000_000,
        "worker_id": "w",
        "benchmark_phase": "profiling",
        "was_cancelled": False,
    }
    metrics = {
        "input_sequence_length": {"value": 550, "unit": "tokens"},
        "time_to_first_token": {"value": 250.0, "unit": "ms"},
        "request_latency": {"value": 360.0, "unit": "ms"},
        "inter_chunk_latency": {"value": [5.0, 5.0, 90.0], "unit": "ms"},
        "inter_token_latency": {"value": 33.33, "unit": "ms"},
        "output_sequence_length": {"value": 4, "unit": "tokens"},
    }
    return {
        "metadata": {**metadata, **fields.pop("metadata", {})},
        "metrics": {**metrics, **fields.pop("metrics", {})},
        "error": None,
        **fields,
    }


FAILED = line(2, metrics={}, error={"code": 503, "type": "HTTP", "message": "scaling"})
FAILED["metrics"] = {}
FAILED["metadata"]["request_end_ns"] = START_NS


def write(folder: Path, *lines: Any) -> Path:
    """An export."""
    path = folder / "profile_export.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" if not isinstance(one, str) else one + "\n" for one in lines))
    return path


def test_gaps_are_pooled_and_not_averaged(tmp_path: Path) -> None:
    """The stall of 90 ms is a gap here, though aiperf's own inter-token latency says 33 for all; TPOT is 100 / 3."""
    run = import_aiperf(write(tmp_path, line(0), line(1)), "cell")
    found = figures(run)
    assert (250.0, 360.0) == (found["ttft_p50_ms"], found["e2e_p50_ms"])
    assert 100 / 3 == pytest.approx(found["tpot_p50_ms"])
    assert (6, 5.0) == (found["num_itl"], found["itl_p50_ms"])
    last = run.requests[0]["last_content_ns"] - run.requests[0]["first_content_ns"]
    assert 100_000_000 == last


def test_warm_ups_and_errors(tmp_path: Path) -> None:
    """Warm-ups are flagged; an error keeps its code and has no latency, since its end is its start."""
    warm = line(0, metadata={"benchmark_phase": "warmup"})
    cut = line(3, metadata={"was_cancelled": True})
    run = import_aiperf(write(tmp_path, warm, line(1), FAILED, cut), "cell")
    assert ["warmup", "measured", "measured", "measured"] == [one["phase"] for one in run.requests]
    assert [("", 200), ("http_status", 503), ("cut", None)] == [
        (one["error_class"], one["status"]) for one in run.requests[1:]
    ]
    assert run.requests[2]["done_ns"] is None
    found = figures(run)
    assert (3, 1) == (found["num_requests"], found["num_ok"])
    assert 0.36 == pytest.approx(found["window_s"])


def test_every_line_at_fault_is_named(tmp_path: Path) -> None:
    """Another unit, another phase and a line that is cut short are refused, all at once."""
    seconds = line(0, metrics={"time_to_first_token": {"value": 0.25, "unit": "s"}})
    phase = line(1, metadata={"benchmark_phase": "cooldown"})
    path = write(tmp_path, seconds, phase, '{"metadata": ', line(3))
    with pytest.raises(CampaignError) as caught:
        import_aiperf(path, "cell")
    assert ("bad_aiperf_export", "bad_aiperf_export", "not_json") == caught.value.codes
    assert f"{path}:1: metrics.time_to_first_token.unit" in str(caught.value)
    assert "found 'cooldown', expected one of warmup, profiling" in str(caught.value)


def test_the_command(tmp_path: Path) -> None:
    """It prints the figures as JSON; what cannot be read is one line and status 2."""
    path = write(tmp_path, line(0))
    done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, check=True)
    assert 250.0 == json.loads(done.stdout)["ttft_p50_ms"]
    path.write_text("[]\n")
    done = subprocess.run([sys.executable, SCRIPT, path], capture_output=True, text=True, check=False)
    assert (2, 1) == (done.returncode, len(done.stderr.splitlines()))
