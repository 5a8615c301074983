"""One resize from its baseline to its end: looks as often as it is told, keeps everything that was different, judges by rule."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ep_campaign.drivers.convergence import Convergence, Look, Verdict, baseline
from ep_campaign.drivers.probe import probe, serves
from ep_campaign.drivers.withdrawal import Withdrawal, withdrawals

if TYPE_CHECKING:
    from collections.abc import Callable

    from ep_campaign.drivers.driver import Driver, Endpoint, Resize, Snapshot

READY_PHASE = "Ready"
_NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Patience:
    """How a resize is watched.

    Attributes:
        poll_s: Pause between looks; a look itself takes its time, and when each ended is kept.
        timeout_s: Until the resize must have ended.
        call_timeout_s: Bound of each call.
    """

    poll_s: float = 0.5
    timeout_s: float = 1800.0
    call_timeout_s: float = 10.0


@dataclass(frozen=True)
class Seen:
    """What a target showed that it had not shown just before.

    Attributes:
        at_ns: When it was received, on our monotonic clock.
        shown: Document, status and members, as the target said them.
    """

    at_ns: int
    shown: dict[str, Any]


@dataclass(frozen=True)
class Followed:
    """One resize.

    Attributes:
        resize: What was asked and answered.
        verdict: What it came to.
        reason: Words to it; for a resize that timed out, the rules that did not hold.
        ended_ns: When the verdict fell.
        first_held_ns: When each rule first held.
        first_seen_ns: When each state, phase, condition and layer was first seen.
        seen: Everything distinct that the target showed, in order.
        looks_ns: When each look ended: the polling that was achieved, which bounds every time above.
        endpoint_withdrawn: When the endpoint did not answer for its ranks.
        phase_withdrawn: When the phase was not Ready.
        calls: HTTP status of every completion call that the looks made: their part of the server's own log.
        last_words: Why an ordinary and a streamed request after convergence did not both succeed; None where they did.
    """

    resize: Resize
    verdict: Verdict
    reason: str
    ended_ns: int
    first_held_ns: dict[str, int]
    first_seen_ns: dict[str, int]
    seen: tuple[Seen, ...]
    looks_ns: tuple[int, ...]
    endpoint_withdrawn: tuple[Withdrawal, ...]
    phase_withdrawn: tuple[Withdrawal, ...]
    calls: tuple[int, ...]
    last_words: str | None

    def as_json(self) -> dict[str, Any]:
        """As a record holds it."""
        return asdict(self)


class _Watch:
    """What looks have shown so far."""

    def __init__(self, driver: Driver, endpoint: Endpoint, patience: Patience) -> None:
        self._driver, self._endpoint, self._patience = driver, endpoint, patience
        self.seen: list[Seen] = []
        self.looks_ns: list[int] = []
        self.answered: list[tuple[int, bool]] = []
        self.phases: list[tuple[int, bool]] = []
        self.calls: list[int] = []

    def look(self) -> Look:
        """Looks once, and keeps it."""
        look = Look(self._driver.snapshot(), probe(self._endpoint, self._patience.call_timeout_s))
        shown = _shown(look.snapshot)
        if not self.seen or self.seen[-1].shown != shown:
            self.seen.append(Seen(look.snapshot.received_ns, shown))
        self.looks_ns.append(look.probe.ended_ns)
        self.answered.append((look.probe.ended_ns, look.probe.bound_before is not None))
        if look.snapshot.phase is not None:
            self.phases.append((look.snapshot.received_ns, look.snapshot.phase == READY_PHASE))
        self.calls.extend(look.probe.calls)
        return look


def follow(
    driver: Driver,
    endpoint: Endpoint,
    old_width: int,
    new_width: int,
    patience: Patience,
    sleep: Callable[[float], None] = time.sleep,
) -> Followed:
    """Resizes a target and follows it until it has converged, has failed, or has used up its time.

    Args:
        driver: The target's, started.
        endpoint: Where it serves.
        old_width: Its width now, which is proved first.
        new_width: The width to ask for.
        patience: How it is watched.
        sleep: Waits between two looks.

    Raises:
        CampaignError: `baseline_unproved`: nothing was asked of the target.
    """
    watch = _Watch(driver, endpoint, patience)
    before = baseline(driver.evidence, watch.look(), old_width, f"{endpoint.host}:{endpoint.port}")
    rule = Convergence(driver.evidence, before, old_width, new_width)
    driver.resize(old_width, new_width)
    deadline_ns = time.monotonic_ns() + int(patience.timeout_s * _NS_PER_S)
    while rule.note(watch.look(), _asked(driver)) is Verdict.PENDING and time.monotonic_ns() < deadline_ns:
        sleep(patience.poll_s)
    ended_ns = time.monotonic_ns()
    return Followed(
        resize=_asked(driver),
        verdict=Verdict.TIMED_OUT if rule.verdict is Verdict.PENDING else rule.verdict,
        reason=rule.reason,
        ended_ns=ended_ns,
        first_held_ns={name.value: at_ns for name, at_ns in rule.first_held_ns.items()},
        first_seen_ns=dict(rule.first_seen_ns),
        seen=tuple(watch.seen),
        looks_ns=tuple(watch.looks_ns),
        endpoint_withdrawn=withdrawals(watch.answered),
        phase_withdrawn=withdrawals(watch.phases),
        calls=tuple(watch.calls),
        last_words=serves(endpoint, patience.call_timeout_s) if rule.verdict is Verdict.CONVERGED else None,
    )


def _asked(driver: Driver) -> Resize:
    resize = driver.resized()
    assert resize is not None
    return resize


def _shown(snapshot: Snapshot) -> dict[str, Any]:
    return {
        "deployment_uid": snapshot.deployment_uid,
        "generation": snapshot.generation,
        "raw": snapshot.raw,
        "members": [asdict(member) for member in snapshot.members],
        "unreadable": list(snapshot.unreadable),
    }
