"""Which build of a backend this process holds: found by looking, with what to do where it is missing or another one."""

from __future__ import annotations

import functools
import inspect
import json
import re
import sys
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.contract.canonical import sha256_file
from ep_worker.contract.provenance import not_applicable
from ep_worker.failure import MissingBackendError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

COMMIT_FILE = "COMMIT"
"""A build may say its source commit in a file of this name beside its package's `__init__.py`."""

_LOCAL_COMMIT = re.compile(r"\+(?:g?)([0-9a-f]{7,40})\b")


def import_build(name: str, advice: str) -> ModuleType:
    """Imports a backend's package.

    Raises:
        MissingBackendError: It is not there, or refuses to be imported; with what was found and how to get it.
    """
    try:
        return import_module(name)
    except Exception as error:
        found = f"{name} cannot be imported here ({type(error).__name__}: {error}), installed: {installed(name)}"
        msg = f"{found}; {advice}"
        raise MissingBackendError(msg) from error


def installed(name: str) -> str:
    """The installed distributions that a package could come from, with their versions."""
    found = []
    for distribution in sorted({name, name.replace("_", "-"), name.partition(".")[0]}):
        try:
            found.append(f"{distribution} {metadata.version(distribution)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found) or "nothing of that name"


def require_parameters(function: Callable[..., Any], what: str, names: Iterable[str]) -> set[str]:
    """The parameters of a function of a backend, which must hold some.

    Raises:
        MissingBackendError: Some are not there: another version renamed or dropped them.
    """
    has = set(inspect.signature(function).parameters)
    missing = sorted(set(names) - has)
    if missing:
        msg = f"{what} of this build has no {', '.join(missing)}, it takes {', '.join(sorted(has))}: use a build that has them"
        raise MissingBackendError(msg)
    return has


def build_provenance(package: str, roots: tuple[str, ...], version: str | None) -> dict[str, Any]:
    """`backend_version`, `backend_commit` and `backend_files` of an imported package.

    Args:
        package: Package whose folder may hold the commit.
        roots: Names that its modules begin with.
        version: What it calls itself; None where it does not.
    """
    files = [Path(path) for path in extension_files(roots)]
    folder = Path(str(sys.modules[package].__file__)).parent
    unknown = "this build says its commit neither in a COMMIT file, nor in its version, nor in its installation record"
    none = not_applicable("no shared object of this package is loaded")
    return {
        "backend_version": version or installed(package),
        "backend_commit": source_commit(folder, package) or not_applicable(unknown),
        "backend_files": [{"path": str(path), "sha256": _digest(path)} for path in files] or none,
    }


def extension_files(roots: tuple[str, ...]) -> list[str]:
    """Shared objects among the imported modules whose names begin with one of some roots."""
    loaded = ((name.partition(".")[0], getattr(module, "__file__", None)) for name, module in list(sys.modules.items()))
    return sorted({str(path) for root, path in loaded if root in roots and path and str(path).endswith(".so")})


def source_commit(folder: Path, package: str) -> str | None:
    """The commit that a build says it was made from, or None."""
    path = folder / COMMIT_FILE
    if path.is_file():
        return path.read_text().strip()
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return None
    record = json.loads(distribution.read_text("direct_url.json") or "{}")
    from_url = record.get("vcs_info", {}).get("commit_id")
    from_version = _LOCAL_COMMIT.search(distribution.version)
    return from_url or (from_version[1] if from_version else None)


@functools.cache
def _digest(path: Path) -> str:
    return sha256_file(path)
