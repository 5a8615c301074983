"""Ranks of a probe: processes that meet in a file, do one thing together, and say how long the slowest took."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.hardware.native import ProbeRefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

MEET_S = 60.0
_BOUND_S = 600.0
_NS_PER_US = 1e3


def run_ranks(num_ranks: int, device: str, folder: Path, what: str, spec: dict[str, Any]) -> list[float]:
    """Values of one thing done by some ranks: for each iteration the slowest rank's time [us].

    Args:
        num_ranks: Processes.
        device: `cpu` (gloo) or `cuda` (NCCL, a GPU a rank).
        folder: Where they meet, empty.
        what: `barrier`, or `all_to_all` of `spec["size"]` bytes a rank.
        spec: `iterations`, `warmups`, and what the thing needs.

    Raises:
        ProbeRefusedError: `rank_failed`, with the last words of the first that did; wrong contents are such.
    """
    asked = {**spec, "what": what, "ranks": num_ranks, "device": device}
    command = [sys.executable, "-m", "ep_worker.hardware.ranks", json.dumps(asked), str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen(
            [*command, str(rank)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in range(num_ranks)
    ]
    deadline = time.monotonic() + _BOUND_S
    try:
        ended = [process.communicate(timeout=max(1.0, deadline - time.monotonic())) for process in processes]
    except subprocess.TimeoutExpired:
        raise ProbeRefusedError("rank_failed", f"{what} of {num_ranks} ranks did not end in {_BOUND_S:.0f} s") from None
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for rank, (process, (_, said)) in enumerate(zip(processes, ended, strict=True)):
        if process.returncode:
            raise ProbeRefusedError("rank_failed", f"rank {rank} of {what}: {' '.join(said.split())[-400:]}")
    by_rank = [json.loads(out.strip().splitlines()[-1]) for out, _ in ended]
    return [max(values) / _NS_PER_US for values in zip(*by_rank, strict=True)]


def main(asked: str, folder: str, rank: str) -> None:
    """One rank; prints its times [ns] as JSON."""
    import torch  # noqa: PLC0415 - so that the parent needs none of it
    from torch import distributed as dist  # noqa: PLC0415

    spec, number = json.loads(asked), int(rank)
    on_gpu = spec["device"] == "cuda"
    if on_gpu:
        torch.cuda.set_device(number)
    else:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = f"file://{Path(folder).resolve()}/meeting"
    dist.init_process_group(
        "nccl" if on_gpu else "gloo", init_method=store, rank=number, world_size=spec["ranks"], timeout=_timeout()
    )
    once = _barrier(torch, dist, on_gpu) if spec["what"] == "barrier" else _all_to_all(torch, dist, spec, number)
    times = []
    for index in range(spec["warmups"] + spec["iterations"]):
        dist.barrier()
        elapsed_ns = once()
        if index >= spec["warmups"]:
            times.append(elapsed_ns)
    print(json.dumps(times), flush=True)
    os._exit(0)  # NCCL's teardown may wait for a peer that has gone


def _timeout() -> Any:
    from datetime import timedelta  # noqa: PLC0415

    return timedelta(seconds=MEET_S)


def _barrier(torch: Any, dist: Any, on_gpu: bool) -> Callable[[], int]:
    def once() -> int:
        began = time.perf_counter_ns()
        dist.barrier()
        if on_gpu:
            torch.cuda.synchronize()
        return time.perf_counter_ns() - began

    return once


def _all_to_all(torch: Any, dist: Any, spec: dict[str, Any], rank: int) -> Callable[[], int]:
    """Each rank sends `size` bytes, an equal part to every rank, each part filled with its sender's number."""
    ranks, device = spec["ranks"], f"cuda:{rank}" if spec["device"] == "cuda" else "cpu"
    part = max(1, spec["size"] // ranks)
    sent = torch.full((ranks * part,), rank + 1, dtype=torch.uint8, device=device)
    received = torch.empty_like(sent)

    def once() -> int:
        received.zero_()
        if device != "cpu":
            torch.cuda.synchronize()
        dist.barrier()
        began = time.perf_counter_ns()
        dist.all_to_all_single(received, sent)
        if device != "cpu":
            torch.cuda.synchronize()
        elapsed = time.perf_counter_ns() - began
        wanted: torch.Tensor = torch.arange(1, ranks + 1, dtype=torch.uint8, device=device).repeat_interleave(part)
        if not torch.equal(received, wanted):
            msg = f"wrong contents after all_to_all of {spec['size']} bytes"
            raise RuntimeError(msg)
        return elapsed

    return once


if __name__ == "__main__":
    main(*sys.argv[1:])
