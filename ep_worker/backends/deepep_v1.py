"""DeepEP V1: `deep_ep.Buffer` (deepseek-ai/DeepEP v1.2.1 to 2.1.0): NVLink in eight ranks, NVSHMEM beyond and in low latency."""

from __future__ import annotations

from typing import Any

from ep_worker.backends.build import build_provenance, import_build, require_parameters
from ep_worker.backends.legacy import LegacyLowLatency, LegacyNormal, Library
from ep_worker.contract.provenance import not_applicable
from ep_worker.failure import MissingBackendError

ADVICE = (
    "build deepseek-ai/DeepEP from its sources, at the commit that the campaign compares, into the arm's image "
    "(`deep-ep` 1.0.0 of the Python package index is a placeholder without headers and cannot be built)"
)
_ROOTS = ("deep_ep", "deep_ep_cpp")
_CONSTRUCTOR = ("num_nvl_bytes", "num_rdma_bytes", "low_latency_mode", "num_qps_per_rank", "explicitly_destroy")


def load() -> Library:
    """DeepEP as this image holds it.

    Raises:
        MissingBackendError: There is none, or something else of that name.
    """
    module: Any = import_build("deep_ep", ADVICE)
    if not hasattr(module, "Buffer"):
        msg = f"deep_ep at {module.__file__} has no Buffer: it is not DeepEP; {ADVICE}"
        raise MissingBackendError(msg)
    if is_uccl_wrapper(module):
        msg = f"deep_ep at {module.__file__} is UCCL-EP's wrapper of that name, not DeepEP: use an image of DeepEP, or backend uccl"
        raise MissingBackendError(msg)
    require_parameters(module.Buffer.__init__, "deep_ep.Buffer", _CONSTRUCTOR)
    require_parameters(module.Buffer.dispatch, "deep_ep.Buffer.dispatch", ("num_worst_tokens", "config"))
    return Library(module.Buffer, module.Config, module.topk_idx_t, {})


def is_uccl_wrapper(module: Any) -> bool:
    """Whether a module named `deep_ep` is UCCL's: its Buffer's module then holds UCCL's extension as `ep`."""
    from sys import modules  # noqa: PLC0415 - looked at when asked, not when imported

    home = modules.get(module.Buffer.__module__)
    return str(getattr(getattr(home, "ep", None), "__name__", "")).startswith("uccl")


def provenance() -> dict[str, Any]:
    """Version, commit and shared objects of DeepEP."""
    module: Any = import_build("deep_ep", ADVICE)
    no_jit = not_applicable("the kernels of this interface are compiled with the build")
    return {**build_provenance("deep_ep", _ROOTS, getattr(module, "__version__", None)), "jit_cache": no_jit}


class DeepEpV1Normal(LegacyNormal):
    """Normal mode, with the host's wait for receive counts."""

    load = staticmethod(load)
    provenance = staticmethod(provenance)


class DeepEpV1NoSync(DeepEpV1Normal):
    """Normal mode that returns the worst case's rows and never waits for the host; NVLink only."""

    waits_for_host = False


class DeepEpV1LowLatency(LegacyLowLatency):
    """Low-latency mode."""

    load = staticmethod(load)
    provenance = staticmethod(provenance)
