"""Communication buffers that all cells of a start share.

A start has many cells, and each makes its arm anew; to make the buffers of these libraries anew in one process is a known
way to fail (DeepEP issues 382, 562, 571) and costs seconds. So a buffer is made once for what it depends on, and given
back when the rank has written everything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_MADE: dict[Hashable, Any] = {}


def shared_buffer(key: Hashable, make: Callable[[], Any]) -> Any:
    """The buffer of a key, made at its first use."""
    if key not in _MADE:
        _MADE[key] = make()
    return _MADE[key]


def destroy_shared() -> None:
    """Destroys every shared buffer, last made first, so that all ranks do it in one order."""
    while _MADE:
        _, buffer = _MADE.popitem()
        buffer.destroy()
