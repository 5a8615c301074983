"""The client's own error: the same client against a server whose delays are known, on the same machine, before the cells."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ep_campaign.elastic.loader import Loader, read_loaded, wait_for_file
from ep_load.spec import Arrivals, LoadSpec, Prompt, Stream

if TYPE_CHECKING:
    from pathlib import Path

FIRST_MS, GAP_MS = 20.0, 5.0
_NUM_TOKENS = 24
_NUM_WAVES = 2
_TIMEOUT_S = 60.0
_NS_PER_MS = 1e6


def calibrate(concurrency: int, seed: int, folder: Path) -> dict[str, Any]:
    """Measures the client's error at a concurrency.

    Returns:
        Concurrency, requests, and quantiles [ms] of what the client says less what the server did: of the first token
        (from the client's send to its read, less the server's arrival to its write) and of gaps (absolute).
    """
    folder.mkdir(parents=True, exist_ok=True)
    out = folder / "known-delay.jsonl"
    server = subprocess.Popen(
        [sys.executable, "-m", "ep_load", "known-delay", str(out), f"--first-ms={FIRST_MS}", f"--gap-ms={GAP_MS}"],
        stdin=subprocess.PIPE,
    )
    try:
        port = wait_for_file(out.with_name(f"{out.name}.port"), server, _TIMEOUT_S)
        stream = Stream(
            "calibration",
            Arrivals.CLOSED,
            "calibration",
            concurrency,
            num_warmups=concurrency,
            num_requests=_NUM_WAVES * concurrency,
        )
        prompt = Prompt("bytes", 64, _NUM_TOKENS, ignore_eos=True)
        Loader(LoadSpec((f"127.0.0.1:{port}",), "known-delay", prompt, (stream,), seed), folder).wait(_TIMEOUT_S)
        server.communicate(timeout=_TIMEOUT_S)  # closes its input, which is its word to stop
    finally:
        server.kill()
        server.communicate()
    return bias(read_loaded(folder).requests, out, concurrency)


def bias(requests: list[dict[str, Any]], served: Path, concurrency: int) -> dict[str, Any]:
    """Joins what the client saw and what the server did, by request id."""
    lines = served.read_text(encoding="ascii").splitlines()
    truth = {line["id"]: line for line in map(json.loads, lines)}
    first, gaps = [], []
    measured = [one for one in requests if one["phase"] == "calibration" and one["success"]]
    for one in measured:
        written = truth[f"{one['stream']}-{one['number']}"]
        true_first_ns = written["written_ns"][0] - written["arrived_ns"]
        first.append((one["first_content_ns"] - one["sent_ns"] - true_first_ns) / _NS_PER_MS)
        seen = np.diff([chunk[0] for chunk in one["chunks"] if chunk[1]])
        gaps.extend(np.abs(seen - np.diff(written["written_ns"])) / _NS_PER_MS)
    return {
        "concurrency": concurrency,
        "num_requests": len(measured),
        "num_failed": sum(not one["success"] for one in requests),
        "ttft_bias_ms": _quantiles(first),
        "gap_error_ms": _quantiles(gaps),
    }


def _quantiles(values: list[float]) -> dict[str, float] | None:
    if not values:
        return None
    p50, p95 = np.quantile(values, [0.5, 0.95])
    return {"p50": round(float(p50), 4), "p95": round(float(p95), 4)}
