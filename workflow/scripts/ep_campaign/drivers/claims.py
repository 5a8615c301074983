"""The operator's ledger of accelerators: what is left of each, before and after a deployment."""

from __future__ import annotations

from typing import Any

DEVICES = "/apis/worker.gpustack.ai/v1/devices"

Ledger = dict[str, int]
"""What is left of each accelerator, in the operator's own units, by node, group and id."""


def read_ledger(devices: list[dict[str, Any]]) -> Ledger:
    """What is left of each accelerator of a list of `Devices`."""
    return {
        f"{one['metadata']['name']}/{group['id']}/{card['id']}": int(card.get("remaining", 0))
        for one in devices
        for group in one.get("status", {}).get("groups", [])
        for card in group.get("accelerators", [])
    }


def unreleased(before: Ledger, after: Ledger) -> list[str]:
    """Accelerators of which less is left than before, or that are gone from the ledger."""
    return [
        f"accelerator {name}: {after.get(name, 0)} left of {remaining}"
        for name, remaining in sorted(before.items())
        if after.get(name, 0) < remaining
    ]
