"""Observed values as text: a number, a name, a list; or that the platform has no such thing, and why."""

from __future__ import annotations

from typing import Any

from ep_worker.contract.canonical import canonical_json
from ep_worker.contract.provenance import NOT_APPLICABLE, is_not_applicable


def shown(value: Any) -> Any:
    """The value; None where the platform has no such thing."""
    return None if is_not_applicable(value) else value


def value_text(value: Any) -> str:
    """A value in a line: `2.13.0`, `[0, 1]`, `not applicable: a CPU has none`."""
    if is_not_applicable(value):
        return f"not applicable: {value[NOT_APPLICABLE]}"
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, bool | float) or value is None:
        return str(value)
    if isinstance(value, list) and all(isinstance(item, str | int | float) for item in value):
        return ", ".join(map(str, value))
    return canonical_json(value)
