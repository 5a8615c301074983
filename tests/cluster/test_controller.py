"""A controller that is killed before, during and after a gang: what ran is harvested and not repeated, what broke is redone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from clusters import admin, api_of, kubeconfig, namespace, place, pod_template, until
from kubernetes import client
from plans import make_plan

from ep_campaign.attempt import utc_now
from ep_campaign.cluster.driver import CampaignDriver
from ep_campaign.cluster.request import gang_name, labels
from ep_campaign.custody.lease import view
from ep_campaign.custody.server import Server
from ep_campaign.journal import append_begin
from ep_campaign.layout import Results
from ep_worker.contract.canonical import pretty_json, write_atomically
from snakemake_executor_plugin_gang.driver import GangJob
from snakemake_executor_plugin_gang.gang import Bounds, Gangs
from snakemake_executor_plugin_gang.request import GangRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.plan import Plan

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]

LEASE = "ep-campaign-test"
DRIVE = """
import sys, threading
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from cluster.test_controller import drive
drive(Path(sys.argv[2]), sys.argv[3], sys.argv[4])
"""


def drive(folder: Path, space: str, outcome: str) -> None:
    """Measures one start, as the executor has it done."""
    api = api_of(kubeconfig(), space, bound_s=60)
    gangs = Gangs(api, pod_template(), Bounds(30, 60, 60, 20), lambda text: print(text, flush=True))
    driver = CampaignDriver(gangs, folder / "place.yaml", lambda text: print(text, flush=True))
    try:
        driver.run(GangJob("measure", {}, (outcome,), None), threading.Event())
    finally:
        driver.close()


@pytest.fixture
def space() -> Iterator[str]:
    """A namespace of its own."""
    with namespace(admin(kubeconfig())) as name:
        yield name


class Bench:
    """A planned and admitted campaign of two pods a start, and its first start."""

    def __init__(self, folder: Path, space: str) -> None:
        self.folder, self.space = folder, space
        limits = {"start_timeout_s": 60, "rendezvous_timeout_s": 30, "collective_timeout_s": 30}
        ep_sizes = [{"ranks": 2, "rounds": 3, "scored": False, "ranks_per_pod": 1}]
        self.plan: Plan = make_plan(folder, ep_sizes=ep_sizes, limits=limits)
        self.results, self.start = Results(folder / "results" / "tiny"), self.plan.starts[0]
        self.results.admission(2).parent.mkdir(parents=True)
        write_atomically(self.results.plan, self.plan.text())
        arms = {arm: {"status": "ok", "reason": "", "reason_code": ""} for arm in self.plan.arms}
        write_atomically(self.results.admission(2), pretty_json({"arms": arms}))
        here = json.loads(place().model_dump_json(by_alias=True))
        here |= {"one_pod_a_node": False, "nodes": [], "custody": {"lease": {"name": LEASE, "duration_s": 60}}}
        (folder / "place.yaml").write_text(yaml.safe_dump(here))
        self.outcome = str(self.results.outcome(self.start.id, 1))
        self.gang = gang_name(self.plan.spec(self.start), 1)

    def begin(self) -> subprocess.Popen[bytes]:
        """A controller that measures the start."""
        tests = str(Path(__file__).resolve().parents[1])
        command = [sys.executable, "-c", DRIVE, tests, str(self.folder), self.space, self.outcome]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL)

    def again(self) -> dict[str, Any]:
        """The same command again, to its end; the outcome."""
        drive(self.folder, self.space, self.outcome)
        return dict(json.loads(Path(self.outcome).read_text()))

    def pods(self) -> list[Any]:
        """The pods of the first attempt."""
        core = client.CoreV1Api(admin(kubeconfig()))
        return list(core.list_namespaced_pod(self.space, label_selector=f"gang={self.gang}").items)

    def record(self, attempt: int) -> dict[str, Any]:
        """The record of an attempt."""
        return dict(json.loads((self.results.attempt(self.start.id, attempt) / "start.json").read_text()))

    def left(self) -> list[str]:
        """Gangs of the campaign that are still there."""
        gangs = Gangs(api_of(kubeconfig(), self.space), {}, Bounds(), print)
        return gangs.names(labels(self.plan.name, self.plan.digest), threading.Event())


@pytest.fixture
def bench(tmp_path: Path, space: str) -> Bench:
    """A campaign of its own for each test."""
    return Bench(tmp_path, space)


def uids(bench: Bench) -> set[str]:
    return {pod.metadata.uid for pod in bench.pods()}


@pytest.mark.parametrize("phase", ["Running", "Succeeded"], ids=["during", "after"])
def test_a_gang_whose_controller_was_killed_is_harvested(bench: Bench, phase: str) -> None:
    """Whether it still runs or has ended while nobody watched: the same pods give the record, and nothing is repeated."""
    with bench.begin() as controller:
        until(lambda: len(bench.pods()) == 2, "the gang to be made", 60)
        if phase == "Running":
            until(lambda: {pod.status.phase for pod in bench.pods()} == {"Running"}, "its pods to run", 60)
        controller.send_signal(signal.SIGKILL)
    before = uids(bench)
    if phase == "Succeeded":
        until(lambda: {pod.status.phase for pod in bench.pods()} == {"Succeeded"}, "its pods to end unwatched", 90)

    outcome = bench.again()

    assert [(item["attempt"], item["status"]) for item in outcome["attempts"]] == [(1, "ok")]
    gang = bench.record(1)["launcher"]["gang"]
    assert {pod["uid"] for pod in gang["pods"]} == before
    assert gang["teardown"]["status"] == "proved"
    assert bench.left() == []
    assert view(Server(api_of(kubeconfig(), bench.space)).lease(LEASE).read() or {}).holder == ""


def test_a_controller_that_was_killed_before_its_gang_was_made(bench: Bench) -> None:
    """An attempt that began and has no gang is interrupted; the slot tries again, and both attempts are on record."""
    spec, folder = bench.plan.spec(bench.start), bench.results.attempt(bench.start.id, 1)
    folder.mkdir(parents=True)
    write_atomically(folder / "spec.json", pretty_json(spec.as_json()))
    entry = {"start": spec.start, "attempt": 1, "round": 1, "kind": "scored", "ep_size": 2}
    append_begin(bench.results, {**entry, "at_utc": utc_now()})

    outcome = bench.again()

    found = [(item["attempt"], item["status"], item["reason_code"]) for item in outcome["attempts"]]
    assert found == [(1, "crashed", "interrupted"), (2, "ok", "")]
    assert bench.left() == []


def test_what_a_dead_controller_left_behind_is_swept(bench: Bench) -> None:
    """A gang of this plan that no open attempt can harvest is removed before anything else runs; another plan's is left."""
    api = api_of(kubeconfig(), bench.space)
    command = (place().python, "-c", "import time; time.sleep(600)")
    image = place().default_image or ""
    core, batch = api.core, api.batch

    def make(name: str, digest: str) -> None:
        request = GangRequest(name, 1, image, command, command, {}, 60, labels=labels(bench.plan.name, digest))
        gangs = Gangs(api, pod_template(), Bounds(30, 60, 60, 20), print)
        threading.Thread(target=gangs.run, args=(request, threading.Event()), daemon=True).start()
        until(lambda: batch.list_namespaced_job(bench.space, label_selector=f"gang={name}").items, f"gang {name}")

    make("leftover", bench.plan.digest)
    make("of-another-plan", "0" * 64)

    outcome = bench.again()

    assert outcome["status"] == "ok"
    assert bench.left() == []
    assert core.read_namespaced_config_map("of-another-plan", bench.space).metadata.name == "of-another-plan"
