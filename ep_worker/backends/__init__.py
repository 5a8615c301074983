"""The arms of this worker by name, imported when asked for: an image holds the libraries of its own arm only."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from ep_worker.failure import MissingBackendError

if TYPE_CHECKING:
    from ep_worker.backends.protocol import Backend

_OWN = {
    "torch-a2a": "ep_worker.backends.torch_a2a:TorchA2a",
    "torch-a2a-cached": "ep_worker.backends.torch_a2a:TorchA2a",
    "torch-agrs": "ep_worker.backends.torch_agrs:TorchAgrs",
}


def find(name: str) -> type[Backend]:
    """The class of a backend: one of this worker's by its name, any other as `module:Class`.

    The second form serves tests and launches by hand. A campaign's plan needs an entry of the capability table, which the
    host reads without importing any backend.

    Raises:
        MissingBackendError: There is no such thing in this image.
    """
    module, separator, attribute = _OWN.get(name, name).partition(":")
    if not separator:
        msg = f"backend {name!r} is unknown, expected {', '.join(sorted(_OWN))}"
        raise MissingBackendError(msg)
    try:
        return cast("type[Backend]", getattr(import_module(module), attribute))
    except (ImportError, AttributeError) as error:
        msg = f"backend {name!r} cannot be imported here: {error}; the arm needs an image that holds it"
        raise MissingBackendError(msg) from error
