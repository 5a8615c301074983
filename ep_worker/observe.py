"""Provenance: what a rank sees of its own process and machine. Observed here, never echoed from a request."""

from __future__ import annotations

import os
import platform
import resource
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import distributed as dist

from ep_worker.backends import find
from ep_worker.contract.provenance import ENVIRONMENT_PREFIXES, is_not_applicable, not_applicable
from ep_worker.contract.terms import Device
from ep_worker.failure import MissingBackendError

if TYPE_CHECKING:
    from ep_worker.place import Place

_ON_CPU = not_applicable("ranks compute on the CPU with gloo, which is a part of torch and has no version of its own")
_NO_GPU = not_applicable("ranks compute on the CPU")
_INFINIBAND = Path("/sys/class/infiniband")


class Observer:
    """Observes before the first and after the last series.

    Attributes:
        timer_floor_ns: Set by the rank once it is measured; None before that.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._before = self._changing()
        self.timer_floor_ns: int | None = None

    def fields(self) -> dict[str, Any]:
        """Every provenance field; a field that could not be observed is null, which validation refuses."""
        after = self._changing()
        pairs = {name: _pair(before, after[name]) for name, before in self._before.items()}
        return {
            **_machine(),
            **_libraries(self._place),
            **pairs,
            **_backend(self._place),
            "threads_per_rank": torch.get_num_threads(),
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "timer_floor_ns": self.timer_floor_ns,
            "environment": {
                name: value for name, value in sorted(os.environ.items()) if name.startswith(ENVIRONMENT_PREFIXES)
            },
        }

    def _changing(self) -> dict[str, Any]:
        """What may differ before and after."""
        if self._place.spec.device is Device.CPU:
            clocks = {"gpu_clocks_mhz": _NO_GPU, "gpu_throttle_reasons": _NO_GPU}
        else:
            from ep_worker.observe_cuda import clocks_and_throttling  # noqa: PLC0415 - needs a GPU

            clocks = clocks_and_throttling()
        return {"load_average": os.getloadavg()[0], **clocks}


def _pair(before: Any, after: Any) -> Any:
    """A value before and after; null where either was not observed, one answer where the platform has no such thing."""
    if is_not_applicable(before):
        return before
    return None if before is None or after is None else {"after": after, "before": before}


def _machine() -> dict[str, Any]:
    cpus = sorted(os.sched_getaffinity(0))
    return {
        "hostname": os.environ.get("GANG_NODE") or socket.gethostname(),  # a pod's own name says nothing of the machine
        "machine": platform.machine(),
        "kernel": platform.release(),
        "cpu_model": _cpu_info("model name") or _cpu_info("CPU part") or platform.machine(),
        "num_cpus": len(cpus),
        "affinity": cpus,
        "cpu_frequency_khz": _cpu_frequency_khz(cpus[0]),
        "memory_total_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "python_version": platform.python_version(),
        "nic": _fabric_devices(),
        "image_id": not_applicable("a process cannot see it; the controller reads it from the container's status"),
    }


def _libraries(place: Place) -> dict[str, Any]:
    common = {
        "torch_version": torch.__version__,
        "torch_commit": torch.version.git_version,
        "collective_library": dist.get_backend() if dist.is_initialized() else None,
    }
    if place.spec.device is Device.CPU:
        names = ("collective_version_loaded", "collective_version_compiled", "collective_library_files")
        gpu = ("cuda_version", "gpu_model", "driver_version")
        return {**common, **dict.fromkeys(names, _ON_CPU), **dict.fromkeys(gpu, _NO_GPU)}
    from ep_worker.observe_cuda import cuda_libraries  # noqa: PLC0415 - needs a GPU

    return {**common, **cuda_libraries()}


def _backend(place: Place) -> dict[str, Any]:
    """What the arm says of its build; nothing where it cannot be imported, which is then what the start failed of."""
    try:
        return find(place.spec.arm.backend).provenance()
    except MissingBackendError:
        return {}


def _cpu_info(key: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _cpu_frequency_khz(cpu: int) -> Any:
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq")
    if path.exists():
        return int(path.read_text())
    megahertz = _cpu_info("cpu MHz")
    return round(float(megahertz) * 1000) if megahertz else not_applicable("this kernel does not report it")


def _fabric_devices() -> Any:
    """RDMA devices by name with the driver of each and its version."""
    if not _INFINIBAND.is_dir() or not any(_INFINIBAND.iterdir()):
        return not_applicable("no RDMA device in /sys/class/infiniband")
    devices = {}
    for device in sorted(_INFINIBAND.iterdir()):
        driver = (device / "device/driver").resolve()
        version = driver / "module/version"
        devices[device.name] = {
            "driver": driver.name,
            "version": version.read_text().strip() if version.exists() else platform.release(),
        }
    return devices
