"""Which device a rank takes, and what it says where there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from worker.specs import make_spec

from ep_worker.contract.terms import Device
from ep_worker.device import HostMachine, open_machine
from ep_worker.failure import MissingDeviceError
from ep_worker.place import Place


def place(device: Device, local_rank: int, ranks_per_device: int) -> Place:
    """Where one rank of four on one node stands."""
    spec = replace(make_spec(ranks=4), device=device, ranks_per_device=ranks_per_device)
    fields: dict[str, Any] = dict.fromkeys(Place.__dataclass_fields__)
    fields |= {"spec": spec, "spec_folder": Path(), "out": Path(), "rank": local_rank, "local_rank": local_rank}
    return Place(**{**fields, "num_local_ranks": 4})


@pytest.mark.parametrize(
    ("num_devices", "ranks_per_device", "local_rank", "index"),
    [(4, 1, 3, 3), (2, 2, 3, 1), (2, 2, 1, 0), (1, 4, 3, 0)],
)
def test_ranks_that_share_a_device_are_neighbours(
    monkeypatch: pytest.MonkeyPatch, num_devices: int, ranks_per_device: int, local_rank: int, index: int
) -> None:
    """Rank l takes device l // ranks_per_device."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_devices)
    monkeypatch.setattr("ep_worker.cuda.CudaMachine", lambda number: number)

    assert index == open_machine(place(Device.CUDA, local_rank, ranks_per_device))


@pytest.mark.parametrize(("num_devices", "ranks_per_device"), [(0, 1), (3, 1), (1, 2)])
def test_a_rank_without_device_says_which_it_needs(
    monkeypatch: pytest.MonkeyPatch, num_devices: int, ranks_per_device: int
) -> None:
    """Found and expected stand in the message."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: num_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: num_devices)
    needed = 3 // ranks_per_device

    with pytest.raises(
        MissingDeviceError, match=f"sees {num_devices} CUDA devices, local rank 3 needs number {needed}"
    ):
        open_machine(place(Device.CUDA, 3, ranks_per_device))


def test_a_cpu_campaign_takes_the_host() -> None:
    """No device is looked for."""
    assert isinstance(open_machine(place(Device.CPU, 3, 1)), HostMachine)
