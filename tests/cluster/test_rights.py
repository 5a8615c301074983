"""RBAC on a real API server: the manifest suffices, and each verb that is taken away is missed by name before anything is made."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from clusters import admin, api_of, kubeconfig, namespace, until
from kubernetes import client

from ep_campaign.custody.guard import Guard
from ep_campaign.custody.place import CustodySection
from ep_campaign.custody.rights import CONTROLLER, each_verb, manifest, missing_rights
from ep_campaign.custody.server import Server
from ep_campaign.errors import CampaignError
from snakemake_executor_plugin_gang.gang import Bounds, Gangs
from snakemake_executor_plugin_gang.request import Code, GangRequest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def everything() -> client.ApiClient:
    """A client with every right."""
    return admin(kubeconfig())


@pytest.fixture(scope="module")
def applied(everything: client.ApiClient) -> Iterator[dict[str, Any]]:
    """deploy/rbac.yaml, applied to a namespace of its own; its objects by kind."""
    core, rbac = client.CoreV1Api(everything), client.RbacAuthorizationV1Api(everything)
    with namespace(everything) as name:
        objects = {item["kind"]: item for item in manifest(name) if item["kind"] != "ServiceAccount"}
        for item in manifest(name):
            if item["kind"] == "ServiceAccount":
                core.create_namespaced_service_account(name, item)
        rbac.create_namespaced_role(name, objects["Role"])
        rbac.create_namespaced_role_binding(name, objects["RoleBinding"])
        rbac.create_cluster_role(objects["ClusterRole"])
        rbac.create_cluster_role_binding(objects["ClusterRoleBinding"])
        yield objects
        rbac.delete_cluster_role_binding(objects["ClusterRoleBinding"]["metadata"]["name"])
        rbac.delete_cluster_role(objects["ClusterRole"]["metadata"]["name"])


@pytest.fixture(scope="module")
def limited(
    everything: client.ApiClient, applied: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, str]:
    """A kubeconfig of the controller's ServiceAccount and no more, and its namespace."""
    space = applied["Role"]["metadata"]["namespace"]
    token = client.CoreV1Api(everything).create_namespaced_service_account_token(
        CONTROLLER, space, {"spec": {"expirationSeconds": 3600}}
    )
    document = yaml.safe_load(kubeconfig().read_text(encoding="utf-8"))
    document["users"] = [{"name": user["name"], "user": {"token": token.status.token}} for user in document["users"]]
    path = tmp_path_factory.mktemp("limited") / "kubeconfig"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path, space


def server(limited: tuple[Path, str]) -> Server:
    return Server(api_of(*limited))


def test_the_manifest_gives_every_right(limited: tuple[Path, str]) -> None:
    """Applied as it is, nothing is missing."""
    made = server(limited)

    until(lambda: not missing_rights(made.review, made.namespace), "the roles to take effect")


# To list pods everywhere is to list them in the namespace: there the wider right covers the narrower one.
TAKEN = [(r, verb) for r, verb in each_verb() if (r.resource, verb, r.everywhere) != ("pods", "list", False)]


@pytest.mark.parametrize(
    ("right", "verb"), TAKEN, ids=[f"{verb} {r.resource}{' everywhere' * r.everywhere}" for r, verb in TAKEN]
)
def test_each_verb_that_is_taken_away_is_missed(
    everything: client.ApiClient, applied: dict[str, Any], limited: tuple[Path, str], right: Any, verb: str
) -> None:
    """Without one verb the campaign stops before it makes anything, and says which verb on what, what for, and what to apply."""
    rbac, made = client.RbacAuthorizationV1Api(everything), server(limited)
    role = applied["ClusterRole" if right.everywhere else "Role"]
    rules = [
        {**rule, "verbs": [v for v in rule["verbs"] if v != verb] or ["none"]}
        if rule["resources"] == [right.resource]
        else rule
        for rule in role["rules"]
    ]
    replace(rbac, {**role, "rules": rules})
    try:
        found = until(lambda: missing_rights(made.review, made.namespace), "the role to take effect")
        with pytest.raises(CampaignError) as caught:
            Guard(made, CustodySection(), "smoke/1").open()
    finally:
        replace(rbac, role)
        until(lambda: not missing_rights(made.review, made.namespace), "the role to be back")

    assert [(refusal.code, f"may not {verb} {right.resource} in " in refusal.message) for refusal in found] == [
        ("no_right", True)
    ]
    assert caught.value.codes == ("no_right",)
    assert "apply deploy/rbac.yaml" in str(caught.value)


def replace(rbac: client.RbacAuthorizationV1Api, role: dict[str, Any]) -> None:
    name = role["metadata"]["name"]
    if role["kind"] == "Role":
        rbac.replace_namespaced_role(name, role["metadata"]["namespace"], role)
    else:
        rbac.replace_cluster_role(name, role)


def test_these_rights_suffice_for_custody_and_a_gang(limited: tuple[Path, str]) -> None:
    """With the ServiceAccount alone the lease is taken, nodes are seen, a gang is made, watched, read and removed."""
    api = api_of(*limited)
    guard = Guard(Server(api), CustodySection(), "smoke/1")
    guard.open()
    request = GangRequest(
        "rights", 2, "registry.invalid/none@sha256:" + "0" * 64, ("true",), ("true",), {"a": b"1"}, 60, nodes=("none",)
    )

    result = Gangs(api, {}, Bounds(schedule_s=2, start_s=2, delete_s=30), lambda _text: None).run(
        request, threading.Event()
    )
    nodes, pods = Server(api).nodes(), Server(api).pods_on([node["metadata"]["name"] for node in Server(api).nodes()])
    guard.close()

    assert {failure.code for failure in result.failures} <= {Code.UNSCHEDULABLE, Code.IMAGE, Code.NOT_STARTED}
    assert {item.kind for item in result.objects} >= {"ConfigMap", "Service", "Job"}
    assert all(item.gone for item in result.objects)
    assert nodes
    assert isinstance(pods, list)


def test_nothing_else_is_allowed(limited: tuple[Path, str]) -> None:
    """No secret is read, no other namespace is written, no node is changed."""
    made = server(limited)
    asked = [
        {"resource": "secrets", "verb": "get", "namespace": made.namespace},
        {"resource": "configmaps", "verb": "create", "namespace": "default"},
        {"resource": "nodes", "verb": "patch"},
        {"resource": "pods", "subresource": "exec", "verb": "create", "namespace": made.namespace},
    ]
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}

    answers = [made.review({**kind, "spec": {"resourceAttributes": item}})["status"]["allowed"] for item in asked]

    assert answers == [False] * 4
