"""Which variables make a library print or check so much while it communicates that its times are not its own.

A scored start under one of them has no latency; admission, which proves the transport from what libraries print, sets them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_OFF = frozenset({"", "0", "false", "off", "no"})
_LOUD_LEVELS = frozenset({"abort", "info", "debug", "trace"})
_LOUD: Mapping[str, frozenset[str]] = {
    "FI_LOG_LEVEL": _LOUD_LEVELS,
    "NCCL_DEBUG": _LOUD_LEVELS,
    "NVSHMEM_DEBUG": _LOUD_LEVELS,
    "TORCH_CPP_LOG_LEVEL": _LOUD_LEVELS,
    "TORCH_DISTRIBUTED_DEBUG": frozenset({"detail"}),  # it wraps every collective; INFO speaks when a group is made
    "UCX_LOG_LEVEL": _LOUD_LEVELS,
}
"""Levels by name: those that print, or check, in each call."""
_SWITCHES = ("CUDA_LAUNCH_BLOCKING", "EP_BUFFER_DEBUG", "EP_JIT_DEBUG")
"""Loud wherever they are on."""


def loud_variables(environment: Mapping[str, str]) -> list[str]:
    """`NAME=value` of each variable that is loud, by name."""
    levels = {name for name, loud in _LOUD.items() if environment.get(name, "").strip().lower() in loud}
    switches = {name for name in _SWITCHES if environment.get(name, "").strip().lower() not in _OFF}
    return [f"{name}={environment[name]}" for name in sorted(levels | switches)]
