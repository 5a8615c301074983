"""The vLLM driver against a server that replays vLLM's elastic endpoints."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from drivers.contract_server import MODEL, NCCL_LINES, Contract, Drift, Stage, contract_server

from ep_campaign.drivers.convergence import Convergence, Look, Rule, Verdict, baseline
from ep_campaign.drivers.driver import Endpoint, Resize, ResizeState
from ep_campaign.drivers.probe import probe
from ep_campaign.drivers.server_log import nccl_transport, transport_proof
from ep_campaign.drivers.vllm import VllmDriver, VllmOptions
from ep_campaign.errors import CampaignError

if TYPE_CHECKING:
    from pathlib import Path


def make_driver(contract: Contract, log: Path | None = None) -> VllmDriver:
    """A driver of the contract's server."""
    return VllmDriver(VllmOptions(Endpoint("127.0.0.1", contract.port, MODEL), log, call_timeout_s=5.0))


def answered(driver: VllmDriver) -> Resize:
    """The scale call once it has its answer."""
    deadline = time.monotonic() + 10
    while (now := driver.resized()) is None or now.state is ResizeState.PENDING:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return now


def look(driver: VllmDriver, contract: Contract) -> Look:
    """One look."""
    return Look(driver.snapshot(), probe(Endpoint("127.0.0.1", contract.port, MODEL), 5.0))


@pytest.mark.parametrize(
    ("drift", "scaling"),
    [(Drift.NONE, [False, False, True, False]), (Drift.FLAG_COVERS_CALL, [True, True, True, False])],
    ids=["0.32", "older"],
)
def test_the_flag_is_read_through_the_503(drift: Drift, scaling: list[bool]) -> None:
    """A 503 with the middleware's words means scaling, and `false` while the new engines are prepared means nothing."""
    with contract_server(drift) as contract:
        driver = make_driver(contract)
        driver.start(2)
        before = baseline(driver.evidence, look(driver, contract), 2, "test")
        follow = Convergence(driver.evidence, before, 2, 4)
        driver.resize(2, 4)
        contract.wait_for(Stage.ACCEPTED)
        found, verdicts = [], []
        for stage in (Stage.ACCEPTED, Stage.JOINED, Stage.COMMITTING, Stage.AGREED):
            contract.reach(stage)
            seen = look(driver, contract)
            found.append(seen.probe.is_scaling)
            verdicts.append(follow.note(seen, driver.resized()))
        assert ResizeState.ACCEPTED == answered(driver).state
        verdicts.append(follow.note(look(driver, contract), answered(driver)))

    assert scaling == found
    assert [*[Verdict.PENDING] * 4, Verdict.CONVERGED] == verdicts
    assert {Rule.RANK_BOUND, Rule.RANK_FORWARDS, Rule.NOT_SCALING} == set(follow.first_held_ns)


def test_a_refused_scale() -> None:
    """A width above the maximum is refused, and the resize ends there."""
    with contract_server() as contract:
        driver = make_driver(contract)
        driver.start(2)
        before = baseline(driver.evidence, look(driver, contract), 2, "test")
        driver.resize(2, 8)
        resize = answered(driver)
        verdict = Convergence(driver.evidence, before, 2, 8).note(look(driver, contract), resize)
    assert (ResizeState.REFUSED, 400) == (resize.state, resize.status)
    assert Verdict.REFUSED == verdict


def test_a_scale_that_fails() -> None:
    """A 500 is a failure, whatever the width is afterwards."""
    with contract_server(Drift.SCALE_FAILS) as contract:
        driver = make_driver(contract)
        driver.resize(2, 4)
        contract.wait_for(Stage.ACCEPTED)
        contract.reach(Stage.AGREED)
        resize = answered(driver)
    assert ResizeState.FAILED == resize.state
    assert "Scale failed" in resize.message


def test_nothing_is_sent_while_a_call_is_out() -> None:
    """A second resize is refused here, without a word to the server."""
    with contract_server() as contract:
        driver = make_driver(contract)
        driver.resize(2, 4)
        contract.wait_for(Stage.ACCEPTED)
        with pytest.raises(CampaignError, match="is pending: it is not sent again"):
            driver.resize(2, 3)
        contract.reach(Stage.SETTLED)
        assert ResizeState.ACCEPTED == answered(driver).state
    assert 2 == contract.generation


def test_a_server_of_another_width() -> None:
    """The width is proved before anything is measured."""
    with contract_server() as contract, pytest.raises(CampaignError, match="found a bound of 2 ranks") as caught:
        make_driver(contract).start(4)
    assert ("width_not_found",) == caught.value.codes


def test_provenance_and_ledger(tmp_path: Path) -> None:
    """Version from the server; transport and completion calls from its log; what is not there is said so."""
    log = tmp_path / "vllm.log"
    with contract_server() as contract:
        driver = make_driver(contract, log)
        driver.start(2)
        log.write_text("\n".join(contract.log))
        without = driver.provenance()
        log.write_text(NCCL_LINES)
        released = driver.stop()
        proof = driver.transport()
        assert make_driver(contract).server_log() is None
    assert {"version": "0.32.0"} == without["version"]
    assert without["transport"]["name"] is None
    assert ("IB", True, "networks IB; channels NET/IB, P2P") == (proof.name, proof.gpu_direct, proof.evidence)
    assert "not_observed: status 404" == without["models"]
    assert released.proved
    assert 1 == len(released.not_ours)


@pytest.mark.parametrize(
    ("text", "networks", "channels", "direct"),
    [
        (
            "x NCCL INFO Using network Socket\nx NCCL INFO Channel 00 : 0 -> 1 via NET/Socket/0",
            ("Socket",),
            ("NET/Socket",),
            False,
        ),
        (
            "x NCCL INFO Channel 00 : 0 -> 1 via P2P/IPC\nx NCCL INFO Channel 01 : 0 -> 1 via SHM/direct",
            (),
            ("P2P", "SHM"),
            None,
        ),
        (
            "x NCCL INFO Channel 0 : 0 -> 1 via NET/IB/0/GDRDMA\nx NCCL INFO Channel 1 : 0 -> 1 via NET/IB/1",
            (),
            ("NET/IB",),
            False,
        ),
    ],
    ids=["sockets", "one node", "one channel without"],
)
def test_nccl_lines(text: str, networks: tuple[str, ...], channels: tuple[str, ...], direct: bool | None) -> None:
    """GPU Direct is claimed only where every network channel has it, and not at all where there is none."""
    found = nccl_transport(text)
    assert found is not None
    assert (networks, channels, direct) == (found.networks, found.channels, found.gpu_direct)


def test_two_networks_prove_neither() -> None:
    """A transport is named only where one network is used."""
    proof = transport_proof("a NCCL INFO Using network IB\nb NCCL INFO Using network Socket")
    assert (None, "networks IB, Socket; channels none") == (proof.name, proof.evidence)
    assert transport_proof(None).name is None


def test_a_log_without_nccl_lines_proves_nothing() -> None:
    """No line is no proof, of anything."""
    assert nccl_transport("INFO: Uvicorn running") is None
