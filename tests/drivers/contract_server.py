"""A server that replays what vLLM and the GPUStack operator are documented to do in a resize, stage by stage, drift included.

A test says which stage it is; nothing here waits for a clock. One port serves the engine's endpoint and the Kubernetes API
(as `kubectl proxy` would). Sources: vLLM 0.32 (`vllm/entrypoints/serve/elastic_ep`), gpustack-operator documentation of the
elastic profile and of `ModelDeployment`.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from enum import Enum, IntEnum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE, NAME, ROLE, MODEL = "bench", "elastic", "server", "deepseek"
UID = "6f0c0f5e-0000-4000-8000-000000000001"
DEPLOYMENT = f"/apis/worker.gpustack.ai/v1/namespaces/{NAMESPACE}/modeldeployments/{NAME}"
NCCL_LINES = """\
main:71:71 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.4<0>
main:71:71 [0] NCCL INFO Using network IB
main:71:90 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[0] [send] via NET/IB/0/GDRDMA
main:71:90 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
"""


class Stage(IntEnum):
    """How far a resize is."""

    SERVING = auto()
    ACCEPTED = auto()
    ADMITTED = auto()
    ALLOCATED = auto()
    JOINED = auto()
    COMMITTING = auto()
    AGREED = auto()
    SETTLED = auto()


class Drift(Enum):
    """What is not as documented, or goes wrong."""

    NONE = auto()
    RENAMED_LAYER = auto()
    MISSING_STABLE_WIDTH = auto()
    NO_KEY = auto()
    TWO_OBSERVATIONS = auto()
    SCALE_REFUSED = auto()
    ABANDONED = auto()
    WORLD_UNPROVABLE = auto()
    MASTER_REPLACED = auto()
    WORKER_RESTARTED = auto()
    DEPLOYMENT_REPLACED = auto()
    FLAG_COVERS_CALL = auto()
    NO_FLAG = auto()
    RANK_FAILS = auto()
    SCALE_FAILS = auto()
    ANSWER_LOST = auto()
    FINALIZER_STUCK = auto()
    NO_LEDGER = auto()


class Contract:
    """What the server is, and what it was asked."""

    def __init__(self, drift: Drift = Drift.NONE) -> None:
        self.drift = drift
        self.stage = Stage.SERVING
        self.old_width = self.new_width = 2
        self.generation = 1
        self.exists = True
        self.patches: list[Any] = []
        self.created: list[Any] = []
        self.log: list[str] = []
        self.port = 0
        self._moved = threading.Condition()

    def reach(self, stage: Stage) -> None:
        """Goes on to a stage."""
        with self._moved:
            self.stage = stage
            self._moved.notify_all()

    def wait_for(self, stage: Stage) -> None:
        """Waits until a stage is reached."""
        with self._moved:
            assert self._moved.wait_for(lambda: self.stage >= stage, 20)

    def ask(self, width: int) -> None:
        """A resize begins."""
        self.old_width, self.new_width = self.width, width
        self.generation += 1
        self.reach(Stage.ACCEPTED)

    @property
    def width(self) -> int:
        """Ranks that serve."""
        return self.new_width if self.stage >= Stage.AGREED else self.old_width

    @property
    def uid(self) -> str:
        """Identity of the deployment."""
        return UID + "x" if self.drift is Drift.DEPLOYMENT_REPLACED and self.stage >= Stage.ADMITTED else UID

    def layer_value(self, stage: Stage) -> int:
        """A layer's width: the new one from a stage on."""
        return self.new_width if self.stage >= stage else self.old_width

    def observation(self) -> dict[str, Any]:
        """The document, as the operator writes it."""
        known = self.stage in (Stage.SERVING, Stage.ACCEPTED, Stage.AGREED, Stage.SETTLED)
        document = {
            "deploymentUID": self.uid,
            "observedGeneration": self.generation - (self.stage is Stage.ACCEPTED),
            "desired": _layer(self.layer_value(Stage.ADMITTED)),
            "admitted": _layer(self.layer_value(Stage.ADMITTED)),
            "allocated": _layer(self.layer_value(Stage.ALLOCATED)),
            "ray": _layer(self.layer_value(Stage.JOINED)),
            "effective": _layer(self.width) if known else {"Known": False, "Value": 0, "Reason": "resize in flight"},
            "state": self.state(),
            "reason": "native ranks and forwards agree" if self.stage is Stage.SETTLED else "",
            "stableWidth": self.width,
            "masterUID": "pod-0",
        }
        if self.drift is Drift.RENAMED_LAYER:
            document["current_width"] = document.pop("effective")
        if self.drift is Drift.MISSING_STABLE_WIDTH:
            del document["stableWidth"]
        return document

    def state(self) -> str:
        """The operator's word for the operation; empty where there is none."""
        if self.drift is Drift.ABANDONED and self.stage >= Stage.JOINED:
            return "Abandoned"
        words = {Stage.JOINED: "CommandSent", Stage.COMMITTING: "AwaitingWidth", Stage.AGREED: "Completed"}
        return words.get(self.stage, "Recorded" if Stage.ADMITTED <= self.stage < Stage.SETTLED else "")

    def config_maps(self) -> list[dict[str, Any]]:
        """Observations; one of a deployment that is none of ours lies beside."""
        key = "observation.v2" if self.drift is Drift.NO_KEY else "observation.json"
        own = _config_map(self.uid, {key: json.dumps(self.observation())})
        foreign = _config_map("another", {"observation.json": "{}"})
        return [foreign, own, own] if self.drift is Drift.TWO_OBSERVATIONS else [foreign, own]

    def pods(self) -> list[dict[str, Any]]:
        """The Ray head and one pod for each rank."""
        if not self.exists and self.drift is not Drift.FINALIZER_STUCK:
            return []
        moved = self.stage >= Stage.ALLOCATED
        count = max(self.old_width, self.new_width) if moved and self.stage < Stage.AGREED else self.width
        restarts = int(self.drift is Drift.WORKER_RESTARTED and moved)
        made = [_pod(f"{NAME}-elastic-head-0", "head", (f"{NAME}-elastic-head", 0), 0)]
        made.append(_pod(f"{NAME}-router-{self.stage}", f"router-{self.stage}", ("router", 0), 0, owner="a ReplicaSet"))
        for ordinal in range(count):
            replaced = self.drift is Drift.MASTER_REPLACED and moved and ordinal == 0
            uid = f"pod-{ordinal}{'-again' * replaced}"
            made.append(_pod(f"{NAME}-{ordinal}", uid, (ROLE, ordinal), restarts * (ordinal == 1)))
        made[-count]["metadata"]["annotations"] = (
            {"modeldeployment.gpustack.ai/elastic-withdrawn": "true"} if self.stage is Stage.COMMITTING else {}
        )
        return made

    def deployment(self) -> dict[str, Any]:
        """The object; its phase stays Ready until the commit, and its role says the same throughout."""
        elastic = ("True", "NoRefusal")
        if self.stage >= Stage.ADMITTED and self.drift is Drift.SCALE_REFUSED:
            elastic = ("False", "ScaleRefused")
        if self.stage >= Stage.ADMITTED and self.drift is Drift.WORLD_UNPROVABLE:
            elastic = ("Unknown", "WorldUnprovable")
        conditions = {"ElasticResize": elastic, "ReplicasUpToDate": ("Unknown", "RolloutNotObserved")}
        return {
            "metadata": {"name": NAME, "uid": self.uid, "generation": self.generation},
            "spec": {"roles": [{"name": ROLE, "kind": "Server", "elasticEp": {"width": self.new_width}}]},
            "status": {
                "phase": "Starting" if self.stage is Stage.COMMITTING else "Ready",
                "conditions": [
                    {"type": kind, "status": status, "reason": reason, "lastTransitionTime": "2026-08-01T08:16:11Z"}
                    for kind, (status, reason) in conditions.items()
                ],
            },
        }

    def devices(self) -> list[dict[str, Any]]:
        """The ledger: eight whole cards, two of which each pod of the role claims while it is there."""
        claimed = 2 * sum(pod["metadata"]["name"].removeprefix(f"{NAME}-").isdigit() for pod in self.pods())
        cards = [{"id": str(index), "remaining": 0 if index < claimed else 1600000} for index in range(8)]
        return [{"metadata": {"name": "node-1"}, "status": {"groups": [{"id": "h100", "accelerators": cards}]}}]

    def is_scaling(self) -> bool:
        """Whether the middleware answers 503: during the commit; in older routers, during the whole call."""
        first = Stage.ACCEPTED if self.drift is Drift.FLAG_COVERS_CALL else Stage.COMMITTING
        return first <= self.stage <= Stage.COMMITTING

    def patch(self, patch: list[dict[str, Any]]) -> tuple[int, Any]:
        """As the API server and the operator's webhook answer a patch."""
        self.patches.append(patch)
        test, replace = patch
        if test["value"] != self.new_width:
            return 422, {"message": "the server rejected our request due to an error in our request"}
        if replace["value"] < self.new_width:
            return 403, {
                "message": "admission webhook denied the request: spec.roles[0].elasticEp.width: may not decrease"
            }
        self.ask(replace["value"])
        return 200, self.deployment()


