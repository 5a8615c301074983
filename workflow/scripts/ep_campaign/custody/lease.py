"""The Lease of a node set: who may run starts on its nodes.

One `coordination.k8s.io/v1` Lease for each node set. It is taken by `resourceVersion`, so that of two who race one loses;
renewed while the campaign runs; never taken from a valid holder; and released only by its holder.

The holder's identity names a results folder. Whoever acquires it again under that name holds the folder's kernel lock, so
the controller that held it before is dead: it is taken at once, also long before it would expire.

Clocks of two machines differ. A lease that looks expired is therefore watched for its duration by the local clock (at most
two minutes), and taken only if nobody renews it meanwhile.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ep_campaign.errors import CampaignError, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

LEASE_API = "coordination.k8s.io/v1"
CONTROLLER_ANNOTATION = "ep-campaign/controller"
MAX_TRIES = 5
"""How often a lost race for a write is read again; every loss means that somebody else wrote."""
MAX_WATCH_S = 120
"""Longest watch over a lease that looks expired [s]: others hold leases of days, and clocks do not differ by so much."""

_TIME_FORMAT = "%Y-%m-%dT%H:%M:%S.%fZ"


class Conflict(Exception):  # noqa: N818 - what happened, in the API's own word
    """The object changed, or came to be, between our reading and our writing."""


class LeaseStore(Protocol):
    """One Lease object of a server."""

    name: str

    def read(self) -> dict[str, Any] | None:
        """The object, or None where there is none."""

    def create(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Creates it; raises `Conflict` where it exists."""

    def replace(self, lease: dict[str, Any]) -> dict[str, Any]:
        """Replaces it; raises `Conflict` where its `resourceVersion` is not the newest."""


@dataclass(frozen=True)
class Claim:
    """Who asks for a lease.

    Attributes:
        holder: Identity: campaign and results folder.
        controller: The process that asks, for people: host, process id, since when.
        duration_s: For how long a renewal is good [s].
    """

    holder: str
    controller: str
    duration_s: int


@dataclass(frozen=True)
class LeaseView:
    """What a Lease says.

    Attributes:
        holder: Who holds it; empty where nobody does.
        controller: The holder's process; empty where it does not say.
        acquired: Since when.
        renewed: Last renewal, by the holder's clock.
        duration_s: For how long that is good [s].
        version: `resourceVersion`: changes with each write.
    """

    holder: str
    controller: str
    acquired: dt.datetime | None
    renewed: dt.datetime | None
    duration_s: int
    version: str

    @property
    def until(self) -> dt.datetime | None:
        """When it expires, by the holder's clock."""
        return None if self.renewed is None else self.renewed + dt.timedelta(seconds=self.duration_s)

    def looks_expired(self, now: dt.datetime) -> bool:
        """Whether it has expired if both clocks agree."""
        return self.until is None or self.until <= now

    def describe(self) -> str:
        """Who, since when, until when."""
        who = f"{self.holder} ({self.controller})" if self.controller else self.holder
        return f"{who} since {_text(self.acquired)}, until {_text(self.until)}"


def view(lease: dict[str, Any]) -> LeaseView:
    """Reads a Lease object; a field that another writer left out counts as absent."""
    spec = lease.get("spec") or {}
    return LeaseView(
        holder=spec.get("holderIdentity") or "",
        controller=(lease["metadata"].get("annotations") or {}).get(CONTROLLER_ANNOTATION, ""),
        acquired=parse_time(spec.get("acquireTime")),
        renewed=parse_time(spec.get("renewTime")),
        duration_s=int(spec.get("leaseDurationSeconds") or 0),
        version=str(lease["metadata"].get("resourceVersion", "")),
    )


def acquire(
    store: LeaseStore,
    claim: Claim,
    now: Callable[[], dt.datetime],
    sleep: Callable[[float], object],
) -> dict[str, Any]:
    """Takes a lease that is free, ours, or expired; returns the object as written.

    Args:
        store: The lease.
        claim: Who asks.
        now: Clock, in UTC.
        sleep: Waits so many seconds; called only to watch a lease that looks expired.

    Raises:
        CampaignError: `lease_held`, with who, since and until; `lease_contended` where writing lost every race.
    """
    for _ in range(MAX_TRIES):
        try:
            found = store.read()
            if found is None:
                return store.create(written(store.name, claim, now(), None))
            seen = view(found)
            if seen.holder not in ("", claim.holder):
                if not seen.looks_expired(now()):
                    raise _held(store, seen, "wait for it to be released or to expire, or choose another node set")
                found = _watched(store, seen, sleep)
            return store.replace(written(store.name, claim, now(), found))
        except Conflict:
            continue
    message = (
        f"was written by somebody else {MAX_TRIES} times while it was being taken: two campaigns want it; try again"
    )
    raise refuse("lease_contended", message, f"Lease {store.name}")


