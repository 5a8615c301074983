"""The GPUStack driver and the rule of convergence, against the documented contract and against what drifts from it."""

from __future__ import annotations

import pytest
from drivers.contract_server import MODEL, NAME, NAMESPACE, Contract, Drift, Stage, contract_server

from ep_campaign.drivers.cluster import Cluster
from ep_campaign.drivers.convergence import Convergence, Look, Rule, Verdict, baseline
from ep_campaign.drivers.driver import Endpoint, Evidence, ResizeState
from ep_campaign.drivers.gpustack import GpustackDriver, GpustackOptions
from ep_campaign.drivers.probe import probe, serves
from ep_campaign.errors import CampaignError

MANIFEST = {"spec": {"engine": {"name": "vLLM"}, "roles": [{"elasticEp": {"width": 64, "headInstanceType": "cpu"}}]}}


def make_driver(contract: Contract, **options: object) -> GpustackDriver:
    """A driver of the contract's deployment."""
    cluster = Cluster(port=contract.port, timeout_s=5.0)
    endpoint = Endpoint("127.0.0.1", contract.port, MODEL)
    fields = {"start_timeout_s": 0.0, "stop_timeout_s": 0.0, **options}
    return GpustackDriver(GpustackOptions(cluster, NAMESPACE, NAME, endpoint, **fields))


class Resized:
    """A resize from 2 to 4 that was asked for."""

    def __init__(self, contract: Contract) -> None:
        self.contract, self.driver = contract, make_driver(contract)
        self._endpoint = self.driver.start(2)
        before = baseline(self.driver.evidence, self._look(), 2, "test")
        self.driver.resize(2, 4)
        self.follow = Convergence(self.driver.evidence, before, 2, 4)

    def look_at(self, stage: Stage) -> Verdict:
        """One look once a stage is reached."""
        self.contract.reach(stage)
        resize = self.driver.resized()
        assert resize is not None
        return self.follow.note(self._look(), resize)

    def end(self) -> tuple[Verdict, str]:
        """The verdict once everything has had its time."""
        for stage in Stage:
            if stage > Stage.ACCEPTED and self.look_at(stage) is not Verdict.PENDING:
                break
        self.look_at(Stage.SETTLED)
        return self.follow.verdict, self.follow.reason

    def _look(self) -> Look:
        return Look(self.driver.snapshot(), probe(self._endpoint, 5.0))


