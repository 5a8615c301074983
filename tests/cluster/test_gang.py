"""Gangs on a real cluster: all or none, every wait bounded, every fault named, nothing left behind."""

from __future__ import annotations

import threading
import uuid
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pytest
from clusters import Gate, admin, api_of, kubeconfig, namespace, profile, until

from ep_campaign.cluster.config import load_place
from snakemake_executor_plugin_gang import read_template
from snakemake_executor_plugin_gang.gang import Bounds, Gangs
from snakemake_executor_plugin_gang.objects import GANG_LABEL
from snakemake_executor_plugin_gang.request import Code, GangRequest, GangResult

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kubernetes import client

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

SHORT = Bounds(schedule_s=20, start_s=60, delete_s=60, node_s=60)
MEET = """
import os, socket, time
host, index = os.environ["GANG_HOST"], int(os.environ["GANG_INDEX"])
if index == 0:
    with socket.create_server(("", 29500)) as server:
        peer, _ = server.accept()
        print("met", peer.recv(99).decode(), "on", os.environ["GANG_NODE"])
else:
    for _ in range(300):
        try:
            with socket.create_connection((host, 29500), timeout=1) as there:
                there.sendall(f"pod {index} of {os.environ['GANG_SIZE']}".encode())
            break
        except OSError:
            time.sleep(0.1)
"""


@pytest.fixture(scope="module")
def everything() -> client.ApiClient:
    """A client with every right."""
    return admin(kubeconfig())


@pytest.fixture
def space(everything: client.ApiClient) -> Iterator[str]:
    """A namespace of its own."""
    with namespace(everything) as name:
        yield name


class Place:
    """Gangs of one namespace, and what was told of them."""

    def __init__(self, path: Path, space: str, bound_s: float = 20, bounds: Bounds = SHORT, **template: Any) -> None:
        self.told: list[str] = []
        self.api = api_of(path, space, bound_s)
        self.config = load_place(profile() / "place.yaml")
        self.template = {**read_template(profile() / "pod.yaml"), **template}
        self.gangs = Gangs(self.api, self.template, bounds, self.told.append)

    def request(self, program: str, **fields: Any) -> GangRequest:
        """A gang of one pod that runs a program, whose second container says `collected`."""
        given: dict[str, Any] = {
            "name": f"test-{uuid.uuid4().hex[:8]}",
            "num_pods": 1,
            "image": self.config.default_image,
            "ranks_command": (self.config.python, "-c", program),
            "collect_command": (self.config.python, "-c", "print('collected')"),
            "files": {"note.txt": b"hello"},
            "run_bound_s": 60.0,
        }
        return GangRequest(**(given | fields))

    def run(self, request: GangRequest) -> GangResult:
        """Runs it to its end."""
        return self.gangs.run(request, threading.Event())

    def left(self, name: str) -> list[str]:
        """Objects of a gang that the API server still knows."""
        core, batch = self.api.core, self.api.batch
        lists = (
            core.list_namespaced_pod,
            batch.list_namespaced_job,
            core.list_namespaced_service,
            core.list_namespaced_config_map,
        )
        selector = f"{GANG_LABEL}={name}"
        found = [
            self.api.json("list", lambda one=one, **raw: one(self.api.namespace, label_selector=selector, **raw))
            for one in lists
        ]
        return [item["metadata"]["name"] for listing in found for item in listing["items"]]

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Pods of a gang."""
        core, selector = self.api.core, f"{GANG_LABEL}={name}"
        listing = self.api.json(
            "pods", lambda **raw: core.list_namespaced_pod(self.api.namespace, label_selector=selector, **raw)
        )
        return list(listing["items"])

    def running(self, name: str) -> bool:
        """Whether all containers of a gang's first pod run."""
        states = [entry["state"] for pod in self.pods(name) for entry in pod["status"].get("containerStatuses", [])]
        return len(states) > 1 and any("running" in state for state in states)


@pytest.fixture
def place(space: str) -> Place:
    """The test cluster."""
    return Place(kubeconfig(), space)


def codes(result: GangResult) -> list[Code]:
    """Why a gang did not end as it should."""
    return [item.code for item in result.failures]


