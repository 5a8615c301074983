"""What the eks profile makes of the published B200 campaign, object by object; and that Kubernetes knows every field of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import kubernetes_validate
import pytest
import yaml
from plans import REPOSITORY, SHAPES

from ep_campaign.cluster.config import load_place
from ep_campaign.cluster.request import gang_request
from ep_campaign.expand import load_plan
from snakemake_executor_plugin_gang import read_template
from snakemake_executor_plugin_gang.objects import dependents, owner

if TYPE_CHECKING:
    from pathlib import Path

    from snakemake_executor_plugin_gang.request import GangRequest

GOLDEN = REPOSITORY / "tests" / "data" / "gang-b200-ep16.yaml"
PROFILES = ("eks", "kind")
VERSIONS = ("1.25", "1.30", "1.34", kubernetes_validate.latest_version())
UID = "00000000-0000-0000-0000-000000000001"


def request_of(profile: str, folder: Path, arm: str, kind: str = "decode", **place: Any) -> GangRequest:
    """The gang of an arm's first start of the published EP 16 campaign, at a profile's place."""
    plan = load_plan(REPOSITORY / "config" / "campaigns" / "b200-ep16.yaml", SHAPES)
    start = next(item for item in plan.starts if (item.arm, item.profile) == (arm, kind))
    spec = plan.spec(start)
    (folder / "spec.json").write_text(json.dumps(spec.as_json()), encoding="ascii")
    config = load_place(REPOSITORY / "profiles" / profile / "place.yaml").model_copy(update=place)
    return gang_request(config, folder, spec, 1, plan.document["arms"][arm]["image"])


def objects_of(profile: str, request: GangRequest) -> list[dict[str, Any]]:
    """Everything that is made for a gang, in order."""
    template = read_template(REPOSITORY / "profiles" / profile / "pod.yaml")
    return [owner(request), *dependents(request, template, UID)]


def steady(request: GangRequest) -> GangRequest:
    """The same gang without what changes with every edit of the worker or the plan's format: contents, digests."""
    files = {name: f"({name})".encode("ascii") for name in request.files}
    return replace(request, name="ep-b200-ep16-0", files=files, labels={**request.labels, "ep-campaign/plan": "0"})


