"""The five layers of width, as a document beside the engine, with the fields of the GPUStack operator's observation.

Desired: what was asked. Admitted: what the engine accepted. Allocated: rank processes that run. Ray: ranks that joined.
Effective: ranks that made one step together and said so. It carries no time, and is written only when it changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ep_worker.contract.canonical import pretty_json, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

AGREE = "native ranks and forwards agree"


@dataclass(frozen=True)
class Observed:
    """What the document says.

    Attributes:
        generation: Number of the accepted request that it is about; 1 for the start.
        desired: Width that was asked.
        admitted: Width that the engine accepted.
        allocated: Rank processes.
        joined: Ranks that joined.
        effective: Width that was proved; None while it is not.
        stable_width: Last width that was proved.
        state: `Resizing`, `Completed`, `Refused`, `Failed`, or empty.
        reason: Words to the state.
    """

    generation: int
    desired: int
    admitted: int
    allocated: int
    joined: int
    effective: int | None
    stable_width: int
    state: str = ""
    reason: str = ""


class Observation:
    """The document and its file."""

    def __init__(self, path: Path, deployment_uid: str, master_uid: str, *, renamed: bool) -> None:
        """Writes nothing yet.

        Args:
            path: The file.
            deployment_uid: The engine's name.
            master_uid: Identity of the process that serves HTTP.
            renamed: Whether `effective` goes by another name (a fault).
        """
        self.now = Observed(1, 0, 0, 0, 0, None, 0)
        self._path, self._deployment_uid, self._master_uid = path, deployment_uid, master_uid
        self._effective = "effectiveWidth" if renamed else "effective"
        self._written = ""

    def update(self, **changes: Any) -> None:
        """Changes fields, and the file where anything is new."""
        self.now = replace(self.now, **changes)
        text = pretty_json(self.document())
        if text != self._written:
            write_atomically(self._path, text)
            self._written = text

    def document(self) -> dict[str, Any]:
        """As the file says it."""
        now = self.now
        return {
            "deploymentUID": self._deployment_uid,
            "observedGeneration": now.generation,
            "desired": _layer(now.desired),
            "admitted": _layer(now.admitted),
            "allocated": _layer(now.allocated),
            "ray": _layer(now.joined),
            self._effective: _layer(now.effective),
            "state": now.state,
            "reason": now.reason,
            "stableWidth": now.stable_width,
            "masterUID": self._master_uid,
        }


def _layer(value: int | None) -> dict[str, Any]:
    if value is None:
        return {"Known": False, "Value": 0, "Reason": "no proof for the group that serves"}
    return {"Known": True, "Value": value, "Reason": ""}
