"""The driver of the bundled engine, with the engine."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest
from serve.engines import SMALL, alive

from ep_campaign.drivers.convergence import Convergence, Look, Rule, Verdict, baseline
from ep_campaign.drivers.driver import Evidence
from ep_campaign.drivers.engine import EngineDriver, EngineOptions, _kind, _start_ticks, command_options
from ep_campaign.drivers.probe import probe, serves
from ep_campaign.errors import CampaignError

if TYPE_CHECKING:
    from pathlib import Path

ARGUMENTS = {
    **{name.replace("_", "-"): value for name, value in vars(SMALL.shape).items()},
    "max-len": SMALL.max_len,
    "transport": "shm",
}


@pytest.mark.slow
def test_a_resize_from_beginning_to_end(tmp_path: Path) -> None:
    """Start, baseline, growth, convergence by every rule, provenance, ledger and a proved teardown."""
    driver = EngineDriver(EngineOptions(tmp_path / "engine", ARGUMENTS))
    endpoint = driver.start(2)
    calls = []

    def look() -> Look:
        seen = Look(driver.snapshot(), probe(endpoint, 20.0))
        calls.extend(seen.probe.calls)
        return seen

    narrow = driver.transport()
    before = baseline(driver.evidence, look(), 2, "engine")
    follow = Convergence(driver.evidence, before, 2, 4)
    driver.resize(2, 4)
    deadline = time.monotonic() + 60
    while follow.note(look(), driver.resized()) is Verdict.PENDING:
        assert time.monotonic() < deadline, follow.reason
    members = driver.snapshot().members
    log, provenance = driver.server_log(), driver.provenance()
    assert serves(endpoint, 20.0) is None
    released = driver.stop()

    assert Verdict.CONVERGED == follow.verdict
    assert set(Rule) == set(follow.first_held_ns)
    assert {Evidence.OBSERVATION, Evidence.MEMBERS} == driver.evidence
    assert {"front", "rank-0", "rank-1", "rank-2", "rank-3"} == {member.name for member in members}
    assert {str(status): calls.count(status) for status in sorted(set(calls))} == log
    assert "shm" == narrow.name == provenance["transport"]["name"]
    assert "rank 3: 0 of 0 TCP sockets to 127.0.0.1, 6 shared mappings" in provenance["transport"]["evidence"]
    assert 2 + 4 == len(provenance["groups"])
    assert released.proved
    assert not [member for member in members if alive(int(member.uid.partition("-")[0]))]


def log_line(rank: int, generation: int, sockets: int, loopback: int, maps: int) -> str:
    """A rank's own line about a group."""
    return (
        f"ep_serve rank {rank}: generation {generation}: transport asked=tcp "
        f"num_tcp_sockets={sockets} num_tcp_loopback={loopback} num_shared_maps={maps}\n"
    )


@pytest.mark.parametrize(
    ("gained", "name"),
    [
        ([(1, 1, 0), (1, 1, 0)], "tcp"),
        ([(0, 0, 2), (0, 0, 2)], "shm"),
        ([(1, 1, 0), (0, 0, 2)], None),
        ([(1, 0, 0), (1, 0, 0)], None),
        ([(1, 1, 2), (1, 1, 2)], None),
        ([(0, 0, 0), (0, 0, 0)], None),
    ],
    ids=["sockets", "memory", "ranks differ", "not the loopback", "both", "neither"],
)
def test_transport(tmp_path: Path, gained: list[tuple[int, int, int]], name: str | None) -> None:
    """A transport is proved by what every rank gained with its last group, and by nothing that was asked for."""
    own = {"pid": os.getpid(), "start_ticks": _start_ticks(os.getpid())}
    (tmp_path / "engine.json").write_text(json.dumps(own))
    (tmp_path / "ranks.json").write_text(json.dumps({"ranks": [{**own, "rank": rank} for rank in range(2)]}))
    for rank, last in enumerate(gained):
        (tmp_path / f"rank-{rank}.log").write_text(log_line(rank, 0, 9, 9, 9) + "noise\n" + log_line(rank, 1, *last))
    assert name == EngineDriver(EngineOptions(tmp_path)).transport().name


def test_an_engine_that_cannot_be(tmp_path: Path) -> None:
    """What the engine says of its own arguments is part of the refusal, and its folder is not used twice."""
    driver = EngineDriver(EngineOptions(tmp_path, {"max-width": 1}))
    with pytest.raises(CampaignError, match="width 2 is above max_width 1") as caught:
        driver.start(2)
    assert ("engine_not_started",) == caught.value.codes

    (tmp_path / "settings.json").touch()
    with pytest.raises(CampaignError) as caught:
        EngineDriver(EngineOptions(tmp_path)).start(2)
    assert ("engine_folder_used",) == caught.value.codes


def test_command_options() -> None:
    """Flags stand alone where they are true, lists repeat, names come in order."""
    found = command_options({"seed": 3, "allow-shrink": True, "bound": False, "fault": ["stuck_503", "refuse_scale"]})
    assert ["--allow-shrink", "--fault=stuck_503", "--fault=refuse_scale", "--seed=3"] == found


@pytest.mark.parametrize(
    ("tcp", "loopback", "shared", "kind"),
    [
        (3, 3, 0, "tcp"),
        (4, 4, 0, "tcp"),
        (2, 2, 0, None),
        (4, 3, 0, None),
        (0, 0, 6, "shm"),
        (1, 1, 6, None),
        (0, 0, 4, None),
    ],
)
def test_what_a_rank_s_gains_prove(tcp: int, loopback: int, shared: int, kind: str | None) -> None:
    """Of three peers: a socket each to loopback at least and no memory, or two mappings each and no socket."""
    row = {"num_tcp_sockets": tcp, "num_tcp_loopback": loopback, "num_shared_maps": shared}
    assert kind == _kind(row, 3)
