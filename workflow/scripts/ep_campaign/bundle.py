"""Starts that run on another machine: packed into a folder for it, and taken back as if they had run here.

Packing writes the specs of what is still to be measured, in the plan's order, with the worker's sources. The other machine
needs Python and torch. Taking back goes through `admit` and `measure`, with a place that hands out what has returned, so
that records, journal and checks are those of any start.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_campaign.admission import admit, brief
from ep_campaign.attempt import interrupted
from ep_campaign.errors import CampaignError, Refusal, refuse
from ep_campaign.identity import WORKER_ROOT, accept_worker, check_worker, worker_digest
from ep_campaign.measure import measure
from ep_campaign.place import Fitness
from ep_worker.contract.bundle import MANIFEST, RETURNED, RETURNED_SCHEMA, Entry, Manifest, read_manifest
from ep_worker.contract.canonical import pretty_json, sha256_file, sha256_text, source_digest, write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan, Start
    from ep_worker.contract.spec import StartSpec


def pack(plan: Plan, results: Results, bundle: Path, limit: int | None = None) -> Manifest:
    """Writes a bundle of what is still to be measured, the admission of its EP sizes first.

    Args:
        plan: The plan.
        results: Its results folder.
        bundle: Folder to write; must not exist.
        limit: Most scored starts, from the first; None for all.

    Raises:
        CampaignError: The folder exists, nothing is left to measure, or this checkout's worker is not the folder's.
    """
    check_worker(results, worker_digest(), "")
    pending = [start for start in plan.starts if not results.outcome(start.id, results.target(start.id)).exists()]
    pending = pending[:limit]
    if bundle.exists():
        raise refuse("bundle_exists", "already exists: name a new folder, or take this one back first", str(bundle))
    if not pending:
        raise refuse("nothing_pending", f"every start of {plan.name} has its outcome: there is nothing to pack")
    shutil.copytree(WORKER_ROOT, bundle / "ep_worker", ignore=shutil.ignore_patterns("__pycache__"))
    specs = [(start, 1, spec) for start, spec in _admissions(plan, results, pending)]
    specs += [(start, results.target(start.id), plan.spec(start)) for start in pending]
    entries = tuple(_write_entry(results, bundle, number, *item) for number, item in enumerate(specs, 1))
    manifest = Manifest(plan.name, plan.digest, worker_digest(), entries)
    write_atomically(bundle / MANIFEST, pretty_json(manifest.as_json()))
    return manifest


def _admissions(plan: Plan, results: Results, pending: list[Start]) -> list[tuple[Start, StartSpec]]:
    """The admission run of each arm of the EP sizes that have none yet."""
    sizes = sorted({start.ep_size for start in pending if not results.admission(start.ep_size).exists()})
    found = []
    for size in sizes:
        for arm in plan.document["arms"]:
            first = next((start for start in plan.starts if (start.ep_size, start.arm) == (size, arm)), None)
            if first is not None:
                found.append((first, brief(plan.spec(first, kind="admission"))))
    return found


def _write_entry(results: Results, bundle: Path, number: int, start: Start, attempt: int, spec: StartSpec) -> Entry:
    folder = f"entries/{number:04d}"
    text = pretty_json(spec.as_json())
    (bundle / folder).mkdir(parents=True)
    write_atomically(bundle / folder / "spec.json", text)
    for route in spec.routes:
        if route.trace:
            (bundle / folder / route.trace).parent.mkdir(exist_ok=True)
            shutil.copyfile(results.root / route.trace, bundle / folder / route.trace)
    bound_s = spec.watchdog_s + spec.rendezvous_timeout_s
    return Entry(folder, spec.kind, start.id, attempt, sha256_text(text), bound_s)


@dataclass(frozen=True)
class Elsewhere:
    """The place of launches that have returned: it runs nothing, and gives their files.

    Attributes:
        bundle: Folder of the bundle.
        returned: What came back of each spec, by the SHA-256 of its text: the entry's folder and its `returned.json`.
    """

    bundle: Path
    returned: dict[str, tuple[Path, dict[str, Any]]]

    def fitness(self, plan: Plan, folder: Path, ep_size: int) -> Fitness:
        """As `Place.fitness`: the machines that things returned from."""
        machines = {pretty_json(account["machine"]): account["machine"] for _, account in self.returned.values()}
        text = f"starts ran elsewhere, on {len(machines)} machines: hosts {sorted(m['hostname'] for m in machines.values())}"
        return Fitness(
            {"machines": [machines[key] for key in sorted(machines)]}, [], [{"code": "ran_elsewhere", "text": text}]
        )

    def launch(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any]:
        """As `Place.launch`: copies what returned, with the clock of the machine where it ran."""
        source, account = self.returned[sha256_text(pretty_json(spec.as_json()))]
        shutil.copytree(source / "attempt", folder, dirs_exist_ok=True)
        path = folder / "launcher.json"
        launcher = (
            dict(json.loads(path.read_text(encoding="ascii"))) if path.exists() else interrupted(account["ended"])
        )
        return {**launcher, "machine": account["machine"], "clock": account["clock"]}

    def resume(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any] | None:
        """As `Place.resume`: taken back again, for a copy may have broken off."""
        return self.launch(folder, spec, attempt, image)


@dataclass(frozen=True)
class Taken:
    """What taking back did: ids of starts taken, of those that were here already, and of those that have not returned."""

    taken: list[str]
    already: list[str]
    missing: list[str]


def unpack(plan: Plan, results: Results, bundle: Path) -> Taken:
    """Takes back what has returned; everything is checked before anything is written.

    Raises:
        CampaignError: The bundle is of another plan or worker, its files are not those that its runner left, or an EP
            size has neither an admission record nor all of its admission runs.
    """
    try:
        manifest = read_manifest(bundle)
    except ValueError as error:
        raise refuse("bad_bundle", str(error), str(bundle)) from None
    place, found = _verified(plan, bundle, manifest)
    if found:
        raise CampaignError(found)
    check_worker(results, manifest.worker_digest, "")
    accept_worker(results, manifest.worker_digest, "")
    _admit_sizes(plan, results, manifest, place)
    done = Taken([], [], [])
    for entry in manifest.entries:
        if entry.kind != "scored":
            continue
        if entry.spec_sha256 not in place.returned:
            done.missing.append(entry.start)
        elif results.outcome(entry.start, entry.attempt).exists():
            done.already.append(entry.start)
        else:
            measure(plan, results, plan.by_id[entry.start], entry.attempt, place, retries=0)
            done.taken.append(entry.start)
    return done


def _verified(plan: Plan, bundle: Path, manifest: Manifest) -> tuple[Elsewhere, list[Refusal]]:
    """The returned launches, and everything about the bundle that is not as it was packed and run."""
    found = []
    if manifest.plan_digest != plan.digest:
        message = (
            f"was packed from plan {manifest.plan_digest[:16]}, this folder's is {plan.digest[:16]}: unpack it there"
        )
        found.append(Refusal("other_plan", message, str(bundle)))
    if source_digest(bundle / "ep_worker") != manifest.worker_digest:
        found.append(
            Refusal("worker_altered", "its worker was altered after it was packed: pack and run again", str(bundle))
        )
    returned = {}
    for entry in manifest.entries:
        folder = bundle / entry.folder
        if not (folder / RETURNED).exists():
            continue
        try:
            account = dict(json.loads((folder / RETURNED).read_text(encoding="ascii")))
            problem = _entry_problem(plan, entry, folder, account)
        except (OSError, ValueError, KeyError, TypeError) as error:
            account, problem = {}, f"is not readable ({type(error).__name__}: {error})"
        if problem:
            found.append(Refusal("bad_return", f"{problem}: run this entry again", str(folder)))
        returned[entry.spec_sha256] = (folder, account)
    return Elsewhere(bundle, returned), found


def _entry_problem(plan: Plan, entry: Entry, folder: Path, account: dict[str, Any]) -> str:
    """What is wrong with one returned launch; empty where nothing is."""
    if account["schema"] != RETURNED_SCHEMA:
        return f"schema is {account['schema']!r}, this version reads {RETURNED_SCHEMA!r}"
    start = plan.by_id.get(entry.start)
    if start is None:
        return f"start {entry.start} is not in the plan"
    spec = plan.spec(start) if entry.kind == "scored" else brief(plan.spec(start, kind="admission"))
    if not sha256_text(pretty_json(spec.as_json())) == entry.spec_sha256 == account["files"].get("spec.json"):
        return "its spec is not the one that the plan gives"
    attempt = folder / "attempt"
    there = {path.relative_to(attempt).as_posix(): sha256_file(path) for path in attempt.rglob("*") if path.is_file()}
    wrong = sorted(name for name in {*there, *account["files"]} if there.get(name) != account["files"].get(name))
    return f"{', '.join(wrong[:5])} differ from what its runner left, or are missing" if wrong else ""


def _admit_sizes(plan: Plan, results: Results, manifest: Manifest, place: Elsewhere) -> None:
    """Writes the admission record of each EP size that has none.

    Raises:
        CampaignError: Not all of its admission runs have returned.
    """
    runs = [entry for entry in manifest.entries if entry.kind == "admission"]
    sizes = sorted({plan.by_id[entry.start].ep_size for entry in manifest.entries})
    for size in [size for size in sizes if not results.admission(size).exists()]:
        missing = [
            entry.start
            for entry in runs
            if plan.by_id[entry.start].ep_size == size and entry.spec_sha256 not in place.returned
        ]
        if missing or not runs:
            message = (
                f"EP {size} has no admission record, and its admission runs have not all returned: run the bundle on"
            )
            raise refuse("not_admitted", message, str(place.bundle))
        admit(plan, results, size, place)
