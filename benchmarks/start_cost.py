"""What a start costs beside its measuring: `python -m ep_worker launch` against the same start under torchrun.

    python benchmarks/start_cost.py [--ranks 2] [--pairs 7]

Runs the same small start (one cell, 20 iterations) by turns, ours then torchrun's, and prints the wall time of each and
the ratio of the medians. Ends with status 1 where ours takes more than 0.6 of torchrun's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from ep_worker.contract.canonical import pretty_json
from ep_worker.contract.capabilities import capability
from ep_worker.contract.series import Cell, Measurement, resolve
from ep_worker.contract.spec import ArmSpec, Route, Shape, StartSpec
from ep_worker.contract.terms import ApiMode, Boundary, Device, Dtype, Mode
from ep_worker.contract.workload import RouteKind

MOST_OF_TORCHRUN = 0.6
ARM = "torch-a2a"


def small_start(num_ranks: int) -> StartSpec:
    """One cell of 8 tokens a rank, 20 iterations."""
    shape = Shape("tiny", tokens_per_rank=8, max_tokens_per_rank=8, hidden=128, experts=4 * num_ranks, top_k=2)
    cell = Cell(f"ep{num_ranks}/tiny/affine/bf16", "affine", Dtype.BF16)
    entry = capability(ARM, ApiMode.PORTABLE)
    assert entry is not None
    boundary, mode = Boundary.DISPATCH_READY, Mode.HOST_START
    how = Measurement(
        (boundary,), (mode,), boundary, mode, isolated_loops=False, iterations=20, warmups=2, chain_length=1
    )
    series, rejected = resolve([cell], how, entry, Device.CPU)
    return StartSpec(
        kind="scored",
        campaign="start-cost",
        plan_digest="0" * 64,
        start=f"ep{num_ranks}/tiny/round-01/{ARM}",
        device=Device.CPU,
        ep_size=num_ranks,
        ranks_per_pod=num_ranks,
        domain_size=num_ranks,
        input_kind="affine",
        seed=1,
        shape=shape,
        arm=ArmSpec(ARM, ARM, ApiMode.PORTABLE, {}, {}),
        routes=(Route("affine", RouteKind.AFFINE, 1, (8,) * num_ranks),),
        cells=(cell,),
        series=tuple(series),
        rejected=tuple(rejected),
        threads_per_rank=1,
        rendezvous_timeout_s=60.0,
        collective_timeout_s=60.0,
        watchdog_s=120.0,
    )


def wall_s(command: list[str], out: Path, num_ranks: int) -> float:
    """Wall time of one start [s]; a start that leaves a rank without results is an error."""
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - began
    for rank in range(num_ranks):
        if '"event":"results"' not in (out / f"rank-{rank}.jsonl").read_text():
            msg = f"{' '.join(command)}: rank {rank} left no results; see {out}"
            raise RuntimeError(msg)
    return seconds


def main() -> int:
    """Runs the pairs and prints the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--ranks", type=int, default=2, help="ranks of the start")
    parser.add_argument("--pairs", type=int, default=7, help="starts of each kind")
    options = parser.parse_args()
    launch = ["-m", "ep_worker", "launch"]
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={options.ranks}"]
    commands = {"ours": [sys.executable, *launch], "torchrun": [sys.executable, *torchrun, *launch]}
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as scratch:
        spec = Path(scratch) / "spec.json"
        spec.write_text(pretty_json(small_start(options.ranks).as_json()))
        for pair in range(options.pairs):
            for name, command in commands.items():
                out = Path(scratch) / f"{name}-{pair}"
                times[name].append(wall_s([*command, str(spec), str(out)], out, options.ranks))
            print(f"pair {pair + 1}: " + ", ".join(f"{name} {values[-1]:.3f} s" for name, values in times.items()))
    ratio = median(times["ours"]) / median(times["torchrun"])
    print(f"median: ours {median(times['ours']):.3f} s, torchrun {median(times['torchrun']):.3f} s, ratio {ratio:.3f}")
    return 0 if ratio <= MOST_OF_TORCHRUN else 1


if __name__ == "__main__":
    sys.exit(main())
