"""A bundle: starts packed up for a machine that has torch and nothing else, and what comes back of them.

MANIFEST.json                    what is to be run, in this order
ep_worker/                       the worker that runs it
entries/<NNNN>/spec.json         one start, with its traces
entries/<NNNN>/attempt/          what its launch left
entries/<NNNN>/returned.json     written last: where it ran, when, how its launcher ended, SHA-256 of every file
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

BUNDLE_SCHEMA = "ep-campaign/bundle/1"
RETURNED_SCHEMA = "ep-campaign/returned/1"
MANIFEST = "MANIFEST.json"
RETURNED = "returned.json"


@dataclass(frozen=True)
class Entry:
    """One launch of a bundle.

    Attributes:
        folder: Where it lies, relative to the bundle.
        kind: `scored` or `admission`.
        start: Id of the start in the plan.
        attempt: Number that the attempt will have.
        spec_sha256: SHA-256 of its spec.json.
        bound_s: When its launcher must have ended, by its own limits [s].
    """

    folder: str
    kind: str
    start: str
    attempt: int
    spec_sha256: str
    bound_s: float

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return asdict(self)


@dataclass(frozen=True)
class Manifest:
    """What a bundle holds, and what it was made by."""

    campaign: str
    plan_digest: str
    worker_digest: str
    entries: tuple[Entry, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return {**vars(self), "schema": BUNDLE_SCHEMA, "entries": [entry.as_json() for entry in self.entries]}


def read_manifest(bundle: Path) -> Manifest:
    """The manifest of a bundle.

    Raises:
        ValueError: There is none, or it is not one of this version.
    """
    path = bundle / MANIFEST
    try:
        value = json.loads(path.read_text(encoding="ascii"))
        schema = value["schema"]
        names = [field.name for field in fields(Manifest) if field.name != "entries"]
        entries = tuple(Entry(**entry) for entry in value["entries"])
        manifest = Manifest(**{name: str(value[name]) for name in names}, entries=entries)
    except (OSError, ValueError, KeyError, TypeError) as error:
        msg = f"{path} is not the manifest of a bundle ({type(error).__name__}: {error})"
        raise ValueError(msg) from error
    if schema != BUNDLE_SCHEMA:
        msg = f"{path} has schema {schema!r}, this version reads {BUNDLE_SCHEMA!r}: use the version that packed it"
        raise ValueError(msg)
    return manifest