def renew(store: LeaseStore, claim: Claim, now: Callable[[], dt.datetime]) -> dict[str, Any]:
    """Renews a lease that is ours; returns the object as written.

    Raises:
        CampaignError: `lease_lost`, with who has it now.
    """
    for _ in range(MAX_TRIES):
        found = store.read()
        seen = None if found is None else view(found)
        if found is None or seen is None or seen.holder != claim.holder or seen.controller != claim.controller:
            has = (
                "nobody: it was deleted"
                if seen is None
                else "nobody: it was released"
                if not seen.holder
                else seen.describe()
            )
            message = f"is no longer held by {claim.holder} ({claim.controller}); it is held by {has}; no further start begins"
            raise refuse("lease_lost", message, f"Lease {store.name}")
        spec = {**found["spec"], "renewTime": format_time(now()), "leaseDurationSeconds": claim.duration_s}
        try:
            return store.replace({**found, "spec": spec})
        except Conflict:
            continue
    raise refuse("lease_contended", f"changed {MAX_TRIES} times while it was being renewed", f"Lease {store.name}")


def release(store: LeaseStore, claim: Claim) -> bool:
    """Gives a lease back if it is ours; whether it was."""
    for _ in range(MAX_TRIES):
        found = store.read()
        if found is None or view(found).holder != claim.holder or view(found).controller != claim.controller:
            return False
        spec = {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}
        annotations = {k: v for k, v in found["metadata"].get("annotations", {}).items() if k != CONTROLLER_ANNOTATION}
        try:
            store.replace({**found, "metadata": {**found["metadata"], "annotations": annotations}, "spec": spec})
        except Conflict:
            continue
        return True
    return False


def observe(store: LeaseStore, expected_holder: str, now: Callable[[], dt.datetime]) -> LeaseView:
    """Looks, and never writes: is the lease held by whom we were told?

    Raises:
        CampaignError: `lease_missing`, `lease_not_expected_holder` or `lease_expired`.
    """
    where = f"Lease {store.name}"
    found = store.read()
    if found is None:
        raise refuse("lease_missing", f"does not exist; expected it held by {expected_holder!r}", where)
    seen = view(found)
    if seen.holder != expected_holder:
        held = seen.describe() if seen.holder else "nobody"
        raise refuse("lease_not_expected_holder", f"is held by {held}; expected {expected_holder!r}", where)
    if seen.looks_expired(now()):
        message = f"of {seen.describe()} has expired; its holder must renew it before a start may begin"
        raise refuse("lease_expired", message, where)
    return seen


def written(name: str, claim: Claim, now: dt.datetime, before: dict[str, Any] | None) -> dict[str, Any]:
    """The object that makes `claim` the holder; on top of `before`, so that its `resourceVersion` guards the write."""
    old = before or {"apiVersion": LEASE_API, "kind": "Lease", "metadata": {"name": name}, "spec": {}}
    annotations = {**(old["metadata"].get("annotations") or {}), CONTROLLER_ANNOTATION: claim.controller}
    spec = dict(old.get("spec") or {})
    same = spec.get("holderIdentity") == claim.holder
    spec |= {
        "holderIdentity": claim.holder,
        "leaseDurationSeconds": claim.duration_s,
        "acquireTime": spec["acquireTime"] if same and spec.get("acquireTime") else format_time(now),
        "renewTime": format_time(now),
        "leaseTransitions": int(spec.get("leaseTransitions") or 0) + int(before is not None and not same),
    }
    return {**old, "metadata": {**old["metadata"], "annotations": annotations}, "spec": spec}


def parse_time(text: str | None) -> dt.datetime | None:
    """A time as the API writes it: UTC, with or without a fraction."""
    return None if not text else dt.datetime.fromisoformat(text)


def format_time(when: dt.datetime) -> str:
    """A time as the API's MicroTime takes it."""
    return when.astimezone(dt.UTC).strftime(_TIME_FORMAT)


def _watched(store: LeaseStore, seen: LeaseView, sleep: Callable[[float], object]) -> dict[str, Any]:
    """A lease that looked expired, after its duration by the local clock; refuses it if its holder is alive after all."""
    sleep(min(max(seen.duration_s, 1), MAX_WATCH_S))
    found = store.read()
    if found is None:
        raise Conflict
    after = view(found)
    if after.holder and after.version != seen.version:
        raise _held(
            store,
            after,
            "it looked expired and was renewed while it was watched: the two clocks differ; set them right",
        )
    return found


def _held(store: LeaseStore, seen: LeaseView, advice: str) -> CampaignError:
    return refuse("lease_held", f"is held by {seen.describe()}: {advice}", f"Lease {store.name}")


def _text(when: dt.datetime | None) -> str:
    return "an unknown time" if when is None else when.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
