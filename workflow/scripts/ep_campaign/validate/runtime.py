"""Were all arms measured in the same place, by the same worker, with what they asked for and nothing else?

Only attempts that count and hold an ok record are compared: an attempt that died early has nothing to compare.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_campaign.campaign import IMAGE_BY_DIGEST
from ep_campaign.validate.finding import Violation, note, refusal
from ep_campaign.validate.matrix import record_name
from ep_worker.contract.canonical import canonical_json, sha256_text
from ep_worker.contract.provenance import ENVIRONMENT_PREFIXES, FIELDS, is_not_applicable, provenance_problems
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.plan import Plan
    from ep_campaign.validate.attempt import Attempt

ABSENT = "(not set)"
_GIB = 1 << 30
_BUILD = (
    "backend_version",
    "backend_commit",
    "backend_files",
    "collective_version_loaded",
    "collective_version_compiled",
    "collective_library_files",
)
"""What makes a build of an arm: equal in all its starts."""
_NVSHMEM = frozenset(
    f"NVSHMEM_{name}"
    for name in (
        *("CUMEM_GRANULARITY", "DISABLE_MNNVL", "DISABLE_NVLS", "DISABLE_P2P", "IBGDA_NUM_RC_PER_PE"),
        *("IB_ENABLE_IBGDA", "MAX_TEAMS", "QP_DEPTH"),
    )
)
_JIT = frozenset({"EP_JIT_CACHE_DIR"})
SET_BY_ARM = {"deepep-v1": _NVSHMEM, "deepep-v2": _JIT, "deepep-v2-nosync": _JIT}
"""Variables that a backend's own code sets in its ranks, as DeepEP's `Buffer` does for NVSHMEM, or ours for each build's kernels:
other arms have none of them, and the campaign cannot declare them."""
_SAME_PLACE = "arms can only be compared in one place: measure the differing starts again where the others ran"


def has_ok(attempt: Attempt) -> bool:
    """Whether any record of an attempt is ok."""
    return any(record.status is Status.OK for record in attempt.record.records)


def values(provenance: dict[str, dict[str, Any]], name: str) -> tuple[str, ...]:
    """The distinct values of a field over ranks, as canonical JSON, sorted; empty where no rank has it."""
    entry = provenance.get(name, {})
    by_rank = entry["by_rank"] if "by_rank" in entry else [entry.get("value")]
    if name == "memory_total_bytes":  # firmware reserves a little differently on equal machines
        by_rank = [round(value / _GIB) if isinstance(value, int) else value for value in by_rank]
    return tuple(sorted({canonical_json(value) for value in by_rank if value is not None}))


def variables(provenance: dict[str, dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """For each recorded environment variable its distinct values over ranks, sorted."""
    entry = provenance.get("environment", {})
    by_rank = entry["by_rank"] if "by_rank" in entry else [entry.get("value")]
    shown = [value for value in by_rank if isinstance(value, dict)]
    names = sorted({name for value in shown for name in value})
    return {name: tuple(sorted({str(value.get(name, ABSENT)) for value in shown})) for name in names}


def check_provenance(attempt: Attempt) -> Iterator[Violation]:
    """Every provenance field was observed, or may be absent on this platform and says why."""
    floors = values(attempt.record.provenance or {}, "timer_floor_ns")
    if not all(re.fullmatch(r"\d+(\.\d+)?(e[+-]?\d+)?", floor) for floor in floors):
        expected = "nanoseconds, not below 0, on every rank"
        yield refusal(
            "provenance_incomplete", attempt.file, "provenance.timer_floor_ns", " and ".join(floors), expected
        )
    for problem in provenance_problems(attempt.record.provenance or {}, attempt.spec.device):
        matched = re.search(r"field '(\w+)'", problem)
        field = f"provenance.{matched[1]}" if matched else "provenance"
        action = "a blank cannot be compared: mend the worker's observation and measure again"
        yield refusal("provenance_incomplete", attempt.file, field, problem, "an observed value", action)


def check_worker(attempt: Attempt, accepted: set[str]) -> Iterator[Violation]:
    """All ranks ran one worker, and it is one that the folder accepts."""
    digests = attempt.record.worker_digests
    if len(digests) != 1:
        yield refusal("worker_differs", attempt.file, "worker_digests", f"{len(digests)} digests", "one, of all ranks")
    for digest in sorted(set(digests) - accepted):
        action = "starts of two workers are not one campaign: measure them again, or record a mixed campaign"
        expected = f"one of {', '.join(sorted(item[:16] for item in accepted)) or 'none'}, as worker.json says"
        yield refusal("worker_not_accepted", attempt.file, "worker_digests", digest[:16], expected, action)


def check_image(attempt: Attempt) -> Iterator[Violation]:
    """The image is the plan's, and named by digest."""
    image, planned = attempt.record.image, attempt.plan.document["arms"][attempt.start.arm]["image"]
    if image != planned:
        yield refusal("image_differs", attempt.file, "image", str(image), str(planned))
    if image is not None and not IMAGE_BY_DIGEST.match(image):
        yield refusal("image_not_by_digest", attempt.file, "image", image, "repository@sha256:<64 hex digits>")


