"""What a results folder was made by, and the refusal to mix: plan digest, worker digest, kernel locks."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ep_campaign.errors import CampaignError, Refusal, refuse
from ep_campaign.plan_document import PlanDocument, read_document
from ep_worker.contract.canonical import pretty_json, sha256_text, source_digest, write_atomically

if TYPE_CHECKING:
    from ep_campaign.layout import Results

WORKER_SCHEMA = "ep-campaign/worker/1"
WORKER_ROOT = Path(__file__).resolve().parents[3] / "ep_worker"
ANALYSIS_ROOT = Path(__file__).resolve().parents[1]


LOCK_FOLDER_VARIABLE = "CAMPAIGN_LOCK_FOLDER"
"""Another folder for node-set locks: for tests that run side by side on purpose."""
_LOCK_FOLDER = "/dev/shm"  # noqa: S108 - that it is the same for all users, whatever their TMPDIR, is the point


def worker_digest(kind: str = "comparison") -> str:
    """Digest of what measures a kind of campaign in this checkout: the worker; for `elastic` the engine and the load too."""
    if kind == "elastic":
        roots = (WORKER_ROOT, WORKER_ROOT.with_name("ep_serve"), WORKER_ROOT.with_name("ep_load"))
        return sha256_text("".join(source_digest(root) for root in roots))
    return source_digest(WORKER_ROOT)


def analysis_digest() -> str:
    """Digest of the host side's sources: downstream stages take it as a parameter, so that an edit reruns them."""
    return source_digest(ANALYSIS_ROOT)


def check_plan(plan: PlanDocument, results: Results) -> None:
    """Refuses a results folder that another plan made.

    Raises:
        CampaignError: `plan_changed`, with the fields that differ.
    """
    if not results.plan.exists():
        return
    made_by = PlanDocument(read_document(results.plan))
    if made_by.digest == plan.digest:
        return
    names = sorted(set(plan.document) | set(made_by.document))
    changed = [name for name in names if plan.document.get(name) != made_by.document.get(name)]
    message = (
        f"was made by plan {made_by.digest[:16]}, the campaign file now gives {plan.digest[:16]} "
        f"(differs in: {', '.join(changed)}); a folder holds one plan: give the campaign a new name, or move this folder away"
    )
    raise refuse("plan_changed", message, str(results.root))


def accepted_workers(results: Results) -> list[dict[str, str]]:
    """Worker digests that a folder accepts, with the reason for each after the first; empty before the first start.

    Raises:
        CampaignError: The file is not what this system wrote.
    """
    if not results.worker.exists():
        return []
    try:
        value: dict[str, Any] = json.loads(results.worker.read_text(encoding="ascii"))
        return [
            {"worker_digest": str(item["worker_digest"]), "reason": str(item["reason"])} for item in value["accepted"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise refuse(
            "bad_worker_file", f"is not readable ({error}); restore it from a copy", str(results.worker)
        ) from None


def check_worker(results: Results, digest: str, new_worker: str) -> None:
    """Refuses to measure with a worker that this folder does not know, unless a reason is given.

    Raises:
        CampaignError: `worker_changed`.
    """
    known = [item["worker_digest"] for item in accepted_workers(results)]
    if not known or digest in known or new_worker:
        return
    message = (
        f"was measured by worker {known[-1][:16]}, this checkout's is {digest[:16]}; starts of two workers are not "
        f"one campaign: check out the old worker, start a new campaign, or pass --config new_worker='<reason>' to record a "
        f"mixed one"
    )
    raise refuse("worker_changed", message, str(results.root))


def accept_worker(results: Results, digest: str, new_worker: str) -> None:
    """Writes the worker's digest into the folder, with the reason where it is not the first."""
    known = accepted_workers(results)
    if digest in [item["worker_digest"] for item in known]:
        return
    known.append({"worker_digest": digest, "reason": new_worker if known else "first"})
    results.root.mkdir(parents=True, exist_ok=True)
    write_atomically(results.worker, pretty_json({"schema": WORKER_SCHEMA, "accepted": known}))


class Locked:
    """A kernel lock on a file, held until this process ends: a SIGKILL releases it, and no `--unlock` is ever needed."""

    def __init__(self, path: Path, stream: IO[str]) -> None:
        self.path = path
        self._stream = stream


def lock(path: Path, what: str, *, wait: bool = False) -> Locked:
    """Takes a lock.

    Raises:
        CampaignError: `locked`, naming the process that holds it; or the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = _open_for_all(path)
    except OSError as error:
        raise refuse("cannot_write", f"the lock of {what} cannot be opened: {error.strerror}", str(path)) from None
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        stream.seek(0)
        holder = stream.read().strip() or "unknown"
        stream.close()
        message = f"{what} is in use by process {holder}; wait for it to end, or stop it"
        raise CampaignError([Refusal("locked", message, str(path))]) from None
    stream.seek(0)
    stream.truncate()
    stream.write(str(os.getpid()))
    stream.flush()
    return Locked(path, stream)


def _open_for_all(path: Path) -> IO[str]:
    """Opens a lock file; one that this makes is every user's to lock."""
    try:
        descriptor = os.open(
            path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        )  # no O_CREAT: sticky folders refuse it to others
    except FileNotFoundError:
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_CREAT, 0o666)
        os.fchmod(descriptor, 0o666)
    return os.fdopen(descriptor, "a+", encoding="ascii")


def node_set_lock_path(node_set: str) -> Path:
    """Where the lock of a node set lies on this machine: one for all its users, whatever their temporary folders are."""
    return Path(os.environ.get(LOCK_FOLDER_VARIABLE) or _LOCK_FOLDER) / f"ep-campaign-{node_set}.lock"
