"""Which sources of this worker run: their digest, be they files in a folder or in an archive on the module path."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

from ep_worker.contract.canonical import sha256_text, source_digest

_PACKAGE = "ep_worker"


def own_digest() -> str:
    """As `contract.canonical.source_digest` makes it of the package's folder.

    Raises:
        OSError: The sources can be read neither as files nor from an archive.
    """
    root = Path(__file__).parent
    if root.is_dir():
        return source_digest(root)
    with zipfile.ZipFile(root.parent) as archive:
        names = [name for name in archive.namelist() if name.startswith(f"{_PACKAGE}/") and name.endswith(".py")]
        digests = {name.removeprefix(f"{_PACKAGE}/"): hashlib.sha256(archive.read(name)).hexdigest() for name in names}
    return sha256_text("".join(f"{digest}  {path}\n" for path, digest in sorted(digests.items())))