def begin(place: Place, request: GangRequest, stop: threading.Event | None = None) -> tuple[threading.Thread, list]:
    """Runs a gang in a thread, as the executor does; returns once its pods run."""
    results: list[GangResult] = []
    thread = threading.Thread(target=lambda: results.append(place.gangs.run(request, stop or threading.Event())))
    thread.start()
    return thread, results


def test_pods_find_one_another_and_all_of_it_goes_away(place: Place) -> None:
    """Two pods meet by name; both logs of both come back with node, image and exit status; every UID is proved gone."""
    request = place.request(MEET, num_pods=2)
    result = place.run(request)

    assert [] == codes(result)
    assert [(0, 0), (1, 0)] == [(pod.index, pod.exit_code) for pod in result.pods]
    assert f"met pod 1 of 2 on {result.pods[0].node}" == result.pods[0].ranks_log.strip()
    assert {"collected"} == {pod.collect_log.strip() for pod in result.pods}
    assert all(pod.node and "sha256:" in pod.image_id for pod in result.pods)
    assert {"Job": 2, "Pod": 2, "Service": 1, "ConfigMap": 1} == {
        kind: sum(item.kind == kind for item in result.objects) for kind in ("Job", "Pod", "Service", "ConfigMap")
    }
    assert all(item.gone for item in result.objects)
    assert [] == place.left(request.name)
    assert ["scheduled", "started", "ended", "gathered", "gone"] == list(result.seconds)


def test_files_are_mounted_also_those_that_need_several_config_maps(place: Place) -> None:
    """Three files of 600 kB: two ConfigMaps more than the owner, one folder in the pod."""
    files = {f"part-{number}": bytes([number]) * 600_000 for number in range(3)}
    program = "import os; print({n: os.path.getsize(f'/gang/files/{n}') for n in sorted(os.listdir('/gang/files')) if n[0] != '.'})"
    result = place.run(place.request(program, files=files))

    assert str(dict.fromkeys(sorted(files), 600000)) == result.pods[0].ranks_log.strip()
    assert 3 == sum(item.kind == "ConfigMap" for item in result.objects)


def test_a_failing_program_is_no_failure_of_the_gang(place: Place) -> None:
    """Its exit status is evidence; what it printed comes back; nothing is tried twice."""
    result = place.run(place.request("print('no', flush=True); raise SystemExit(7)"))

    assert [] == codes(result)
    assert (7, "no", 0) == (result.pods[0].exit_code, result.pods[0].ranks_log.strip(), result.pods[0].restarts)


def test_an_image_that_cannot_be_had_ends_within_its_bound(space: str) -> None:
    """The kubelet's own words, after the bound on starting, and no pod left."""
    place = Place(kubeconfig(), space, bounds=Bounds(schedule_s=20, start_s=4, delete_s=60, node_s=60))
    request = place.request("pass", image=f"registry.invalid/none@sha256:{'0' * 64}")
    result = place.run(request)

    assert [Code.IMAGE] == codes(result)
    assert "Pull" in result.failures[0].text
    assert [] == place.left(request.name)


def test_no_node_is_all_or_none(space: str) -> None:
    """One of two pods fits nowhere: within the bound both are gone, with the scheduler's words."""
    place = Place(kubeconfig(), space, bounds=Bounds(schedule_s=4, start_s=60, delete_s=60, node_s=60))
    request = place.request("pass", num_pods=2, nodes=("no-such-node",))
    result = place.run(request)

    assert [Code.UNSCHEDULABLE] == codes(result)
    assert "Unschedulable" in result.failures[0].text
    assert "scheduled" not in result.seconds
    assert [] == place.left(request.name)


def test_out_of_memory_is_named_and_what_was_written_survives(space: str) -> None:
    """The kernel kills the first container; the second still prints what it left."""
    place = Place(kubeconfig(), space)
    template = deepcopy(place.template)
    container = template["spec"]["containers"][0]
    container["resources"] = {"requests": {"memory": "64Mi", "cpu": "100m"}, "limits": {"memory": "64Mi"}}
    place.gangs = Gangs(place.api, template, SHORT, place.told.append)
    program = "open('/gang/out/x', 'w').write('kept'); b = bytearray(1 << 30); b[::4096] = b'x' * len(b[::4096])"
    wait = "import time, pathlib; time.sleep(3); print(pathlib.Path('/gang/out/x').read_text())"
    result = place.run(place.request(program, collect_command=(place.config.python, "-c", wait)))

    assert [Code.OUT_OF_MEMORY] == codes(result)
    assert "kept" == result.pods[0].collect_log.strip()


