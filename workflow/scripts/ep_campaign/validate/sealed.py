"""What a seal promises: real files only, and raw files that are those which an earlier `SHA256SUMS` covered."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from ep_campaign.errors import CampaignError
from ep_campaign.identity import WORKER_SCHEMA, accepted_workers
from ep_campaign.validate.finding import refusal
from ep_worker.contract.canonical import pretty_json, sha256_file, sha256_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.layout import Results
    from ep_campaign.validate.finding import Violation

_LINE = re.compile(rb"(\\?)([0-9a-f]{64})  (.+)")
_ESCAPED = re.compile(rb"\\([\\nr])")
_PLAIN = {b"\\": b"\\", b"n": b"\n", b"r": b"\r"}
_RAW_FOLDERS = ("starts", "admission", "kernel-times", "traces")


def check_kinds(results: Results) -> Iterator[Violation]:
    """Nothing in the folder is a link, a pipe or a device: checksums do not cover what lies behind one."""
    for folder, names, files in os.walk(results.root):
        for path in sorted(Path(folder) / name for name in [*names, *files]):
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                kind = "a link" if stat.S_ISLNK(mode) else "a pipe, socket or device"
                action = "put a copy of the file or folder in its place"
                yield refusal("not_a_file", _name(results, path), "", kind, "a file or a folder", action)


def check_sealed(results: Results) -> Iterator[Violation]:
    """Raw files that the last seal covered still have its digests; new attempts may stand beside them."""
    for name, digest in sealed_raw(results).items():
        path = results.root / name
        if not path.is_file():
            if "/attempt-" in name and name.startswith(
                ("admission/", "kernel-times/")
            ):  # nothing else names these files
                yield refusal("missing_file", name, "", "no such file", f"the file of SHA-256 {digest[:16]}")
            continue
        if (found := sha256_file(path)) == digest:
            continue
        if path != results.worker or digest not in _earlier_worker_digests(results):
            yield refusal("altered_file", name, "", f"SHA-256 {found}", f"{digest}, as SHA256SUMS says")


def sealed_raw(results: Results) -> dict[str, str]:
    """Digests of raw files by name, as `SHA256SUMS` says; empty where there is none.

    An attempt without a record was not finished when it was sealed, so what lies in it may still be settled.
    """
    sealed = {os.fsdecode(name): digest for name, digest in checksum_lines(results).items()}
    return {name: digest for name, digest in sealed.items() if _is_raw(results, name, sealed)}


def checksum_lines(results: Results) -> dict[bytes, str]:
    """Digests by file name, as `SHA256SUMS` says; empty where there is none."""
    if not results.checksums.is_file():
        return {}
    matches = (_LINE.fullmatch(line) for line in results.checksums.read_bytes().split(b"\n"))
    return {_unescaped(match): match[2].decode() for match in matches if match}


def _unescaped(match: re.Match[bytes]) -> bytes:
    name = match[3]
    return _ESCAPED.sub(lambda found: _PLAIN[found[1]], name) if match[1] else name


def _is_raw(results: Results, name: str, sealed: dict[str, str]) -> bool:
    if name in (results.plan.name, results.worker.name):
        return True
    attempt, slash, _ = name.partition("/attempt-")
    if slash:
        number = name[len(attempt) + 1 :].partition("/")[0]
        return f"{attempt}/{number}/start.json" in sealed
    return name.partition("/")[0] in _RAW_FOLDERS


def _earlier_worker_digests(results: Results) -> set[str]:
    """Digests of `worker.json` before each of its workers but the first was accepted."""
    try:
        known = accepted_workers(results)
    except CampaignError:
        return set()  # check_workers says so
    earlier = [pretty_json({"schema": WORKER_SCHEMA, "accepted": known[:count]}) for count in range(1, len(known))]
    return {sha256_text(text) for text in earlier}


def _name(results: Results, path: Path) -> str:
    return path.relative_to(results.root).as_posix()
