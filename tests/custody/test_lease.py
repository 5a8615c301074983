"""The Lease of a node set: two who race, a stale holder, clocks that differ, a server that is away."""

from __future__ import annotations

import datetime as dt
import threading
from typing import Any

import pytest

from ep_campaign.custody.keeper import Keeper
from ep_campaign.custody.lease import (
    MAX_WATCH_S,
    Claim,
    Conflict,
    acquire,
    observe,
    release,
    renew,
    view,
    written,
)
from ep_campaign.errors import CampaignError

NOON = dt.datetime(2026, 12, 1, 12, 0, 0, tzinfo=dt.UTC)
OURS = Claim("b200-ep16/5f2a", "host-a pid 71", 60)
THEIRS = Claim("smoke/99aa", "host-b pid 12", 60)


class Store:
    """A server with one Lease, and the rules that matter: an object of its version, or a conflict."""

    name = "ep-campaign-b200"

    def __init__(self) -> None:
        self.object: dict[str, Any] | None = None
        self.version = 0
        self.before_write: list[Any] = []  # what somebody else does between our reading and our writing
        self.away = False

    def read(self) -> dict[str, Any] | None:
        if self.away:
            msg = "connection refused"
            raise ConnectionRefusedError(msg)
        return self.object

    def create(self, lease: dict[str, Any]) -> dict[str, Any]:
        self._others()
        if self.object is not None:
            raise Conflict
        return self._store(lease)

    def replace(self, lease: dict[str, Any]) -> dict[str, Any]:
        self._others()
        if self.object is None or lease["metadata"]["resourceVersion"] != self.object["metadata"]["resourceVersion"]:
            raise Conflict
        return self._store(lease)

    def _others(self) -> None:
        if self.before_write:
            self.before_write.pop(0)(self)

    def _store(self, lease: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        self.object = {**lease, "metadata": {**lease["metadata"], "resourceVersion": str(self.version)}}
        return self.object

    def hold(self, claim: Claim, at: dt.datetime) -> None:
        self._store(written(self.name, claim, at, self.object))


def no_sleep(seconds: float) -> None:
    pytest.fail(f"waited {seconds} s where nothing was to be waited for")


def at_noon() -> dt.datetime:
    return NOON


def holder(store: Store) -> str:
    assert store.object is not None
    return view(store.object).holder


class TestAcquire:
    def test_creates_a_lease_that_is_not_there(self) -> None:
        """Nobody has to make the object beforehand."""
        store = Store()

        acquire(store, OURS, at_noon, no_sleep)

        assert store.object is not None
        assert store.object["spec"] == {
            "holderIdentity": "b200-ep16/5f2a",
            "leaseDurationSeconds": 60,
            "acquireTime": "2026-12-01T12:00:00.000000Z",
            "renewTime": "2026-12-01T12:00:00.000000Z",
            "leaseTransitions": 0,
        }

    def test_refuses_a_valid_holder_with_who_since_and_until(self) -> None:
        """A valid lease is never taken."""
        store = Store()
        store.hold(THEIRS, NOON - dt.timedelta(seconds=10))

        with pytest.raises(CampaignError) as caught:
            acquire(store, OURS, at_noon, no_sleep)

        assert caught.value.codes == ("lease_held",)
        assert "is held by smoke/99aa (host-b pid 12) since 2026-12-01T11:59:50Z, until 2026-12-01T12:00:50Z" in str(
            caught.value
        )
        assert holder(store) == THEIRS.holder

    def test_takes_an_expired_lease_after_watching_it(self) -> None:
        """An expired lease is taken once it was watched for its duration without a renewal; a change of holder is counted."""
        store, slept = Store(), []
        store.hold(THEIRS, NOON - dt.timedelta(hours=1))

        acquire(store, OURS, at_noon, slept.append)

        assert slept == [60]
        assert holder(store) == OURS.holder
        assert store.object is not None
        assert store.object["spec"]["leaseTransitions"] == 1

    def test_watches_a_lease_of_days_for_two_minutes(self) -> None:
        """Others hold leases of two days: an expired one is not watched for two more."""
        store, slept = Store(), []
        store.hold(Claim("other", "", 172_800), NOON - dt.timedelta(days=3))

        acquire(store, OURS, at_noon, slept.append)

        assert slept == [MAX_WATCH_S]

    def test_leaves_a_holder_whose_clock_is_behind(self) -> None:
        """A lease that looks expired and is renewed while it is watched has a live holder whose clock differs."""
        store = Store()
        behind = NOON - dt.timedelta(minutes=30)
        store.hold(THEIRS, behind)

        with pytest.raises(CampaignError) as caught:
            acquire(store, OURS, at_noon, lambda seconds: store.hold(THEIRS, behind + dt.timedelta(seconds=seconds)))

        assert caught.value.codes == ("lease_held",)
        assert "the two clocks differ" in str(caught.value)
        assert holder(store) == THEIRS.holder

    def test_retakes_our_own_at_once(self) -> None:
        """After a crash the same results folder takes its lease back at once, valid as it still is, and keeps its beginning."""
        store = Store()
        store.hold(OURS, NOON - dt.timedelta(seconds=5))
        again = Claim(OURS.holder, "host-a pid 99", 60)

        acquire(store, again, at_noon, no_sleep)

        assert store.object is not None
        found = view(store.object)
        assert (found.controller, found.acquired) == ("host-a pid 99", NOON - dt.timedelta(seconds=5))
        assert store.object["spec"]["leaseTransitions"] == 0

    def test_takes_a_released_lease(self) -> None:
        """A lease without a holder is free."""
        store = Store()
        store.hold(THEIRS, NOON)
        assert release(store, THEIRS)

        acquire(store, OURS, at_noon, no_sleep)

        assert holder(store) == OURS.holder

    @pytest.mark.parametrize("exists", [False, True], ids=["created", "released"])
    def test_loses_a_race(self, exists: bool) -> None:
        """Of two who find a lease free, the one whose write comes second is told who was first."""
        store = Store()
        if exists:
            store.hold(THEIRS, NOON)
            release(store, THEIRS)
        store.before_write.append(lambda server: server.hold(THEIRS, NOON))

        with pytest.raises(CampaignError) as caught:
            acquire(store, OURS, at_noon, no_sleep)

        assert caught.value.codes == ("lease_held",)
        assert holder(store) == THEIRS.holder

    def test_gives_up_after_losing_every_race(self) -> None:
        """Trying again has an end."""
        store = Store()
        nobody = Claim("", "", 1)
        store.hold(nobody, NOON)
        store.before_write += [lambda server: server.hold(nobody, NOON)] * 5

        with pytest.raises(CampaignError) as caught:
            acquire(store, OURS, at_noon, no_sleep)

        assert caught.value.codes == ("lease_contended",)

    def test_of_twenty_racing_threads_one_wins(self) -> None:
        """Whatever the order of reads and writes, a lease has one holder."""
        store, lock = Store(), threading.Lock()
        won: list[int] = []
        lost: list[tuple[str, ...]] = []
        plain = store.replace, store.create
        store.replace = lambda lease: _locked(lock, plain[0], lease)  # type: ignore[method-assign]
        store.create = lambda lease: _locked(lock, plain[1], lease)  # type: ignore[method-assign]

        def race(number: int) -> None:
            try:
                acquire(store, Claim(f"campaign-{number}", "", 60), at_noon, no_sleep)
            except CampaignError as error:
                lost.append(error.codes)
            else:
                won.append(number)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert len(won) == 1
        assert set(lost) == {("lease_held",)}
        assert len(lost) == 19
        assert holder(store) == f"campaign-{won[0]}"


def _locked(lock: Any, write: Any, lease: Any) -> Any:
    with lock:
        return write(lease)


class TestRenew:
    def test_moves_the_time_of_renewal_only(self) -> None:
        """A renewal changes `renewTime` and nothing else."""
        store = Store()
        store.hold(OURS, NOON)

        renew(store, OURS, lambda: NOON + dt.timedelta(seconds=20))

        assert store.object is not None
        found = view(store.object)
        assert (found.acquired, found.until) == (NOON, NOON + dt.timedelta(seconds=80))

    def test_survives_a_write_that_came_between(self) -> None:
        """A label that somebody sets meanwhile is no loss."""
        store = Store()
        store.hold(OURS, NOON)
        store.before_write.append(lambda server: server.hold(OURS, NOON))

        renew(store, OURS, lambda: NOON + dt.timedelta(seconds=20))

        assert store.object is not None
        assert view(store.object).renewed == NOON + dt.timedelta(seconds=20)

    @pytest.mark.parametrize(
        ("taken", "has"),
        [
            (lambda server: server.hold(THEIRS, NOON), "held by smoke/99aa (host-b pid 12)"),
            (lambda server: server.hold(Claim(OURS.holder, "host-c pid 5", 60), NOON), "(host-c pid 5)"),
            (lambda server: setattr(server, "object", None), "nobody: it was deleted"),
            (lambda server: release(server, OURS), "nobody: it was released"),
        ],
        ids=["stolen", "same folder elsewhere", "deleted", "released"],
    )
    def test_says_who_has_it_now(self, taken: Any, has: str) -> None:
        """A lease that is lost is lost with a name."""
        store = Store()
        store.hold(OURS, NOON)
        taken(store)

        with pytest.raises(CampaignError) as caught:
            renew(store, OURS, at_noon)

        assert caught.value.codes == ("lease_lost",)
        assert has in str(caught.value)


class TestRelease:
    def test_gives_back_only_its_own(self) -> None:
        """Another's lease stays."""
        store = Store()
        store.hold(THEIRS, NOON)

        assert not release(store, OURS)
        assert holder(store) == THEIRS.holder

    def test_leaves_the_lease_to_whoever_took_it_over(self) -> None:
        """A controller that lost its folder's lease to a newer one must not free it."""
        store = Store()
        store.hold(Claim(OURS.holder, "host-c pid 5", 60), NOON)

        assert not release(store, OURS)
        assert holder(store) == OURS.holder


class TestObserve:
    def test_accepts_the_expected_holder_and_writes_nothing(self) -> None:
        """Observing never mutates."""
        store = Store()
        store.hold(THEIRS, NOON)
        version = store.version

        assert observe(store, THEIRS.holder, at_noon).holder == THEIRS.holder
        assert store.version == version

    @pytest.mark.parametrize(
        ("prepare", "code"),
        [
            (lambda server: None, "lease_missing"),
            (lambda server: server.hold(OURS, NOON), "lease_not_expected_holder"),
            (lambda server: server.hold(THEIRS, NOON - dt.timedelta(minutes=2)), "lease_expired"),
        ],
        ids=["missing", "another", "expired"],
    )
    def test_refuses(self, prepare: Any, code: str) -> None:
        """What is not held by whom we were told, or not any more, is refused."""
        store = Store()
        prepare(store)

        with pytest.raises(CampaignError) as caught:
            observe(store, THEIRS.holder, at_noon)

        assert caught.value.codes == (code,)


class TestKeeper:
    def test_renews_until_it_is_stopped_and_gives_back(self) -> None:
        """The thread renews; stopping releases."""
        store, renewed = Store(), threading.Event()
        keeper = Keeper(store, Claim(OURS.holder, OURS.controller, 1)).start()
        first = store.version
        store.before_write.append(lambda _server: renewed.set())

        assert renewed.wait(5)
        keeper.check()
        assert keeper.stop()

        assert store.version > first
        assert holder(store) == ""

    def test_says_when_the_lease_was_stolen(self) -> None:
        """After a loss no start may begin, and the lease is not given back for its new holder."""
        store = Store()
        keeper = Keeper(store, OURS).start()
        store.hold(THEIRS, NOON)

        keeper.renew_once()

        with pytest.raises(CampaignError) as caught:
            keeper.check()
        assert caught.value.codes == ("lease_lost",)
        assert not keeper.stop()
        assert holder(store) == THEIRS.holder

    def test_outlives_a_server_that_is_away_for_less_than_its_duration(self) -> None:
        """Nothing is refused before the last renewal has run out; a gap is on record once the server is back."""
        now_s = [1000.0]
        store = Store()
        keeper = Keeper(store, OURS, monotonic=lambda: now_s[0]).start()
        store.away = True

        now_s[0] += 59
        keeper.renew_once()
        keeper.check()
        now_s[0] += 31
        keeper.renew_once()
        with pytest.raises(CampaignError) as caught:
            keeper.check()
        store.away = False
        keeper.renew_once()
        keeper.check()

        assert caught.value.codes == ("lease_expired",)
        assert "could not be renewed for 90 s (ConnectionRefusedError: connection refused)" in str(caught.value)
        assert [gap["seconds"] for gap in keeper.gaps] == [30.0]
        keeper.stop()

    def test_ends_where_the_server_is_away(self) -> None:
        """A lease that cannot be given back expires by itself."""
        store = Store()
        keeper = Keeper(store, OURS).start()
        store.away = True

        assert not keeper.stop()
