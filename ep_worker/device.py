"""What differs between devices: the collective library, what "idle" means, and the clock."""

from __future__ import annotations

from array import array
from time import perf_counter_ns
from typing import TYPE_CHECKING, Protocol

import torch

from ep_worker.contract.terms import Device
from ep_worker.failure import MissingDeviceError

if TYPE_CHECKING:
    from ep_worker.place import Place


class Clock(Protocol):
    """Stamps along a timed loop, read after it."""

    def stamp(self) -> None:
        """Takes the next stamp."""

    def elapsed_ns(self, first: int, last: int) -> int:
        """Time between two stamps, by their numbers from 0 [ns]."""


class Machine(Protocol):
    """One rank's device.

    Attributes:
        device: As torch calls it.
        bound_device: The device that the process group is bound to; None where there is nothing to bind.
        collective_backend: Name of the collective library.
    """

    device: torch.device
    bound_device: torch.device | None
    collective_backend: str

    def settle(self) -> None:
        """Returns when the device has nothing left to do."""

    def chill(self) -> None:
        """Empties the device's last-level cache of what the previous iteration left there."""

    def clock(self, num_stamps: int) -> Clock:
        """A clock for so many stamps, ready beforehand."""


class HostClock:
    """Host time, read where the stamp is taken."""

    def __init__(self, num_stamps: int) -> None:
        self._at_ns = array("q", bytes(8 * num_stamps))
        self._next = 0

    def stamp(self) -> None:
        """Takes the next stamp."""
        self._at_ns[self._next] = perf_counter_ns()
        self._next += 1

    def elapsed_ns(self, first: int, last: int) -> int:
        """Time between two stamps [ns]."""
        return self._at_ns[last] - self._at_ns[first]


class HostMachine:
    """A rank whose kernels run in its own thread: idle whenever it is asked, its caches left as they are."""

    collective_backend = "gloo"

    def __init__(self) -> None:
        self.device = torch.device("cpu")
        self.bound_device: torch.device | None = None

    def settle(self) -> None:
        """Returns at once."""

    def chill(self) -> None:
        """Leaves caches alone: a CPU's timed loop is warm, on every arm alike."""

    def clock(self, num_stamps: int) -> HostClock:
        """A clock for so many stamps."""
        return HostClock(num_stamps)


def open_machine(place: Place) -> Machine:
    """The device of a rank.

    Raises:
        MissingDeviceError: There is none for it here.
    """
    torch.set_num_threads(place.spec.threads_per_rank)
    if place.spec.device is Device.CPU:
        return HostMachine()
    num_devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    index = place.local_rank // place.spec.ranks_per_device
    if index >= num_devices:
        msg = f"this process sees {num_devices} CUDA devices, local rank {place.local_rank} needs number {index}"
        raise MissingDeviceError(msg)
    from ep_worker.cuda import CudaMachine  # noqa: PLC0415 - a rank on CPUs has no use for it

    return CudaMachine(index)