class TestConvergence:
    """A resize has happened when every rule held twice in a row, and not before."""

    def test_every_stage_before_the_proof_is_pending(self) -> None:
        """A phase of Ready, registered workers, and `is_scaling == false` each come before the width does."""
        with contract_server() as contract:
            resized = Resized(contract)
            stages = [Stage.ACCEPTED, Stage.ADMITTED, Stage.ALLOCATED, Stage.JOINED, Stage.COMMITTING, Stage.AGREED]
            assert [Verdict.PENDING] * 6 == [resized.look_at(stage) for stage in stages]
            assert Verdict.CONVERGED == resized.look_at(Stage.SETTLED)
        held, seen = resized.follow.first_held_ns, resized.follow.first_seen_ns
        assert set(held) == set(Rule)
        assert seen["phase=Ready"] < seen["admitted=4"] < seen["allocated=4"] < seen["ray=4"] < seen["phase=Starting"]
        assert seen["phase=Starting"] < seen["effective=4"] < held[Rule.LAYERS]
        assert held[Rule.NOT_SCALING] < held[Rule.MEMBER_COUNT] < held[Rule.RANK_BOUND] == held[Rule.STABLE_WIDTH]

    def test_one_good_look_is_not_two(self) -> None:
        """A rule that fails between two good looks starts the count again."""
        with contract_server() as contract:
            resized = Resized(contract)
            looks = [Stage.AGREED, Stage.COMMITTING, Stage.AGREED]
            assert [Verdict.PENDING] * 3 == [resized.look_at(stage) for stage in looks]
            assert Verdict.CONVERGED == resized.look_at(Stage.AGREED)

    @pytest.mark.parametrize(
        ("drift", "verdict", "says"),
        [
            (Drift.SCALE_REFUSED, Verdict.REFUSED, "False/ScaleRefused"),
            (Drift.ABANDONED, Verdict.REFUSED, "Abandoned: "),
            (Drift.WORLD_UNPROVABLE, Verdict.UNPROVABLE, "Unknown/WorldUnprovable"),
            (Drift.MASTER_REPLACED, Verdict.LOST, "elastic-0"),
            (Drift.DEPLOYMENT_REPLACED, Verdict.LOST, "became 6f0c0f5e"),
            (Drift.WORKER_RESTARTED, Verdict.PENDING, "no_restarts not yet"),
            (Drift.RANK_FAILS, Verdict.PENDING, "rank_forwards not yet"),
        ],
    )
    def test_what_must_not_pass_for_convergence(self, drift: Drift, verdict: Verdict, says: str) -> None:
        """Refusals, replaced or restarted members and a silent rank end or withhold it, with the reason."""
        with contract_server(drift) as contract:
            found, reason = Resized(contract).end()

        assert verdict == found
        assert says in reason

    def test_a_document_that_changes_its_language_midway(self) -> None:
        """A field that is renamed during a resize ends the wait at once: no wait would bring it back."""
        with contract_server() as contract:
            resized = Resized(contract)
            contract.drift = Drift.RENAMED_LAYER
            assert Verdict.DRIFTED == resized.look_at(Stage.ADMITTED)
        assert "effective: Field required [observation_drift]" in resized.follow.reason
        assert "current_width" in resized.follow.reason

    @pytest.mark.parametrize("drift", [Drift.RENAMED_LAYER, Drift.MISSING_STABLE_WIDTH, Drift.NO_KEY])
    def test_a_document_that_never_spoke_it(self, drift: Drift) -> None:
        """A target whose document cannot be read is refused before anything is asked of it."""
        with contract_server(drift) as contract, pytest.raises(CampaignError) as caught:
            make_driver(contract).start(2)
        assert ("observation_drift",) == caught.value.codes

    def test_two_documents_are_none(self) -> None:
        """Where two documents claim to be about one deployment, neither is believed."""
        with contract_server(Drift.TWO_OBSERVATIONS) as contract:
            driver = make_driver(contract)
            seen = driver.snapshot()
            with pytest.raises(CampaignError, match="found 2 observations"):
                driver.start(2)
        assert seen.observation is None
        assert 2 == seen.num_observations

    def test_a_baseline_that_cannot_be_read(self) -> None:
        """What the end will be proved by must be readable at the beginning."""
        with contract_server(Drift.NO_FLAG) as contract, pytest.raises(CampaignError) as caught:
            Resized(contract)
        assert ("baseline_unproved",) == caught.value.codes
        assert "not_scaling cannot be read; POST /is_scaling_elastic_ep: status 404" in str(caught.value)


class TestResize:
    """A width is asked for once, by a patch that holds only where the old width still stands."""

    def test_the_patch(self) -> None:
        """The patch tests the old width before it replaces it, and its answer gives the generation to wait for."""
        with contract_server() as contract:
            driver = make_driver(contract)
            driver.resize(2, 4)
            resize = driver.resized()
        path = "/spec/roles/0/elasticEp/width"
        expected = [{"op": "test", "path": path, "value": 2}, {"op": "replace", "path": path, "value": 4}]
        assert [expected] == contract.patches
        assert resize is not None
        assert (ResizeState.ACCEPTED, 200, 2) == (resize.state, resize.status, resize.generation)

    @pytest.mark.parametrize(("old", "new", "says"), [(3, 4, "rejected our request"), (2, 1, "may not decrease")])
    def test_refused_patches(self, old: int, new: int, says: str) -> None:
        """A width that somebody else has changed, and a smaller one, are refusals with the API's own words."""
        with contract_server() as contract:
            driver = make_driver(contract)
            driver.resize(old, new)
            resize = driver.resized()
        assert resize is not None
        assert ResizeState.REFUSED == resize.state
        assert says in resize.message

    def test_a_lost_answer_is_never_followed_by_a_second_patch(self) -> None:
        """Whether a patch was taken is unknown where its answer is lost; no other is sent."""
        with contract_server(Drift.ANSWER_LOST) as contract:
            driver = make_driver(contract)
            driver.resize(2, 4)
            resize = driver.resized()
            with pytest.raises(CampaignError, match="not sent again"):
                driver.resize(2, 4)
        assert resize is not None
        assert ResizeState.AMBIGUOUS == resize.state
        assert 1 == len(contract.patches)


