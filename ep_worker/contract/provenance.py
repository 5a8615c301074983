"""Provenance: what each rank observed of its own process and machine, field by field.

A field is an observed value or `not_applicable(reason)`, and each platform says where the second is allowed. A null, a
missing field, or a "not applicable" where the platform has the thing, is a validation failure: it is how a harness comes to
publish a column of blanks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_worker.contract.terms import Device

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NOT_APPLICABLE = "not_applicable"

ENVIRONMENT_PREFIXES = (
    "CUDA_",
    "DEEP_EP_",
    "DNNL_",
    "EP_",
    "FI_",
    "GLIBC_",
    "GLOO_",
    "GOMP_",
    "KMP_",
    "LD_",
    "MALLOC_",
    "MKL_",
    "NCCL_",
    "NVSHMEM_",
    "OMP_",
    "ONEDNN_",
    "OPENBLAS_",
    "PYTHONHASHSEED",
    "PYTHONMALLOC",
    "PYTHONOPTIMIZE",
    "PYTORCH_",
    "TORCH_",
    "TRITON_",
    "UCCL_",
    "UCX_",
)
"""Every variable that starts with one of these is recorded."""

_CPU = frozenset({Device.CPU})
_BOTH = frozenset(Device)


@dataclass(frozen=True)
class Field:
    """One provenance field.

    Attributes:
        name: Key in a record.
        meaning: What it holds, with units.
        optional_on: Platforms where `not_applicable` is an answer.
        runtime: Whether it must be equal for all arms of a campaign (the runtime signature).
    """

    name: str
    meaning: str
    optional_on: frozenset[Device] = frozenset()
    runtime: bool = False


FIELDS = (
    Field("hostname", "name of the machine as the process sees it"),
    Field("machine", "CPU architecture, as uname reports it", runtime=True),
    Field("kernel", "kernel release", runtime=True),
    Field("cpu_model", "model name of the CPU", runtime=True),
    Field("num_cpus", "processors that the process may use", runtime=True),
    Field("affinity", "processor numbers that the process may use"),
    Field("cpu_frequency_khz", "current frequency of its first processor", _BOTH),
    Field("load_average", "1-minute load of the machine before the first and after the last series"),
    Field("memory_total_bytes", "memory of the machine", runtime=True),
    Field("peak_rss_bytes", "largest resident set of the rank"),
    Field("python_version", "interpreter", runtime=True),
    Field("torch_version", "torch.__version__", runtime=True),
    Field("torch_commit", "torch.version.git_version", runtime=True),
    Field("threads_per_rank", "torch's intra-op threads", runtime=True),
    Field("collective_library", "gloo or nccl, as the process group reports it", runtime=True),
    Field("collective_version_loaded", "version that the mapped library reports", _CPU),
    Field("collective_version_compiled", "version that torch was compiled against", _CPU),
    Field("collective_library_files", "paths and SHA-256 of the collective libraries mapped into the process", _CPU),
    Field("cuda_version", "torch.version.cuda", _CPU, runtime=True),
    Field("gpu_model", "name of the device", _CPU, runtime=True),
    Field("driver_version", "kernel driver", _CPU, runtime=True),
    Field("gpu_clocks_mhz", "SM and memory clock before and after", _CPU),
    Field("gpu_throttle_reasons", "clock throttle reasons before and after, as reported", _CPU),
    Field("nic", "network devices of the fabric, with driver versions", _BOTH),
    Field("backend_version", "what the backend calls itself"),
    Field("backend_commit", "source commit of the backend's build", _BOTH),
    Field("backend_files", "paths and SHA-256 of the backend's shared objects", _BOTH),
    Field("image_id", "image ID as the container runtime reports it", _BOTH),
    Field("jit_cache", "directory of the backend's JIT cache and whether it was warm", _BOTH),
    Field("environment", "every variable of the recorded prefixes"),
    Field("timer_floor_ns", "median elapsed time of an empty timed region: a covariate of host speed"),
)


def not_applicable(reason: str) -> dict[str, str]:
    """The value of a field that this platform does not have."""
    return {NOT_APPLICABLE: reason}


def is_not_applicable(value: Any) -> bool:
    """Whether a field's value says that the platform has no such thing."""
    return isinstance(value, dict) and set(value) == {NOT_APPLICABLE}


def merge_provenance(by_rank: Sequence[Mapping[str, Any] | None]) -> dict[str, Any]:
    """Per-rank provenance as one table: `value` where all ranks agree, `by_rank` where they differ; missing ranks are null."""
    present = [event["fields"] if event is not None else None for event in by_rank]
    names = sorted({name for fields in present if fields is not None for name in fields})
    merged: dict[str, Any] = {}
    for name in names:
        values = [None if fields is None else fields.get(name) for fields in present]
        merged[name] = {"value": values[0]} if all(value == values[0] for value in values) else {"by_rank": values}
    return merged


def provenance_problems(merged: Mapping[str, Any], device: Device) -> list[str]:
    """Fields that are missing, null on some rank, unknown, or "not applicable" where the platform has the thing."""
    known = {field.name: field for field in FIELDS}
    found = [f"provenance field {name!r} is not in this schema" for name in sorted(set(merged) - set(known))]
    for name, field in known.items():
        if name not in merged:
            found.append(f"provenance field {name!r} is missing ({field.meaning})")
            continue
        entry = merged[name]
        values = entry["by_rank"] if "by_rank" in entry else [entry.get("value")]
        if any(value is None or value == "" for value in values):
            found.append(f"provenance field {name!r} is null on some rank ({field.meaning})")
        elif any(is_not_applicable(value) for value in values) and device not in field.optional_on:
            found.append(f"provenance field {name!r} says not applicable, but {device.value} has it ({field.meaning})")
    return found