def _layer(value: int) -> dict[str, Any]:
    return {"Known": True, "Value": value, "Reason": ""}


def _config_map(uid: str, data: dict[str, str]) -> dict[str, Any]:
    owner = {"apiVersion": "worker.gpustack.ai/v1alpha1", "kind": "ModelDeployment", "uid": uid}
    return {"metadata": {"name": f"elastic-observation-{uid}", "ownerReferences": [owner]}, "data": data}


def _pod(name: str, uid: str, place: tuple[str, int], restarts: int, owner: str = UID) -> dict[str, Any]:
    """A pod; its place is its component and its ordinal there, which the Ray head has, too."""
    labels = {
        "app.kubernetes.io/component": place[0],
        "modeldeployment.gpustack.ai/pod-ordinal": str(place[1]),
    }
    container = {"name": "main", "containerID": f"containerd://{uid}", "restartCount": restarts}
    status = {"phase": "Running", "containerStatuses": [{**container, "image": "runner", "imageID": "runner@sha256:1"}]}
    metadata = {"name": name, "uid": uid, "labels": labels, "ownerReferences": [{"uid": owner}]}
    return {"metadata": metadata, "spec": {"nodeName": "node-1"}, "status": status}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    contract: Contract

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        contract, query = self.contract, parse_qs(parts.query)
        pods, maps = f"/api/v1/namespaces/{NAMESPACE}/pods", f"/api/v1/namespaces/{NAMESPACE}/configmaps"
        if parts.path == DEPLOYMENT:
            self._say(*((200, contract.deployment()) if contract.exists else (404, {"reason": "NotFound"})))
        elif parts.path == maps:
            assert ["gpustack.ai/elastic-observation=true"] == query["labelSelector"]
            self._say(200, {"items": contract.config_maps()})
        elif parts.path == pods:
            assert [f"app.kubernetes.io/instance={NAME}"] == query["labelSelector"]
            self._say(200, {"items": contract.pods()})
        elif parts.path == f"{pods}/{NAME}-0/log":
            self._say(200, NCCL_LINES + "\n".join(contract.log))
        elif parts.path == "/apis/worker.gpustack.ai/v1/devices" and contract.drift is not Drift.NO_LEDGER:
            self._say(200, {"items": contract.devices()})
        elif parts.path == "/version":
            self._say(200, {"version": "0.32.0"})
        else:
            self._say(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        body, contract = self._body(), self.contract
        if self.path == DEPLOYMENT.rpartition("/")[0]:
            contract.created.append(body)
            contract.exists = True
            self._say(201, contract.deployment())
        elif contract.is_scaling():
            self._say(503, {"error": "The model is currently scaling. Please try again later."})
        elif self.path == "/v1/completions":
            self._complete(body)
        elif self.path == "/scale_elastic_ep":
            self._scale(body["new_data_parallel_size"])
        elif self.path == "/is_scaling_elastic_ep" and contract.drift is not Drift.NO_FLAG:
            self._say(200, {"is_scaling_elastic_ep": False})
        else:
            self._say(404, {"detail": "Not Found"})

    def do_PATCH(self) -> None:
        assert "application/json-patch+json" == self.headers["content-type"]
        said = self.contract.patch(self._body())
        if self.contract.drift is Drift.ANSWER_LOST:
            self.close_connection = True
            return
        self._say(*said)

    def do_DELETE(self) -> None:
        assert {"uid": UID} == self._body()["preconditions"]
        self.contract.exists = False
        self._say(200, {})

    def _complete(self, body: dict[str, Any]) -> None:
        contract, rank = self.contract, int(self.headers.get("X-data-parallel-rank", "0"))
        if not 0 <= rank < contract.width:
            text = f"data_parallel_rank {rank} is out of range [0, {contract.width})."
            self._say(400, {"error": {"message": text, "type": "BadRequestError", "param": None, "code": 400}})
        elif contract.drift is Drift.RANK_FAILS and rank == 3:
            self._say(500, {"error": {"message": "EngineDeadError", "type": "InternalServerError", "code": 500}})
        elif body.get("stream"):
            self._say(200, 'data: {"choices":[]}\n\ndata: {"choices":[],"usage":{}}\n\ndata: [DONE]\n\n')
        else:
            self._say(200, {"choices": [{"text": "x"}], "usage": {"completion_tokens": 1}})

    def _scale(self, width: int) -> None:
        """Answers when the resize is over."""
        contract = self.contract
        if width > 4:
            self._say(400, {"error": {"message": "new_data_parallel_size is above the maximum"}})
            return
        contract.ask(width)
        contract.wait_for(Stage.AGREED)
        if contract.drift is Drift.SCALE_FAILS:
            self._say(500, {"error": {"message": "Scale failed"}})
        else:
            self._say(200, {"message": f"Scaled to {width} data parallel engines"})

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers.get("content-length", "0"))) or "{}")

    def _say(self, status: int, value: Any) -> None:
        if self.path.startswith("/v1/"):
            self.contract.log.append(f'INFO:     10.0.0.9:1 - "POST {self.path} HTTP/1.1" {status} OK')
        data = value.encode() if isinstance(value, str) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Says nothing: the test's output is its own."""


@contextmanager
def contract_server(drift: Drift = Drift.NONE) -> Iterator[Contract]:
    """A running server."""
    contract = Contract(drift)
    handler = type("Handler", (_Handler,), {"contract": contract})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    contract.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield contract
    finally:
        contract.reach(Stage.SETTLED)
        server.shutdown()
        thread.join()
        server.server_close()
