"""How a rank finds the others: through a store, bounded in time, naming who is missing; then the group and its barrier."""

from __future__ import annotations

import json
import mmap
import os
import socket
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from torch import distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined] # public, missing in torch's own types
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from ep_worker.barrier import Barrier, CollectiveBarrier, SpinBarrier
from ep_worker.collectives import agree
from ep_worker.failure import RendezvousTimeoutError

if TYPE_CHECKING:
    import torch

    from ep_worker.device import Machine
    from ep_worker.place import Endpoint, Place

_RETRY_S = 0.2


def join(place: Place, machine: Machine) -> Barrier:
    """Makes the default process group, and the barrier that suits where its ranks run.

    Raises:
        RendezvousTimeoutError: Not all ranks arrived within the bound of the spec.
    """
    spec = place.spec
    bound = timedelta(seconds=spec.rendezvous_timeout_s)
    store = _store(place, bound)
    hosts = _meet(store, place, bound)
    dist.init_process_group(
        machine.collective_backend,
        store=PrefixStore("group", store),
        rank=place.rank,
        world_size=spec.ep_size,
        timeout=timedelta(seconds=spec.collective_timeout_s),
        device_id=machine.bound_device,
    )
    if len(set(hosts)) == 1:
        page = _shared_page(store, place, machine.device)
        if page is not None:
            return SpinBarrier(page, place.rank, spec.ep_size, spec.collective_timeout_s)

    def wait() -> None:
        dist.barrier()
        machine.settle()

    return CollectiveBarrier(wait)


def _store(place: Place, bound: timedelta) -> Store:
    """The launcher's store, or the one that a foreign launcher's environment names."""
    try:
        if place.store is None:
            store, _, _ = next(rendezvous("env://", place.rank, place.spec.ep_size, timeout=bound))
            return PrefixStore("ep_worker", store)
        _await_name(place.store, bound)
        return TCPStore(place.store.host, place.store.port, is_master=False, timeout=bound, wait_for_workers=False)
    except dist.DistError as error:
        msg = f"rank {place.rank} could not reach the store within {bound.total_seconds():g} s: {error}"
        raise RendezvousTimeoutError(msg) from error


def _await_name(endpoint: Endpoint, bound: timedelta) -> None:
    """Waits until the store's host has an address: a pod's name may come after its peers have started."""
    deadline = time.monotonic() + bound.total_seconds()
    while True:
        try:
            socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        except socket.gaierror as error:
            if time.monotonic() > deadline:
                msg = f"host {endpoint.host!r} of the store has no address after {bound.total_seconds():g} s: {error}"
                raise RendezvousTimeoutError(msg) from error
            time.sleep(_RETRY_S)
        else:
            return


def _meet(store: Store, place: Place, bound: timedelta) -> list[str]:
    """Waits for every rank's name plate; returns what each calls its machine, in rank order."""
    keys = [f"plate/{rank}" for rank in range(place.spec.ep_size)]
    store.set(keys[place.rank], _machine_identity())
    try:
        store.wait(keys, bound)
    except dist.DistError as error:
        missing = [rank for rank, key in enumerate(keys) if not store.check([key])]
        msg = f"ranks {missing} of {place.spec.ep_size} did not arrive within {bound.total_seconds():g} s"
        raise RendezvousTimeoutError(msg) from error
    return [store.get(key).decode() for key in keys]


def _machine_identity() -> str:
    """What two ranks have in common only where they can share memory through /proc: kernel, host name, process ids."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return json.dumps([socket.gethostname(), boot, str(Path("/proc/self/ns/pid").readlink())])


def _shared_page(store: Store, place: Place, device: torch.device) -> mmap.mmap | None:
    """A page that rank 0 makes and every rank maps; None, on all ranks, where one of them may not.

    The page has no name in any file system, so nothing is left behind however the ranks end.
    """
    num_bytes = SpinBarrier.num_bytes(place.spec.ep_size)
    own = -1
    if place.rank == 0:
        own = os.memfd_create("ep-barrier")
        os.ftruncate(own, num_bytes)
        store.set("page", f"/proc/{os.getpid()}/fd/{own}")
    page = None
    try:
        descriptor = os.open(store.get("page").decode(), os.O_RDWR)
        page = mmap.mmap(descriptor, num_bytes)
        os.close(descriptor)
    except OSError:
        page = None  # one process may not open another's files here: the collective barrier serves
    everyone = agree(page is not None, device)
    if own >= 0:
        os.close(own)
    return page if everyone else None
