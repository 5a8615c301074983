"""Canonical JSON and digests: one way to write a thing down, so that equal things have equal bytes."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def canonical_json(value: Any) -> str:
    """The canonical text of a JSON value: sorted keys, no spaces, ASCII, shortest floats; NaN and infinities raise.

    Raises:
        ValueError: A float is not finite; JSON has no word for it and a record must not hide one.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def pretty_json(value: Any) -> str:
    """The text of a JSON value for files that people read: sorted keys, one space of indent, a final newline."""
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=True, allow_nan=False) + "\n"


def sha256_text(text: str) -> str:
    """Lower-case hex SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def sha256_file(path: str | os.PathLike[str]) -> str:
    """Lower-case hex SHA-256 of a file, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def source_digest(root: str | os.PathLike[str], suffixes: tuple[str, ...] = (".py",)) -> str:
    """Digest of a source tree: SHA-256 over the sorted (relative path, file SHA-256) pairs of its source files."""
    base = Path(root)
    paths = sorted(p.relative_to(base).as_posix() for p in base.rglob("*") if p.suffix in suffixes)
    return sha256_text("".join(f"{sha256_file(base / path)}  {path}\n" for path in paths))


def write_atomically(path: str | os.PathLike[str], data: str | bytes, *, mode: int = 0o644) -> None:
    """Writes a file so that a reader, or a crash, sees all of it or none of it.

    Raises:
        OSError: The disk is full or the folder is read-only; nothing is left under the final name.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    payload = data.encode() if isinstance(data, str) else data
    try:
        with temporary.open("wb") as stream:
            stream.write(payload)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
