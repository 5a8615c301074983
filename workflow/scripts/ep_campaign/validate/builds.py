"""Is each arm the build that its campaign says, and are two builds two: commit, place, shared objects, JIT caches?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_campaign.regression_checks import REGRESSION
from ep_campaign.validate.finding import Violation, refusal
from ep_worker.contract.provenance import is_not_applicable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.plan import Plan
    from ep_campaign.validate.attempt import Attempt

_INSTALL = "install the declared build there, or declare the one that is there; then measure again"


def observed(provenance: dict[str, Any], name: str) -> list[Any]:
    """The values of a field over ranks that are observations."""
    entry = provenance.get(name, {})
    by_rank = entry["by_rank"] if "by_rank" in entry else [entry.get("value")]
    return [value for value in by_rank if value is not None and not is_not_applicable(value)]


def texts(provenance: dict[str, Any], name: str, key: str) -> list[str]:
    """The distinct texts under a key of a field's entries, sorted; what has another form is `check_provenance`'s to report."""
    entries = [item for value in observed(provenance, name) for item in (value if isinstance(value, list) else [value])]
    return sorted({str(item[key]) for item in entries if isinstance(item, dict) and key in item})


def check_build(attempt: Attempt) -> Iterator[Violation]:
    """A declared commit was observed, and a declared folder is where the backend's shared objects were loaded from."""
    declared = attempt.plan.document["arms"][attempt.start.arm]
    provenance = attempt.record.provenance or {}
    if commit := declared.get("commit"):
        found = sorted({str(value) for value in observed(provenance, "backend_commit")})
        if not found or not all(_same_commit(commit, value) for value in found):
            shown = " and ".join(found) or "no commit"
            field = "provenance.backend_commit"
            yield refusal("wrong_build", attempt.file, field, shown, f"{commit}, as the arm declares", _INSTALL)
    if folders := tuple(f"{folder.rstrip('/')}/" for folder in declared.get("build", ())):
        paths = texts(provenance, "backend_files", "path")
        if not paths or not all(path.startswith(folders) for path in paths):
            shown, expected = (
                ", ".join(paths) or "no shared object",
                f"files of {', '.join(folders)}, as the arm declares",
            )
            yield refusal("wrong_build", attempt.file, "provenance.backend_files", shown, expected, _INSTALL)


def _same_commit(declared: str, found: str) -> bool:
    """Whether two commits, either of them perhaps shortened, are one."""
    return bool(found) and (found.startswith(declared) or declared.startswith(found))


class Builds:
    """What tells the builds of a campaign apart, arm by arm."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._digests: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._caches: dict[str, tuple[str, tuple[str, ...]]] = {}

    def see(self, attempt: Attempt) -> None:
        """Remembers an attempt's shared objects and its JIT cache; an arm's starts agree, or are reported elsewhere."""
        provenance = attempt.record.provenance or {}
        digests = texts(provenance, "backend_files", "sha256")
        caches = texts(provenance, "jit_cache", "directory")
        if digests:
            self._digests.setdefault(attempt.start.arm, (attempt.file, tuple(digests)))
        if caches:
            self._caches.setdefault(attempt.start.arm, (attempt.file, tuple(caches)))

    def compare(self) -> Iterator[Violation]:
        """Arms declared as different builds differ in their shared objects; different shared objects share no JIT cache."""
        arms = [arm for arm in self._plan.arms if arm in self._digests]
        for place, first in enumerate(arms):
            for second in arms[place + 1 :]:
                yield from self._compare(first, second)

    def _compare(self, first: str, second: str) -> Iterator[Violation]:
        (other, theirs), (file, mine) = self._digests[first], self._digests[second]
        if theirs == mine and self._declared(first) != self._declared(second):
            expected = (
                f"other shared objects than those of {first} in {other}: the two are declared as different builds"
            )
            yield refusal("same_build", file, "provenance.backend_files", mine[0][:16], expected, _INSTALL)
        shared = set(self._caches.get(first, ("", ()))[1]) & set(self._caches.get(second, ("", ()))[1])
        if theirs != mine and shared and self._backend(first) == self._backend(second):
            action = (
                "a cached kernel of one build may have run in the other: leave EP_JIT_CACHE_DIR unset, or set it apart"
            )
            expected = f"a directory of its own; {first} compiled there as well, as {other} says"
            yield refusal("jit_cache_shared", file, "provenance.jit_cache", min(shared), expected, action)

    def _declared(self, arm: str) -> tuple[Any, ...]:
        entry = self._plan.document["arms"][arm]
        # Elsewhere two images may well hold one build; here they were declared to be two.
        image = entry["image"] if self._plan.kind == REGRESSION else None
        return image, entry.get("build"), entry.get("commit")

    def _backend(self, arm: str) -> str:
        return str(self._plan.document["arms"][arm]["backend"])