def test_a_run_has_an_end(place: Place) -> None:
    """Pods that sleep on are ended at the bound on the run; what they had printed comes back."""
    request = place.request("import time; print('up', flush=True); time.sleep(600)", run_bound_s=4.0)
    result = place.run(request)

    assert [Code.RUN_BOUND] == codes(result)
    assert "up" == result.pods[0].ranks_log.strip()
    assert [] == place.left(request.name)


def test_a_pod_that_somebody_deletes_is_told(place: Place) -> None:
    """No hang, no second try: the gang fails with what happened."""
    request = place.request("import time; time.sleep(600)")
    thread, results = begin(place, request)
    until(lambda: place.running(request.name), "a running pod", 40)
    place.api.core.delete_namespaced_pod(
        place.pods(request.name)[0]["metadata"]["name"], place.api.namespace, _preload_content=False
    )
    thread.join(60)

    assert [Code.POD_DELETED] == codes(results[0])
    assert [] == place.left(request.name)


def test_ctrl_c_leaves_nothing(place: Place) -> None:
    """A stop while pods run: the gang is removed before its job ends."""
    request, stop = place.request("import time; time.sleep(600)"), threading.Event()
    thread, results = begin(place, request, stop)
    until(lambda: place.running(request.name), "a running pod", 40)
    stop.set()
    thread.join(60)

    assert [Code.CANCELLED] == codes(results[0])
    assert [] == place.left(request.name)


def test_a_refused_object_says_what_the_server_says(space: str) -> None:
    """More requested than the limit: one failure with the server's sentence, nothing left."""
    place = Place(kubeconfig(), space)
    template = deepcopy(place.template)
    template["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    place.gangs = Gangs(place.api, template, SHORT, place.told.append)
    request = place.request("pass")
    result = place.run(request)

    assert [Code.REFUSED] == codes(result)
    assert "422" in result.failures[0].text
    assert "cpu limit" in result.failures[0].text
    assert [] == place.left(request.name)


def test_an_api_server_that_is_away_for_a_while_changes_nothing(space: str, tmp_path: Path) -> None:
    """Six seconds without an answer in the middle of a run: the same result, and a word about the waiting only if it is long."""
    gate = Gate(kubeconfig(), tmp_path)
    place = Place(gate.kubeconfig, space)
    request = place.request("import time; time.sleep(8); print('done')")
    thread, results = begin(place, request)
    direct = Place(kubeconfig(), space)
    until(lambda: direct.running(request.name), "a running pod", 40)
    gate.shut()
    threading.Timer(6, gate.open).start()
    thread.join(90)
    gate.close()

    assert [] == codes(results[0])
    assert "done" == results[0].pods[0].ranks_log.strip()


def test_a_gang_outlives_its_controller_and_is_taken_over(space: str, tmp_path: Path) -> None:
    """The server stays away beyond the bound: the gang is left alone; the same request later finds it, and repeats nothing."""
    gate = Gate(kubeconfig(), tmp_path)
    place, direct = Place(gate.kubeconfig, space, bound_s=3), Place(kubeconfig(), space)
    request = place.request("import time; time.sleep(4); print('once', time.time())")
    thread, results = begin(place, request)
    until(lambda: direct.running(request.name), "a running pod", 40)
    gate.shut()
    thread.join(60)
    gate.close()
    assert [Code.API_UNREACHABLE] == codes(results[0])
    (before,) = {pod["metadata"]["uid"] for pod in direct.pods(request.name)}

    assert direct.gangs.exists(request.name, threading.Event())
    result = direct.run(request)

    assert [] == codes(result)
    assert before == result.pods[0].uid
    assert result.pods[0].ranks_log.startswith("once")
    assert [] == direct.left(request.name)
