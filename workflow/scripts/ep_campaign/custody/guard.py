"""Custody of one campaign on one cluster, for whoever runs its gangs: open, admit each EP size, check before each start, close."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from typing import TYPE_CHECKING, Any

from ep_campaign.custody.keeper import Keeper, utc
from ep_campaign.custody.lease import Claim, observe
from ep_campaign.custody.nodes import admit_nodes
from ep_campaign.custody.place import LeaseMode
from ep_campaign.custody.rights import missing_rights
from ep_campaign.custody.teardown import Owned, TeardownProof, classify, ready_nodes
from ep_campaign.errors import CampaignError
from ep_worker.contract.canonical import write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ep_campaign.custody.place import CustodySection
    from ep_campaign.custody.server import Server

FOLDER_ID_FILE = "custody-folder.json"


class Guard:
    """Holds the lease and answers for the nodes."""

    def __init__(self, server: Server, place: CustodySection, holder: str) -> None:
        self._server, self._place, self._holder = server, place, holder
        self._keeper: Keeper | None = None

    def open(self) -> None:
        """Asks for every right, then takes the lease or looks who holds it.

        Raises:
            CampaignError: A right is missing, or the lease is another's.
        """
        refusals = missing_rights(self._server.review, self._server.namespace)
        if refusals:
            raise CampaignError(refusals)
        section = self._place.lease
        if section.mode is LeaseMode.EXCLUSIVE:
            claim = Claim(self._holder, controller(), section.duration_s)
            self._keeper = Keeper(self._server.lease(section.name), claim).start()
        self.check()

    def check(self) -> None:
        """Returns where a start may begin.

        Raises:
            CampaignError: The lease is no longer ours, or not held by whom we were told.
        """
        section = self._place.lease
        if section.mode is LeaseMode.OBSERVE:
            observe(self._server.lease(section.name), section.expected_holder, utc)
        elif self._keeper is not None:
            self._keeper.check()

    def admit(self, names: tuple[str, ...], num_nodes: int, own: tuple[str, str]) -> list[dict[str, Any]]:
        """What was seen of each named node.

        Args:
            names: The nodes that starts may use; none: the scheduler chooses, and nothing is asked of them.
            num_nodes: How many an EP size needs.
            own: Label of our own pods, which do not count as others'.

        Raises:
            CampaignError: Everything that is wrong with them.
        """
        section = self._place.nodes
        if not names:
            return []
        needs = section.needs(names, num_nodes, own)
        return admit_nodes(
            needs, lambda: (self._server.nodes(), self._server.pods_on(needs.names)), section.wait_s, time.sleep
        )

    def judge_remaining(self, gone: Iterable[Owned], left: Iterable[Owned], waited_s: float) -> TeardownProof:
        """The proof of a gang's removal: what is left gets its reason, and a waiver where that is the cluster's fault."""
        found = {item: self._server.read(item) for item in left}
        there = {
            item: thing for item, thing in found.items() if thing is not None and thing["metadata"]["uid"] == item.uid
        }
        ready = ready_nodes(self._server.nodes()) if any(item.kind == "Pod" for item in there) else frozenset()
        late = tuple(item for item in found if item not in there)
        remaining = tuple(classify(item, thing, ready) for item, thing in there.items())
        return TeardownProof((*gone, *late), remaining, waited_s)

    def account(self) -> dict[str, Any]:
        """What a record keeps: mode, holder, gaps."""
        gaps = [] if self._keeper is None else list(self._keeper.gaps)
        return {
            "mode": self._place.lease.mode.value,
            "name": self._place.lease.name,
            "holder": self._holder,
            "gaps": gaps,
        }

    def close(self) -> None:
        """Gives the lease back if it is ours."""
        if self._keeper is not None:
            self._keeper.stop()
            self._keeper = None


def controller() -> str:
    """This process, for people who wonder who holds a lease."""
    return f"{socket.gethostname()} process {os.getpid()} since {utc().strftime('%Y-%m-%dT%H:%M:%SZ')}"


def holder_of(campaign: str, root: Path) -> str:
    """The identity under which a results folder holds a lease: stable for the folder, another one for a copy of it.

    Whoever uses it must hold the folder's kernel lock: that is what proves that an earlier controller of it is dead.
    """
    path = root / "logs" / FOLDER_ID_FILE
    inode = root.stat().st_ino
    try:
        known = json.loads(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        known = {}
    if known.get("inode") != inode:
        known = {"id": uuid.uuid4().hex[:12], "inode": inode}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(known, sort_keys=True).encode() + b"\n")
    return f"{campaign}/{known['id']}"
