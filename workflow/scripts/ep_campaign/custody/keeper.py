"""Keeps a lease while a campaign runs: a thread that renews it, and an answer to the question whether it is still ours.

A server that does not answer is no loss: renewing goes on, and nothing is refused before the last renewal has run out. After
that no start may begin, for another campaign may take the nodes; if none did by the time the server is back, the lease is
ours again and the gap is on record.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from typing import TYPE_CHECKING, Any

from ep_campaign.custody.lease import acquire, release, renew
from ep_campaign.errors import CampaignError, refuse

if TYPE_CHECKING:
    from collections.abc import Callable

    from ep_campaign.custody.lease import Claim, LeaseStore

RENEWALS_PER_DURATION = 4
"""A lease outlives three renewals that fail."""


def utc() -> dt.datetime:
    """This machine's clock."""
    return dt.datetime.now(dt.UTC)


class Keeper:
    """A lease that this process holds.

    Attributes:
        gaps: Times during which the lease had run out unrenewed and nobody took it: `from_utc` and `seconds`.
    """

    def __init__(self, store: LeaseStore, claim: Claim, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.gaps: list[dict[str, Any]] = []
        self._store, self._claim, self._monotonic = store, claim, monotonic
        self._renewed_s = monotonic()
        self._lost: CampaignError | None = None
        self._last_error = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lease {store.name}", daemon=True)

    def start(self, sleep: Callable[[float], object] = time.sleep) -> Keeper:
        """Acquires the lease and begins to renew it.

        Raises:
            CampaignError: It is held by another.
        """
        acquire(self._store, self._claim, utc, sleep)
        self._renewed_s = self._monotonic()
        self._thread.start()
        return self

    def check(self) -> None:
        """Returns while the lease is ours.

        Raises:
            CampaignError: `lease_lost`, or `lease_expired` where the server has not answered for too long.
        """
        if self._lost is not None:
            raise self._lost
        silent_s = self._monotonic() - self._renewed_s
        if silent_s >= self._claim.duration_s:
            message = (
                f"could not be renewed for {silent_s:.0f} s ({self._last_error or 'no answer yet'}); it is good for "
                f"{self._claim.duration_s} s, so no start begins until the server answers"
            )
            raise refuse("lease_expired", message, f"Lease {self._store.name}")

    def stop(self) -> bool:
        """Ends the renewing and gives the lease back; whether it was still ours."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._claim.duration_s)
        try:
            return release(self._store, self._claim)
        except OSError:
            return False  # the server is away: the lease expires by itself

    def renew_once(self) -> None:
        """One renewal, with its consequences."""
        began_s = self._monotonic()
        try:
            renew(self._store, self._claim, utc)
        except CampaignError as error:
            if error.codes == ("lease_lost",):
                self._lost = error
            self._last_error = str(error)
        except OSError as error:
            self._last_error = f"{type(error).__name__}: {error}"
        else:
            silent_s = began_s - self._renewed_s
            if silent_s >= self._claim.duration_s:
                since = utc() - dt.timedelta(seconds=silent_s - self._claim.duration_s)
                gap_s = round(silent_s - self._claim.duration_s, 3)
                self.gaps.append({"from_utc": since.strftime("%Y-%m-%dT%H:%M:%SZ"), "seconds": gap_s})
            self._renewed_s, self._last_error = began_s, ""

    def _run(self) -> None:
        while self._lost is None and not self._stop.wait(self._claim.duration_s / RENEWALS_PER_DURATION):
            self.renew_once()
