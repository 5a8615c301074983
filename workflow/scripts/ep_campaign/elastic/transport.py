"""Whether the transport that an arm is named for is what its engine used, by the driver's proof."""

from __future__ import annotations

from typing import Any


def transport_fault(expected: str, provenance: dict[str, Any]) -> str | None:
    """Why the transport is not proved; None where it is.

    Args:
        expected: What the arm declares.
        provenance: What the driver observed.
    """
    proof = provenance["transport"]
    if proof["name"] == expected:
        return None
    return f"the engine's own logs prove {proof['name'] or 'no transport'}, expected {expected}: {proof['evidence']}"
