"""A start that no plan asked for: its specification, its launch, its files put together. For checks of this worker itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from ep_worker.contract.assembly import assemble
from ep_worker.contract.canonical import pretty_json
from ep_worker.contract.capabilities import capability
from ep_worker.contract.counter import DRAW_BITS
from ep_worker.contract.series import Cell, Measurement, resolve
from ep_worker.contract.spec import SCORED, ArmSpec, Route, StartSpec
from ep_worker.contract.terms import Boundary, Mode
from ep_worker.contract.workload import RouteKind
from ep_worker.outcome import LAUNCHER_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from ep_worker.contract.spec import Shape
    from ep_worker.contract.terms import Device, Dtype

SEED = 20261201
_ROUTE = "uniform"
_HEADROOM_S = 30.0


def handmade(
    arm: ArmSpec,
    device: Device,
    shape: Shape,
    dtype: Dtype,
    *,
    mode: Mode = Mode.HOST_START,
    ranks: int = 2,
    ranks_per_device: int = 1,
    iterations: int = 10,
    warmups: int = 3,
    isolated_loops: bool = False,
    watchdog_s: float = 120.0,
) -> StartSpec:
    """A start of one arm on the ranks of this machine: one uniform route, one dtype, one boundary.

    Raises:
        ValueError: The arm says nothing of what it can do.
    """
    entry = capability(arm.backend, arm.api_mode)
    if entry is None:
        msg = f"backend {arm.backend!r} says nothing of API mode {arm.api_mode.value!r}: mend the arm's name or mode"
        raise ValueError(msg)
    thresholds = tuple(2**DRAW_BITS * (i + 1) // shape.experts for i in range(shape.experts))
    route = Route(_ROUTE, RouteKind.UNIFORM, SEED, (shape.tokens_per_rank,) * ranks, thresholds)
    cells = [Cell(f"ep{ranks}/{shape.profile}/{_ROUTE}/{dtype.value}", _ROUTE, dtype)]
    boundary = Boundary.DISPATCH_READY
    how = Measurement((boundary,), (mode,), boundary, mode, isolated_loops, iterations, warmups, 1)
    series, rejected = resolve(cells, how, entry, device)
    return StartSpec(
        kind=SCORED,
        campaign="handmade",
        plan_digest="0" * 64,
        start=f"ep{ranks}/{shape.profile}/round-01/{arm.name}",
        device=device,
        ep_size=ranks,
        ranks_per_pod=ranks,
        domain_size=ranks,
        ranks_per_device=ranks_per_device,
        input_kind="hashed",
        seed=SEED,
        shape=shape,
        arm=arm,
        routes=(route,),
        cells=tuple(cells),
        series=tuple(series),
        rejected=tuple(rejected),
        threads_per_rank=1,
        rendezvous_timeout_s=watchdog_s / 2,
        collective_timeout_s=watchdog_s / 2,
        watchdog_s=watchdog_s,
    )


def launch(folder: Path, spec: StartSpec, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Launches a start in processes of its own and returns its `start.json`.

    Args:
        folder: Where its files go; made here.
        spec: What it measures.
        environment: Variables of the launcher beside this process's own.

    Raises:
        RuntimeError: It left no account.
    """
    folder.mkdir(parents=True)
    path = folder / "spec.json"
    path.write_text(pretty_json(spec.as_json()))
    command = [sys.executable, "-m", "ep_worker", "launch", str(path), str(folder)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=spec.watchdog_s + _HEADROOM_S,
        env={**os.environ, **(environment or {})},
    )
    if not (folder / LAUNCHER_FILE).exists():
        msg = f"{' '.join(command)} ended with status {done.returncode} and no account: {done.stderr[-500:]}"
        raise RuntimeError(msg)
    account = json.loads((folder / LAUNCHER_FILE).read_text(encoding="ascii"))
    return assemble(folder, spec, account, {})
