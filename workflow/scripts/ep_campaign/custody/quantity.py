"""Kubernetes quantities as integers, and what a pod asks of its node."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(r"^([+-]?[0-9.]+)([eE][+-]?[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$")
_FACTORS = {
    "m": Decimal("0.001"),
    **{letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)},
}


def quantity(text: str | int) -> Decimal:
    """A quantity such as `8`, `5120Mi` or `500m`.

    Raises:
        ValueError: It is none.
    """
    match = _QUANTITY.match(str(text))
    if match is None:
        msg = f"{text!r} is not a Kubernetes quantity"
        raise ValueError(msg)
    return Decimal(match[1] + (match[2] or "")) * _FACTORS.get(match[3] or "", Decimal(1))


def requested(pod: dict[str, Any], resource: str) -> Decimal:
    """What a pod holds of a resource while it runs.

    Containers add up; init containers run one after the other, beside the sidecars (`restartPolicy: Always`) before them.
    """
    spec = pod["spec"]
    running = sum((_asks(container, resource) for container in spec.get("containers") or []), Decimal(0))
    sidecars = most = Decimal(0)
    for container in spec.get("initContainers") or []:
        asks = _asks(container, resource)
        if container.get("restartPolicy") == "Always":
            sidecars += asks
            most = max(most, sidecars)
        else:
            most = max(most, sidecars + asks)
    return max(running + sidecars, most)


def _asks(container: dict[str, Any], resource: str) -> Decimal:
    resources = container.get("resources") or {}
    asked = (resources.get("requests") or {}).get(resource, (resources.get("limits") or {}).get(resource, 0))
    return quantity(asked)
