"""The load generator's own error at 1, 8 and 64 requests in flight, against a server whose delays are known.

Bias of the first token: what the client says less what the server did, from the client's send to its read. Error of gaps: the
absolute difference of each gap. Medians over repeats; concurrencies take turns, so that what the machine does hits them alike.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path
from typing import Any

from ep_campaign.elastic.calibrate import calibrate

CONCURRENCIES = (1, 8, 64)
SEED = 1


def main() -> None:
    """Prints each run and the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4, help="runs of each concurrency")
    repeats = parser.parse_args().repeats
    found: dict[int, list[dict[str, Any]]] = {concurrency: [] for concurrency in CONCURRENCIES}
    print("in flight   requests   TTFT bias p50   p95 ms   gap error p50   p95 ms")
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats):
            for concurrency, own in found.items():
                own.append(calibrate(concurrency, SEED, Path(folder) / f"{concurrency}-{repeat}"))
                print(line(concurrency, [own[-1]]), flush=True)
    print(f"medians of {repeats}")
    for concurrency, own in found.items():
        print(line(concurrency, own))


def line(concurrency: int, runs: list[dict[str, Any]]) -> str:
    """One row: medians over runs."""
    first_p50, first_p95, gap_p50, gap_p95 = (
        statistics.median(run[name][quantile] for run in runs)
        for name in ("ttft_bias_ms", "gap_error_ms")
        for quantile in ("p50", "p95")
    )
    requests = sum(run["num_requests"] for run in runs)
    return f"{concurrency:9d} {requests:10d} {first_p50:15.2f} {first_p95:8.2f} {gap_p50:15.3f} {gap_p95:8.3f}"


if __name__ == "__main__":
    main()
