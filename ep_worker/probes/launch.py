"""Launches one arm for a probe and brings back what each rank wrote of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ep_worker.contract.probe import Found, found_in
from ep_worker.contract.terms import Device, Mode
from ep_worker.handmade import handmade, launch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ep_worker.contract.spec import ArmSpec, Shape, StartSpec
    from ep_worker.contract.terms import Dtype

_WATCHDOG_S = 300.0


def probe(
    folder: Path,
    kind: str,
    arm: ArmSpec,
    device: Device,
    shape: Shape,
    dtype: Dtype,
    *,
    ranks: int,
    ranks_per_device: int,
    tell: Callable[[StartSpec], None],
) -> Found:
    """Runs one arm, launches hidden where the device can."""
    environment = {"NCCL_MULTI_RANK_GPU_ENABLE": "1"} if ranks_per_device > 1 else {}
    mode = Mode.HOST_START if device is Device.CPU else Mode.LAUNCH_HIDDEN
    spec = handmade(
        arm, device, shape, dtype, mode=mode, ranks=ranks, ranks_per_device=ranks_per_device, watchdog_s=_WATCHDOG_S
    )
    spec = replace(spec, kind=kind)
    tell(spec)
    return found_in(launch(folder, spec, environment)["records"][0])
