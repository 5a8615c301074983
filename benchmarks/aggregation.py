"""How fast aggregation is: 10 million samples to Parquet, against pyarrow writing the same table from memory.

Both sides end with the same rows in a zstd-compressed file. Ours also opens every record and unpacks its samples, computes the
figures of every series and writes two more tables, and never holds the whole; pyarrow is given the finished table. Runs are
paired (ours, raw, ours, raw, ...), each in a process of its own; the result is the ratio of medians. Goal: at least half of
pyarrow's speed, in bounded memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
EP_SIZE, ITERATIONS = 8, 300
GOAL = 0.5
MIB = 1 << 20


def make_folder(folder: Path, num_samples: int) -> Path:
    """A validated results folder with at least that many rows of samples; returns its root."""
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from plans import make_plan  # noqa: PLC0415
    from synthetic import make_results  # noqa: PLC0415

    from ep_campaign.validate import validate  # noqa: PLC0415 - the children do not need it
    from ep_campaign.validate.report import write  # noqa: PLC0415

    def plan_of(rounds: int) -> object:
        return make_plan(
            folder,
            ep_sizes=[{"ranks": EP_SIZE, "rounds": rounds, "scored": False}],
            routes=[{"name": "uniform", "kind": "uniform"}, {"name": "zipf", "kind": "zipf"}],
            dtypes=["fp8", "bf16"],
            measurement={"modes": ["host_start", "chained"], "iterations": ITERATIONS, "warmups": 20},
        )

    one = plan_of(1)
    per_round = sum(
        series.iterations // series.chain_length * EP_SIZE
        for start in one.starts
        for series in one.spec(start).series
        if series.same_as is None
    )
    plan = plan_of(-(-num_samples // per_round))
    results = make_results(folder / "results", plan)
    write(validate(plan, results), results)
    return results.root


def child(side: str, root: Path) -> None:
    """One timed run, in a process of its own; prints its duration, rows and peak memory as JSON."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - imports are not timed

    from ep_campaign.aggregate import aggregate  # noqa: PLC0415
    from ep_campaign.layout import Results  # noqa: PLC0415
    from ep_campaign.plan import read_plan  # noqa: PLC0415

    results = Results(root)
    path = results.table("samples")
    if side == "ours":
        plan = read_plan(results.plan)
        began = time.perf_counter()
        aggregate(plan, results)
        seconds = time.perf_counter() - began
    else:
        table = pq.read_table(path)
        path = root / "raw.parquet"
        began = time.perf_counter()
        pq.write_table(table, path, compression="zstd")
        seconds = time.perf_counter() - began
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    rows, size = pq.read_metadata(path).num_rows, path.stat().st_size
    print(json.dumps({"seconds": seconds, "peak_bytes": peak_bytes, "rows": rows, "file_bytes": size}))


def run(side: str, root: Path) -> dict[str, float]:
    """One run of one side."""
    command = [sys.executable, __file__, "--child", side, str(root)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    account: dict[str, float] = json.loads(done.stdout)
    return account


def main() -> None:
    """Measures, prints both sides and their ratio; exit status 1 where the goal is missed."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--samples", type=int, default=10_000_000, help="rows of the samples table")
    arguments.add_argument("--pairs", type=int, default=5)
    arguments.add_argument("--child", nargs=2, metavar=("SIDE", "ROOT"), help=argparse.SUPPRESS)
    given = arguments.parse_args()
    if given.child:
        child(given.child[0], Path(given.child[1]))
        return
    with tempfile.TemporaryDirectory() as temporary:
        root = make_folder(Path(temporary), given.samples)
        runs = [(run("ours", root), run("raw", root)) for _ in range(given.pairs)]
    for name, side in (("ours", [ours for ours, _ in runs]), ("raw pyarrow", [raw for _, raw in runs])):
        seconds = statistics.median(item["seconds"] for item in side)
        peak, size = max(item["peak_bytes"] for item in side) / MIB, side[0]["file_bytes"] / MIB
        rate = side[0]["rows"] / seconds / 1e6
        print(f"{name:12s} {seconds:7.2f} s {rate:6.2f} M samples/s  peak {peak:6.0f} MiB  file {size:6.1f} MiB")
    ours_s, raw_s = (statistics.median(item[side]["seconds"] for item in runs) for side in (0, 1))
    ratio = raw_s / ours_s
    print(f"speed over raw pyarrow: {ratio:.2f} (ratio of medians of {given.pairs} pairs; goal at least {GOAL})")
    if ratio < GOAL:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
