"""The arms of this worker by name, imported when asked for: an image holds the libraries of its own arm only."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from ep_worker.contract.terms import ApiMode
from ep_worker.failure import MissingBackendError

if TYPE_CHECKING:
    from ep_worker.backends.protocol import Backend

_OWN = {
    ("torch-a2a", ApiMode.PORTABLE): "ep_worker.backends.torch_a2a:TorchA2a",
    ("torch-a2a-cached", ApiMode.PORTABLE): "ep_worker.backends.torch_a2a:TorchA2a",
    ("torch-agrs", ApiMode.PORTABLE): "ep_worker.backends.torch_agrs:TorchAgrs",
    ("deepep-v1", ApiMode.NORMAL): "ep_worker.backends.deepep_v1:DeepEpV1Normal",
    ("deepep-v1", ApiMode.LOW_LATENCY): "ep_worker.backends.deepep_v1:DeepEpV1LowLatency",
    ("deepep-v1-nosync", ApiMode.NORMAL): "ep_worker.backends.deepep_v1:DeepEpV1NoSync",
    ("deepep-v2", ApiMode.ELASTIC): "ep_worker.backends.deepep_v2:DeepEpV2",
    ("deepep-v2-nosync", ApiMode.ELASTIC): "ep_worker.backends.deepep_v2:DeepEpV2NoSync",
    ("uccl", ApiMode.NORMAL): "ep_worker.backends.uccl:UcclNormal",
    ("uccl", ApiMode.LOW_LATENCY): "ep_worker.backends.uccl:UcclLowLatency",
}


def find(name: str, api_mode: ApiMode) -> type[Backend]:
    """The class of a backend in an API mode: one of this worker's by its name, any other as `module:Class`.

    The second form serves tests and launches by hand. A campaign's plan needs an entry of the capability table, which the
    host reads without importing any backend.

    Raises:
        MissingBackendError: There is no such thing in this image.
    """
    module, separator, attribute = _OWN.get((name, api_mode), name).partition(":")
    if not separator:
        known = ", ".join(sorted(f"{backend} in {mode.value}" for backend, mode in _OWN))
        msg = f"backend {name!r} in API mode {api_mode.value!r} is unknown, expected {known}"
        raise MissingBackendError(msg)
    try:
        return cast("type[Backend]", getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        msg = f"backend {name!r} cannot be imported here: {error}; the arm needs an image that holds it"
        raise MissingBackendError(msg) from error
