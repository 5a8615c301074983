"""Forgeries: results folders changed after the fact, with every digest mended, so that only the check in question can object."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

from ep_worker.contract.canonical import pretty_json, sha256_file, write_atomically
from ep_worker.contract.record import SAMPLES_FILE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ep_campaign.layout import Results


def read(path: Path) -> dict[str, Any]:
    """The object of a JSON file."""
    value: dict[str, Any] = json.loads(path.read_text(encoding="ascii"))
    return value


def edit_start(results: Results, start_id: str, change: Callable[[dict[str, Any]], object], attempt: int = 1) -> None:
    """Changes the record of an attempt and mends the digest in its outcome."""
    path = results.attempt(start_id, attempt) / "start.json"
    value = read(path)
    change(value)
    write_atomically(path, pretty_json(value), mode=0o444)
    reseal(results, start_id, attempt)


def reseal(results: Results, start_id: str, attempt: int = 1) -> None:
    """Mends the digest of an attempt's record in whichever outcome names it."""
    for path in results.start(start_id).glob("outcome-*.json"):
        outcome = read(path)
        for row in outcome["attempts"]:
            if row["attempt"] == attempt:
                row["sha256"] = sha256_file(results.attempt(start_id, attempt) / "start.json")
        write_atomically(path, pretty_json(outcome), mode=0o444)


def replace_file(results: Results, start_id: str, name: str, data: bytes, attempt: int = 1) -> None:
    """Replaces a file beside a record and mends its digest there."""
    path = results.attempt(start_id, attempt) / name
    write_atomically(path, data, mode=0o444)

    def mend(value: dict[str, Any]) -> None:
        value["files"][name] = sha256_file(path)

    edit_start(results, start_id, mend, attempt)


def edit_samples(results: Results, start_id: str, change: Callable[[bytearray], object], attempt: int = 1) -> None:
    """Changes the raw times of an attempt (int64, little-endian) and mends every digest."""
    data = bytearray(gzip.decompress((results.attempt(start_id, attempt) / SAMPLES_FILE).read_bytes()))
    change(data)
    replace_file(results, start_id, SAMPLES_FILE, gzip.compress(bytes(data), mtime=0), attempt)
