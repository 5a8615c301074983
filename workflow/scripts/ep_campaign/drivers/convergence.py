"""When a resize has happened: every rule that the target can show, twice in a row; nothing less, and no timer.

`Ready`, `is_scaling == false`, a registered Ray worker and the reason of an observation prove nothing: each is also true
while the new ranks are still being prepared, or says so late. A field that cannot be read is unknown, never `not yet`; one
that the target never had ends the wait at once, because no wait would bring it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from ep_campaign.drivers.driver import Evidence, Resize, ResizeState, Snapshot
from ep_campaign.errors import CampaignError, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from ep_campaign.drivers.observation import Observation
    from ep_campaign.drivers.probe import Probe

NUM_CONFIRMATIONS = 2
REFUSED_STATES = ("Refused", "Abandoned")
"""States of an observation that end a resize: of the bundled engine, and of the GPUStack operator."""
_ELASTIC_CONDITION = "ElasticResize"


class Rule(StrEnum):
    """One thing that must hold."""

    SAME_DEPLOYMENT = "same_deployment"
    GENERATION = "generation"
    LAYERS = "layers"
    STABLE_WIDTH = "stable_width"
    RANK_BOUND = "rank_bound"
    RANK_FORWARDS = "rank_forwards"
    NOT_SCALING = "not_scaling"
    RETAINED = "retained"
    MEMBER_COUNT = "member_count"
    NO_RESTARTS = "no_restarts"


class Verdict(StrEnum):
    """What a resize has come to.

    CONVERGED, and the ends without it: REFUSED or FAILED by the target's answer, UNPROVABLE by its own account, DRIFTED
    where it does not speak the language that this system reads, LOST where it is not the deployment, or not the members,
    of before, and TIMED_OUT, which is the patience of whoever waits and says nothing of the target.
    """

    PENDING = "pending"
    CONVERGED = "converged"
    REFUSED = "refused"
    FAILED = "failed"
    UNPROVABLE = "unprovable"
    DRIFTED = "drifted"
    LOST = "lost"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True)
class Look:
    """One poll: what the control plane shows, and what the endpoint says, one after the other."""

    snapshot: Snapshot
    probe: Probe


@dataclass
class Convergence:
    """Follows one resize.

    Attributes:
        first_held_ns: When each rule first held, on our monotonic clock.
        first_seen_ns: When each state, phase and condition was first seen, by its words.
        verdict: What it has come to.
        reason: Words to the verdict.
    """

    evidence: frozenset[Evidence]
    before: Snapshot
    old_width: int
    new_width: int
    first_held_ns: dict[Rule, int] = field(default_factory=dict)
    first_seen_ns: dict[str, int] = field(default_factory=dict)
    verdict: Verdict = Verdict.PENDING
    reason: str = ""
    _in_a_row: int = 0

    def note(self, look: Look, resize: Resize) -> Verdict:
        """Takes one look into account."""
        at_ns = look.probe.ended_ns
        self._note_words(look.snapshot)
        held = self.rules(look, resize)
        for rule, holds in held.items():
            if holds:
                self.first_held_ns.setdefault(rule, at_ns)
        end = _end(self, look.snapshot, look.probe, resize)
        if end is not None:
            self.verdict, self.reason = end
            return self.verdict
        self._in_a_row = self._in_a_row + 1 if all(held.values()) else 0
        if self._in_a_row >= NUM_CONFIRMATIONS:
            self.verdict = Verdict.CONVERGED
        else:
            missing = [
                f"{rule} {'unknown' if holds is None else 'not yet'}" for rule, holds in held.items() if not holds
            ]
            self.reason = ", ".join(missing)
        return self.verdict

    def rules(self, look: Look, resize: Resize) -> dict[Rule, bool | None]:
        """Whether each rule that the target can show holds now; None where it is unknown."""
        seen, probe = look.snapshot, look.probe
        held: dict[Rule, bool | None] = {
            Rule.RANK_BOUND: _is(probe.bound_after, self.new_width),
            Rule.RANK_FORWARDS: probe.proves(self.new_width),
            Rule.NOT_SCALING: _is(probe.is_scaling, False),
        }
        if Evidence.OBSERVATION in self.evidence:
            generation = resize.generation if resize.generation is not None else self._next_generation()
            held |= {
                Rule.SAME_DEPLOYMENT: _is(seen.deployment_uid, self.before.deployment_uid),
                Rule.GENERATION: _observed(seen, lambda one: seen.generation == generation == one.observed_generation),
                Rule.LAYERS: _observed(seen, self._layers_agree),
                Rule.STABLE_WIDTH: _observed(seen, lambda one: one.stable_width == self.new_width),
            }
        if Evidence.MEMBERS in self.evidence:
            held |= self._member_rules(seen)
        return held

    def _next_generation(self) -> int | None:
        return None if self.before.generation is None else self.before.generation + 1

    def _layers_agree(self, observation: Observation) -> bool:
        return all(layer.known and layer.value == self.new_width for layer in observation.layers().values())

    def _member_rules(self, seen: Snapshot) -> dict[Rule, bool | None]:
        kept = self.lost_members(seen)
        serving = [member for member in seen.members if member.serves and member.running]
        before = {member.name: member.num_restarts for member in self.before.members}
        return {
            Rule.RETAINED: not kept,
            Rule.MEMBER_COUNT: len(serving) == self.new_width,
            Rule.NO_RESTARTS: all(
                (member.num_restarts or 0) == (before.get(member.name) or 0) for member in seen.members
            ),
        }

    def lost_members(self, seen: Snapshot) -> list[str]:
        """Members of before that are not the same any more; those that a smaller width lets go are not counted."""
        now = {member.name: (member.uid, member.container_id) for member in seen.members if member.running}
        old = [member for member in self.before.members if member.running]
        lost = [member.name for member in old if now.get(member.name) != (member.uid, member.container_id)]
        serving = {member.name for member in old if member.serves}
        allowed = max(0, self.old_width - self.new_width)
        gone = [name for name in lost if name in serving and name not in now]
        return [name for name in lost if name not in gone[:allowed]]

    def _note_words(self, seen: Snapshot) -> None:
        words = [f"phase={seen.phase}"] if seen.phase is not None else []
        words += [f"{kind}={one.status}/{one.reason}" for kind, one in seen.conditions.items()]
        if seen.observation is not None:
            words.append(f"state={seen.observation.state}")
            words += [f"{name}={one.value}" for name, one in seen.observation.layers().items() if one.known]
        for word in words:
            self.first_seen_ns.setdefault(word, seen.received_ns)


def baseline(driver_evidence: frozenset[Evidence], look: Look, width: int, where: str) -> Snapshot:
    """What a resize is followed from: the old width, proved, by everything that the new one will be proved by.

    Args:
        driver_evidence: What the target can show.
        look: One look before the request.
        width: The old width.
        where: How messages name the target.

    Raises:
        CampaignError: `baseline_unproved`, once for each rule that does not hold, or whose source cannot be read: what was
            never readable would never be, however long one waits.
    """
    seen = look.snapshot
    follow = Convergence(driver_evidence, seen, width, width)
    held = follow.rules(look, Resize(width, width, 0, generation=seen.generation))
    detail = "; ".join((*seen.unreadable, *look.probe.unreadable))
    refusals = [
        Refusal(
            "baseline_unproved",
            f"at width {width}, {rule} {'cannot be read' if holds is None else 'does not hold'}; {detail or 'no more is known'}",
            where,
        )
        for rule, holds in held.items()
        if not holds
    ]
    if refusals:
        raise CampaignError(refusals)
    return seen


def _end(follow: Convergence, seen: Snapshot, probe: Probe, resize: Resize) -> tuple[Verdict, str] | None:
    """The end that a look forces, whatever else holds."""
    drift = [text for text in (*seen.unreadable, *probe.unreadable) if "_drift]" in text]
    condition, observation = seen.conditions.get(_ELASTIC_CONDITION), seen.observation
    if condition == follow.before.conditions.get(_ELASTIC_CONDITION):
        condition = None  # it is about an earlier resize
    if observation == follow.before.observation:
        observation = None
    if resize.state in (ResizeState.REFUSED, ResizeState.FAILED):
        return Verdict(resize.state.value), f"status {resize.status}: {resize.message}"
    if condition is not None and (condition.status, condition.reason) == ("False", "ScaleRefused"):
        return Verdict.REFUSED, "ElasticResize is False/ScaleRefused"
    if condition is not None and (condition.status, condition.reason) == ("Unknown", "WorldUnprovable"):
        return Verdict.UNPROVABLE, "ElasticResize is Unknown/WorldUnprovable"
    if observation is not None and observation.state in REFUSED_STATES:
        return Verdict.REFUSED, f"{observation.state}: {observation.reason}"
    if drift:
        return Verdict.DRIFTED, "; ".join(drift)
    if seen.deployment_uid is not None and seen.deployment_uid != follow.before.deployment_uid:
        return Verdict.LOST, f"deployment {follow.before.deployment_uid} became {seen.deployment_uid}"
    if Evidence.MEMBERS in follow.evidence and seen.members and (lost := follow.lost_members(seen)):
        return Verdict.LOST, f"members that served before are not the same: {', '.join(lost)}"
    return None


def _is(found: object, expected: object) -> bool | None:
    return None if found is None else found == expected


def _observed(seen: Snapshot, holds: Callable[[Observation], bool]) -> bool | None:
    return None if seen.observation is None else holds(seen.observation)