class TestB200:
    def test_two_pods_of_eight_gpus_are_rendered_as_reviewed(self, tmp_path: Path) -> None:
        """The objects of a start are exactly the reviewed ones; a change of them is a change of that file."""
        request = steady(request_of("eks", tmp_path, "uccl", nodes=("ip-10-0-0-1", "ip-10-0-0-2")))
        plain = json.loads(json.dumps(objects_of("eks", request)))  # nothing shared, so no YAML anchors
        found = yaml.safe_dump_all(plain, sort_keys=True, width=132)
        (tmp_path / GOLDEN.name).write_text(found, encoding="ascii")

        assert GOLDEN.read_text(encoding="ascii") == found, f"if this is meant: cp {tmp_path / GOLDEN.name} {GOLDEN}"

    @pytest.mark.parametrize("arm", ["deepep-v2", "deepep-v1", "uccl"])
    @pytest.mark.parametrize("kind", ["decode", "prefill"])
    def test_each_arm_runs_in_its_own_image_by_digest(self, tmp_path: Path, arm: str, kind: str) -> None:
        """Both containers of both pods run the arm's pinned image; a whole node's devices go to the ranks alone."""
        request = request_of("eks", tmp_path, arm, kind)
        pods = [item["spec"]["template"]["spec"] for item in objects_of("eks", request) if item["kind"] == "Job"]

        assert len(pods) == 2
        for pod in pods:
            ranks, collect = pod["containers"]
            assert ranks["image"] == collect["image"] == request.image
            assert "@sha256:" in request.image
            devices = {"nvidia.com/gpu": "8", "vpc.amazonaws.com/efa": "8"}
            assert devices.items() <= ranks["resources"]["limits"].items()
            assert not devices.keys() & collect["resources"]["limits"].keys()

    def test_the_kubelet_owes_every_pod_what_it_asks_for(self, tmp_path: Path) -> None:
        """Requests equal limits in every container of every profile: the class that is evicted last, with its own cores."""
        for profile in PROFILES:
            for item in objects_of(profile, request_of(profile, tmp_path, "uccl")):
                for container in item["spec"]["template"]["spec"]["containers"] if item["kind"] == "Job" else []:
                    resources = container["resources"]
                    assert resources["requests"] == resources["limits"], f"{profile} {container['name']}"
                    assert {"cpu", "memory"} <= resources["limits"].keys()

    def test_nothing_is_privileged(self, tmp_path: Path) -> None:
        """No pod is privileged or on the host's network, none reaches the API, and one capability is all that is added."""
        for profile in PROFILES:
            for item in objects_of(profile, request_of(profile, tmp_path, "uccl")):
                if item["kind"] != "Job":
                    continue
                pod = item["spec"]["template"]["spec"]
                assert pod["automountServiceAccountToken"] is False
                assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
                contexts = [container.get("securityContext", {}) for container in pod["containers"]]
                assert all(not context.get("privileged") for context in contexts)
                added = [name for context in contexts for name in context.get("capabilities", {}).get("add", [])]
                assert added == (["IPC_LOCK"] if profile == "eks" else [])

    def test_each_pod_has_the_same_node_in_every_start(self, tmp_path: Path) -> None:
        """Pod i runs on the i-th named node, a spare one on none: arms of a round share their nodes, rank by rank."""
        nodes = ("node-a", "node-b", "node-spare")
        found = [
            item["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
            for item in objects_of("eks", request_of("eks", tmp_path, "uccl", nodes=nodes))
            if item["kind"] == "Job"
        ]
        terms = [item["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] for item in found]

        assert [["node-a"], ["node-b"]] == [
            [value for term in own for field in term["matchFields"] for value in field["values"]] for own in terms
        ]

    def test_everything_goes_with_its_owner(self, tmp_path: Path) -> None:
        """One delete takes all of a gang: every other object names the ConfigMap as its owner, by UID."""
        first, *others = objects_of("eks", request_of("eks", tmp_path, "uccl"))

        assert "ownerReferences" not in first["metadata"]
        assert [item["kind"] for item in others] == ["Service", "Job", "Job"]
        for item in others:
            (reference,) = item["metadata"]["ownerReferences"]
            assert (reference["uid"], reference["name"]) == (UID, first["metadata"]["name"])


@pytest.mark.parametrize("version", VERSIONS)
class TestSchemas:
    @pytest.mark.parametrize("profile", PROFILES)
    def test_kubernetes_knows_every_field_of_a_gang(self, tmp_path: Path, profile: str, version: str) -> None:
        """No field is unknown, misplaced or of the wrong type, from the oldest schema that is published to the newest."""
        for item in objects_of(profile, request_of(profile, tmp_path, "uccl", nodes=("node-a", "node-b"))):
            kubernetes_validate.validate(item, version, strict=True)

    def test_kubernetes_knows_every_field_of_the_manifests(self, version: str) -> None:
        """What an operator applies is valid as well."""
        manifests = sorted((REPOSITORY / "deploy").glob("*.yaml"))
        assert manifests
        for path in manifests:
            for item in yaml.safe_load_all(path.read_text(encoding="utf-8")):
                kubernetes_validate.validate(item, version, strict=True)

    def test_a_field_that_does_not_exist_is_found(self, tmp_path: Path, version: str) -> None:
        """The check sees a slip: `nodeNames` is no field of a pod."""
        item = objects_of("eks", request_of("eks", tmp_path, "uccl"))[-1]
        item["spec"]["template"]["spec"]["nodeNames"] = ["node-a"]
        with pytest.raises(kubernetes_validate.ValidationError, match="nodeNames"):
            kubernetes_validate.validate(item, version, strict=True)


def test_the_worker_image_has_the_torch_of_the_lock() -> None:
    """Ranks of CPU arms run the same torch in a pod as on a workstation."""
    dockerfile = (REPOSITORY / "deploy" / "worker.Dockerfile").read_text(encoding="ascii")
    lock = (REPOSITORY / "requirements.lock").read_text(encoding="ascii").split()

    version = re.search(r"ARG TORCH_VERSION=(\S+)", dockerfile)
    assert version is not None
    assert f"torch=={version[1]}" in lock