class TestStartAndStop:
    """Only the width of a manifest is touched, and only what was created is deleted."""

    def test_what_was_created_is_deleted_and_proved_gone(self) -> None:
        """The manifest goes out as it is but for the width; after the deletion nothing is left."""
        with contract_server() as contract:
            contract.exists = False
            driver = make_driver(contract, manifest=MANIFEST)
            driver.start(2)
            released = driver.stop()
        role = {"elasticEp": {"width": 2, "headInstanceType": "cpu"}}
        assert [{"spec": {"engine": {"name": "vLLM"}, "roles": [role]}}] == contract.created
        assert 64 == MANIFEST["spec"]["roles"][0]["elasticEp"]["width"]
        assert released.proved
        assert not contract.exists

    def test_what_is_left_is_named(self) -> None:
        """Pods and accelerator claims that stay are named, and the teardown is not proved."""
        with contract_server() as contract:
            contract.exists = False
            driver = make_driver(contract, manifest=MANIFEST)
            driver.start(2)
            contract.drift = Drift.FINALIZER_STUCK
            released = driver.stop()
        assert not released.proved
        assert (
            "pod elastic-elastic-head-0",
            "pod elastic-router-1",
            "pod elastic-0",
            "pod elastic-1",
        ) == released.left[:4]
        assert [f"accelerator node-1/h100/{card}: 0 left of 1600000" for card in range(4)] == list(released.left[4:])

    def test_claims_that_nobody_can_read(self) -> None:
        """Without the ledger of accelerators a teardown proves nothing of them, and says so."""
        with contract_server(Drift.NO_LEDGER) as contract:
            contract.exists = False
            driver = make_driver(contract, manifest=MANIFEST)
            driver.start(2)
            released = driver.stop()
        assert not released.proved
        assert ("accelerator claims, unknown: /apis/worker.gpustack.ai/v1/devices cannot be read",) == released.left

    def test_what_was_there_before_stays(self) -> None:
        """A deployment that the driver found is not its to delete."""
        with contract_server() as contract:
            driver = make_driver(contract)
            driver.start(2)
            released = driver.stop()
            assert contract.exists
        assert released.proved
        assert ("ModelDeployment bench/elastic",) == released.not_ours

    @pytest.mark.parametrize(
        ("exists", "width", "code"), [(False, 2, "deployment_missing"), (True, 4, "width_not_found")]
    )
    def test_refusals(self, exists: bool, width: int, code: str) -> None:
        """Without a manifest nothing is created, and a width that is not there is not brought about in passing."""
        with contract_server() as contract:
            contract.exists = exists
            with pytest.raises(CampaignError) as caught:
                make_driver(contract).start(width)
        assert (code,) == caught.value.codes


def test_members_and_provenance() -> None:
    """The Ray head is a member that does not serve; images, nodes and transport come from what the cluster observed."""
    with contract_server() as contract:
        driver = make_driver(contract)
        endpoint = driver.start(2)
        assert serves(endpoint, 5.0) is None
        probed = probe(endpoint, 5.0)
        members = driver.snapshot().members
        provenance, counted, proof = driver.provenance(), driver.server_log(), driver.transport()

    assert frozenset(Evidence) == driver.evidence
    assert [("elastic-0", True), ("elastic-1", True), ("elastic-elastic-head-0", False)] == [
        (m.name, m.serves) for m in members
    ]
    assert (400, 200, 200, 400) == probed.calls
    assert {"200": 4, "400": 2} == counted
    expected = {"name": "IB", "gpu_direct": True, "evidence": "networks IB; channels NET/IB, P2P"}
    assert expected == provenance["transport"] == vars(proof)
    assert {"name": "elastic-0", "node": "node-1", "image": "runner", "image_id": "runner@sha256:1"} == provenance[
        "pods"
    ][1]
