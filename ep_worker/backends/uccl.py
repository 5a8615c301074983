"""UCCL-EP (uccl-project/uccl): by the wrapper that its image ships, else by ours over its raw interface."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ep_worker.backends.build import build_provenance, import_build, installed
from ep_worker.backends.deepep_v1 import is_uccl_wrapper
from ep_worker.backends.legacy import LegacyLowLatency, LegacyNormal, Library
from ep_worker.backends.uccl_buffer import UcclBuffer
from ep_worker.contract.canonical import sha256_file
from ep_worker.contract.provenance import not_applicable
from ep_worker.failure import MissingBackendError

if TYPE_CHECKING:
    from ep_worker.backends.protocol import Problem

ADVICE = (
    "build ep/ of uccl-project/uccl from its sources, at the commit that the campaign compares, into the arm's image; "
    "`uccl` 0.1.1 of the Python package index needs Python 3.12 and holds no EFA, earlier ones hold no `ep` at all"
)


WRAPPERS = ("", "shipped", "ours")
"""Knob `wrapper`: what calls the raw interface; empty for the shipped one where there is one, else ours."""


def load(wanted: str = "") -> Library:
    """UCCL-EP as this image holds it, by the wrapper that is wanted.

    Raises:
        MissingBackendError: There is no `uccl.ep`, or an empty one, or the shipped wrapper is wanted and there is none.
        ValueError: There is no such wrapper.
    """
    if wanted not in WRAPPERS:
        msg = f"knob 'wrapper' is {wanted!r}, expected shipped or ours, or nothing for what the image has: mend the arm's knobs"
        raise ValueError(msg)
    ep: Any = import_build("uccl.ep", ADVICE)
    if not (hasattr(ep, "Buffer") and hasattr(ep, "Proxy")):
        msg = f"{installed('uccl')} at {ep.__file__} has no Buffer and Proxy: it is a build without EP; {ADVICE}"
        raise MissingBackendError(msg)
    wrapper = None if wanted == "ours" else shipped_wrapper()
    if wrapper is None and wanted == "shipped":
        msg = f"found no wrapper of UCCL-EP under the name deep_ep ({installed('deep_ep')}), which the arm wants; {ADVICE}"
        raise MissingBackendError(msg)
    buffer, word = (UcclBuffer, "ours") if wrapper is None else (wrapper, "shipped")
    path = Path(str(sys.modules[buffer.__module__].__file__))
    extra = {"wrapper": word, "wrapper_file": str(path), "wrapper_sha256": sha256_file(path)}
    return Library(buffer, ep.Config, torch.int64, extra)


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


def _choose(arm: LegacyNormal | LegacyLowLatency, problem: Problem) -> Problem:
    """Sets what an arm loads by its knob `wrapper`, and takes the knob away: the interface itself has none such."""
    arm.load = partial(load, str(problem.knobs.get("wrapper", "")))
    return replace(problem, knobs={name: value for name, value in problem.knobs.items() if name != "wrapper"})


class UcclNormal(LegacyNormal):
    """Normal mode. Its teardown takes the CUDA context with it."""

    ends_device = True
    provenance = staticmethod(provenance)

    def __init__(self, problem: Problem) -> None:
        super().__init__(_choose(self, problem))


class UcclLowLatency(LegacyLowLatency):
    """Low-latency mode. Its teardown takes the CUDA context with it."""

    ends_device = True
    provenance = staticmethod(provenance)

    def __init__(self, problem: Problem) -> None:
        super().__init__(_choose(self, problem))
