"""UCCL-EP (uccl-project/uccl): by the wrapper that its image ships, else by ours over its raw interface."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ep_worker.backends.build import build_provenance, import_build, installed
from ep_worker.backends.deepep_v1 import is_uccl_wrapper
from ep_worker.backends.legacy import LegacyLowLatency, LegacyNormal, Library
from ep_worker.backends.uccl_buffer import UcclBuffer
from ep_worker.contract.canonical import sha256_file
from ep_worker.contract.provenance import not_applicable
from ep_worker.failure import MissingBackendError

ADVICE = (
    "build ep/ of uccl-project/uccl from its sources, at the commit that the campaign compares, into the arm's image; "
    "`uccl` 0.1.1 of the Python package index needs Python 3.12 and holds no EFA, earlier ones hold no `ep` at all"
)


def load() -> Library:
    """UCCL-EP as this image holds it.

    Raises:
        MissingBackendError: There is no `uccl.ep`, or an empty one.
    """
    ep: Any = import_build("uccl.ep", ADVICE)
    if not (hasattr(ep, "Buffer") and hasattr(ep, "Proxy")):
        msg = f"{installed('uccl')} at {ep.__file__} has no Buffer and Proxy: it is a build without EP; {ADVICE}"
        raise MissingBackendError(msg)
    wrapper = shipped_wrapper()
    if wrapper is None:
        return Library(UcclBuffer, ep.Config, torch.int64, {"wrapper": "ours over the raw interface"})
    path = Path(str(sys.modules[wrapper.__module__].__file__))
    return Library(wrapper, ep.Config, torch.int64, {"wrapper": str(path), "wrapper_sha256": sha256_file(path)})


def shipped_wrapper() -> Any:
    """The `Buffer` class of the wrapper that an image ships under the name `deep_ep`, or None.

    Its source is looked at before it is imported: DeepEP itself would bring libraries of another arm into this process.
    """
    spec = find_spec("deep_ep")
    source = Path(str(spec.origin)).with_name("buffer.py") if spec is not None else None
    if source is None or not source.is_file() or "from uccl import ep" not in source.read_text(errors="replace"):
        return None
    module: Any = import_build("deep_ep", ADVICE)
    return module.Buffer if is_uccl_wrapper(module) else None


def provenance() -> dict[str, Any]:
    """Version, commit and shared objects of UCCL."""
    import_build("uccl.ep", ADVICE)
    no_jit = not_applicable("the kernels of this library are compiled with the build")
    return {
        **build_provenance("uccl", ("uccl",), getattr(sys.modules["uccl"], "__version__", None)),
        "jit_cache": no_jit,
    }


class UcclNormal(LegacyNormal):
    """Normal mode. Its teardown takes the CUDA context with it."""

    ends_device = True
    load = staticmethod(load)
    provenance = staticmethod(provenance)


class UcclLowLatency(LegacyLowLatency):
    """Low-latency mode. Its teardown takes the CUDA context with it."""

    ends_device = True
    load = staticmethod(load)
    provenance = staticmethod(provenance)