def check_asked(attempt: Attempt) -> Iterator[Violation]:
    """What an arm asks of its environment was observed; what it asks of its backend was resolved alike."""
    seen = variables(attempt.record.provenance or {})
    for name, value in sorted(attempt.spec.arm.environment.items()):
        field = f"provenance.environment.{name}"
        if name in seen and seen[name] != (value,):
            yield refusal(
                "environment_not_applied", attempt.file, field, " and ".join(seen[name]), f"{value} on all ranks"
            )
        elif name not in seen and name.startswith(ENVIRONMENT_PREFIXES):
            yield refusal("environment_not_applied", attempt.file, field, ABSENT, f"{value} on all ranks")
        elif name not in seen:
            action = "that it took effect is not proved; its name has none of the recorded prefixes"
            yield note("environment_not_recorded", attempt.file, field, "no observation", value, action)
    for name, value in sorted(attempt.spec.arm.knobs.items()):
        for record in attempt.record.records:
            resolved = (record.resolved or {}).get(name, value)
            if resolved != value:
                field = f"{record_name(record)}.resolved.{name}"
                action = "the arm did not run as asked; its name in the report says what it asked for"
                yield note("knob_not_applied", attempt.file, field, str(resolved), str(value), action)
                break


@dataclass(frozen=True)
class _Seen:
    """One arm's start that has a value."""

    file: str
    arm: str
    value: tuple[str, ...]


