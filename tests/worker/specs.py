"""Small start specifications for tests of the worker, made without the plan side."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ep_worker.contract.canonical import pretty_json
from ep_worker.contract.capabilities import capability
from ep_worker.contract.counter import DRAW_BITS
from ep_worker.contract.series import Cell, Measurement, resolve
from ep_worker.contract.spec import ArmSpec, Route, Shape, StartSpec
from ep_worker.contract.terms import ApiMode, Boundary, Device, Dtype, Mode
from ep_worker.contract.workload import RouteKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

END = 2**DRAW_BITS
TINY = Shape("tiny", tokens_per_rank=6, max_tokens_per_rank=8, hidden=128, experts=12, top_k=3)
SEED = 20260824


@dataclass(frozen=True)
class How:
    """How a start of the tests measures."""

    boundaries: tuple[Boundary, ...] = tuple(Boundary)
    modes: tuple[Mode, ...] = (Mode.HOST_START,)
    iterations: int = 4
    warmups: int = 1
    chain_length: int = 2
    isolated_loops: bool = False
    dtypes: tuple[Dtype, ...] = tuple(Dtype)


def even_thresholds(number: int) -> tuple[int, ...]:
    """Thresholds that choose among `number` things alike."""
    return tuple(END * (i + 1) // number for i in range(number))


def skewed_thresholds(number: int) -> tuple[int, ...]:
    """Thresholds that give thing i a share of 1 / (i + 1)."""
    shares = [1 / (i + 1) for i in range(number)]
    parts = [int(END * sum(shares[: i + 1]) / sum(shares)) for i in range(number)]
    return (*parts[:-1], END)


def route(kind: RouteKind, ranks: int, shape: Shape = TINY, **fields: Any) -> Route:
    """A route of a kind; a ragged one gives rank r one token less than rank r - 1, and the last rank none."""
    tokens = (shape.tokens_per_rank,) * ranks
    if kind is RouteKind.RAGGED:
        tokens = (*(max(shape.tokens_per_rank - r, 1) for r in range(ranks - 1)), 0)
    flat = even_thresholds(shape.experts)
    by_kind: dict[RouteKind, dict[str, Any]] = {
        RouteKind.AFFINE: {},
        RouteKind.UNIFORM: {"thresholds": flat},
        RouteKind.ZIPF: {"thresholds": skewed_thresholds(shape.experts)},
        RouteKind.MASKED: {"thresholds": flat, "mask_threshold": END // 2},
        RouteKind.RAGGED: {"thresholds": flat},
        RouteKind.GROUPED: {
            "thresholds": even_thresholds(4),
            "member_thresholds": even_thresholds(2 * shape.experts // 4),
            "experts_per_group": shape.experts // 4,
        },
        RouteKind.TRACE: {},
    }
    common = {"name": kind.value, "kind": kind, "seed": SEED, "num_tokens": tokens}
    return Route(**{**common, **by_kind[kind], **fields})


def make_spec(
    backend: str = "torch-a2a",
    ranks: int = 2,
    routes: Sequence[Route] | None = None,
    shape: Shape = TINY,
    how: How | None = None,
    device: Device = Device.CPU,
    api_mode: ApiMode = ApiMode.PORTABLE,
    **fields: Any,
) -> StartSpec:
    """A start on the ranks of one node; `fields` replace those of the spec."""
    how = how or How()
    routes = [route(RouteKind.UNIFORM, ranks, shape)] if routes is None else list(routes)
    cells = [Cell(f"ep{ranks}/{shape.profile}/{r.name}/{d.value}", r.name, d) for r in routes for d in how.dtypes]
    entry = capability(backend, api_mode)
    assert entry is not None
    measurement = Measurement(
        how.boundaries,
        how.modes,
        how.boundaries[0],
        how.modes[0],
        how.isolated_loops,
        how.iterations,
        how.warmups,
        how.chain_length,
    )
    series, rejected = resolve(cells, measurement, entry, device)
    arm_fields = {key: fields.pop(key) for key in ("knobs", "environment", "build") if key in fields}
    arm = ArmSpec(backend, backend, api_mode, **{"knobs": {}, "environment": {}, **arm_fields})
    spec = StartSpec(
        kind="scored",
        campaign="tests",
        plan_digest="0" * 64,
        start=f"ep{ranks}/{shape.profile}/round-01/{backend}",
        device=device,
        ep_size=ranks,
        ranks_per_pod=ranks,
        domain_size=ranks,
        ranks_per_device=1,
        input_kind="hashed",
        seed=SEED,
        shape=shape,
        arm=arm,
        routes=tuple(routes),
        cells=tuple(cells),
        series=tuple(series),
        rejected=tuple(rejected),
        threads_per_rank=1,
        rendezvous_timeout_s=20.0,
        collective_timeout_s=20.0,
        watchdog_s=60.0,
    )
    return replace(spec, **fields)


def write_spec(folder: Path, spec: StartSpec) -> Path:
    """Writes a spec into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "spec.json"
    path.write_text(pretty_json(spec.as_json()))
    return path


def command(folder: Path, spec: StartSpec, *options: str) -> list[str]:
    """The command line that launches a spec, whose file it writes."""
    return [sys.executable, "-m", "ep_worker", "launch", str(write_spec(folder, spec)), str(folder), *options]


def launch(
    folder: Path, spec: StartSpec, *options: str, timeout_s: float = 100, **popen: Any
) -> subprocess.CompletedProcess[str]:
    """Launches a spec and waits for it."""
    return subprocess.run(
        command(folder, spec, *options), capture_output=True, text=True, check=False, timeout=timeout_s, **popen
    )