class Runtime:
    """What was first seen of everything that must not differ, and where."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._signature: dict[tuple[int, str], _Seen] = {}
        self._reported: set[tuple[object, ...]] = set()
        self._environments: dict[tuple[int, str], tuple[str, dict[str, tuple[str, ...]]]] = {}
        self._image_ids: dict[str, _Seen] = {}
        self._builds: dict[tuple[str, str], _Seen] = {}
        self._hosts: dict[tuple[int, int], _Seen] = {}
        self._resolved: dict[tuple[int, str, tuple[str, ...]], tuple[str, str]] = {}

    def check(self, attempt: Attempt) -> Iterator[Violation]:
        """An attempt's runtime, environment, image and resolved knobs are those first seen of their kind."""
        provenance = attempt.record.provenance or {}
        yield from self._check_signature(attempt, provenance)
        yield from self._check_build(attempt, provenance)
        yield from self._check_hosts(attempt, values(provenance, "hostname"))
        yield from self._check_environment(attempt, variables(provenance))
        yield from self._check_image_id(attempt, values(provenance, "image_id"))
        yield from self._check_resolved(attempt)

    def _once(self, *key: object) -> bool:
        """Whether this kind of difference is new: a whole arm that differs is one violation, not one a start."""
        fresh = key not in self._reported
        self._reported.add(key)
        return fresh

    def _check_signature(self, attempt: Attempt, provenance: dict[str, dict[str, Any]]) -> Iterator[Violation]:
        ep_size = attempt.start.ep_size
        for field in FIELDS:
            value = values(provenance, field.name)
            if not field.runtime or not value:
                continue  # a missing field is check_provenance's to report
            place = f"provenance.{field.name}"
            if len(value) > 1 and self._once("ranks", ep_size, field.name, value):
                shown = " and ".join(value)
                yield refusal("runtime_differs", attempt.file, place, shown, "one value on all ranks", _SAME_PLACE)
            first = self._signature.setdefault((ep_size, field.name), _Seen(attempt.file, attempt.start.arm, value))
            if first.value != value and self._once("runtime", ep_size, field.name, attempt.start.arm, value):
                expected = f"{' and '.join(first.value)}, as {first.file} says"
                yield refusal("runtime_differs", attempt.file, place, " and ".join(value), expected, _SAME_PLACE)

    def _check_build(self, attempt: Attempt, provenance: dict[str, dict[str, Any]]) -> Iterator[Violation]:
        """An arm is one build in all its starts: two builds are two arms; and exactly one collective library is mapped."""
        arm = attempt.start.arm
        for name in _BUILD:
            value = values(provenance, name)
            if not value or is_not_applicable(provenance.get(name, {}).get("value")):
                continue
            first = self._builds.setdefault((arm, name), _Seen(attempt.file, arm, value))
            if first.value != value and self._once("build", arm, name, value):
                expected = f"{' and '.join(first.value)}, as {first.file} says"
                action = "two builds are two arms: declare them apart, or measure the differing starts again"
                yield refusal(
                    "build_differs", attempt.file, f"provenance.{name}", " and ".join(value), expected, action
                )
        entry = provenance.get("collective_library_files", {})
        by_rank = entry["by_rank"] if "by_rank" in entry else [entry.get("value")]
        for files in by_rank:
            if isinstance(files, list) and len(files) != 1 and self._once("collective", arm, len(files)):
                found = ", ".join(str(item.get("path")) for item in files) or "none"
                action = "find out which one answers: set one on the library path, or build the backend against torch's"
                field = "provenance.collective_library_files"
                yield refusal("several_collective_libraries", attempt.file, field, found, "exactly one", action)

    def _check_hosts(self, attempt: Attempt, hosts: tuple[str, ...]) -> Iterator[Violation]:
        """All arms of a round run on the same machines."""
        block = (attempt.start.ep_size, attempt.start.round)
        first = self._hosts.setdefault(block, _Seen(attempt.file, attempt.start.arm, hosts))
        if first.value != hosts and hosts and self._once("hosts", block, hosts):
            expected = f"{' and '.join(first.value)}, as {first.file} says"
            found = " and ".join(hosts)
            yield refusal("hosts_differ", attempt.file, "provenance.hostname", found, expected, _SAME_PLACE)

    def _check_environment(self, attempt: Attempt, seen: dict[str, tuple[str, ...]]) -> Iterator[Violation]:
        """Each arm's variables agree over its starts; `compare_arms` holds the arms against each other."""
        key = (attempt.start.ep_size, attempt.start.arm)
        file, first = self._environments.setdefault(key, (attempt.file, seen))
        for name in sorted(set(first) | set(seen)):
            mine, theirs = seen.get(name, (ABSENT,)), first.get(name, (ABSENT,))
            if mine != theirs and self._once("environment", key, name, mine):
                field, expected = f"provenance.environment.{name}", f"{' and '.join(theirs)}, as {file} says"
                yield refusal("environment_differs", attempt.file, field, " and ".join(mine), expected, _SAME_PLACE)

    def compare_arms(self) -> Iterator[Violation]:
        """Variables differ between arms only where the plan says so, with a reason."""
        for ep_size in sorted({size for size, _ in self._environments}):
            arms = {arm: entry for (size, arm), entry in self._environments.items() if size == ep_size}
            for name in sorted({name for _, seen in arms.values() for name in seen}):
                bound = [arm for arm in arms if not self._declared(arm, name)]
                for arm in bound[1:]:
                    (file, mine), (other, theirs) = arms[arm], arms[bound[0]]
                    if mine.get(name, (ABSENT,)) != theirs.get(name, (ABSENT,)):
                        found = " and ".join(mine.get(name, (ABSENT,)))
                        expected = f"{' and '.join(theirs.get(name, (ABSENT,)))}, as {other} says"
                        action = "set it alike, or declare it in the arm's environment with a reason"
                        field = f"provenance.environment.{name}"
                        yield refusal("environment_differs", file, field, found, expected, action)

    def _declared(self, arm: str, name: str) -> bool:
        entry = self._plan.document["arms"][arm]
        if name not in entry["environment"] and name in SET_BY_ARM.get(entry["backend"], ()):
            return True
        return name in entry["environment"] and name in entry["environment_reasons"]

    def _check_image_id(self, attempt: Attempt, value: tuple[str, ...]) -> Iterator[Violation]:
        arm = attempt.start.arm
        if not value or is_not_applicable((attempt.record.provenance or {}).get("image_id", {}).get("value")):
            return
        first = self._image_ids.setdefault(arm, _Seen(attempt.file, arm, value))
        if (first.value != value or len(value) > 1) and self._once("image_id", arm, value):
            expected = f"{' and '.join(first.value[:1])}, as {first.file} says"
            found = " and ".join(value)
            yield refusal("image_id_differs", attempt.file, "provenance.image_id", found, expected, _SAME_PLACE)

    def _check_resolved(self, attempt: Attempt) -> Iterator[Violation]:
        """A knob resolves alike in all starts of an arm: automatic choices can fall differently."""
        for record in attempt.record.records:
            if record.resolved is None:
                continue
            text = canonical_json(record.resolved)
            key = (attempt.start.ep_size, attempt.start.arm, record.key)
            digest, file = self._resolved.setdefault(key, (sha256_text(text), attempt.file))
            if digest != sha256_text(text) and self._once("resolved", key, text):
                action = "pin the knob in the arm's knobs, and measure the differing starts again"
                field = f"{record_name(record)}.resolved"
                yield refusal("resolved_differs", attempt.file, field, text, f"the values of {file}", action)
