"""The objects of a gang, rendered: one owner, one headless Service, one Job a pod.

The owner is a ConfigMap that holds the files; everything else names it as owner, so that one delete takes all of it. Pods have
names of their own in DNS (`hostname` and `subdomain`), which works from Kubernetes 1.20 to today without Indexed Jobs.
"""

from __future__ import annotations

import base64
import copy
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snakemake_executor_plugin_gang.request import GangRequest

GANG_LABEL, INDEX_LABEL, APP_LABEL = "gang", "gang-index", "app.kubernetes.io/managed-by"
APP = "snakemake-gang"
FILES_PATH, OUT_PATH = "/gang/files", "/gang/out"
RANKS, COLLECT = "ranks", "collect"
MAX_CONFIG_MAP_BYTES = 900_000
"""Of files in one ConfigMap, before base64: etcd takes requests of 1.5 MiB, the API server objects of 1 MiB."""

_COLLECT_RESOURCES = {"cpu": "100m", "memory": "128Mi"}


def labels(request: GangRequest) -> dict[str, str]:
    """Labels of every object of a gang."""
    return {**request.labels, APP_LABEL: APP, GANG_LABEL: request.name}


def shards(request: GangRequest) -> list[dict[str, bytes]]:
    """Files in groups that fit into one ConfigMap each; the first group is the owner's.

    Raises:
        ValueError: One file alone does not fit.
    """
    groups: list[dict[str, bytes]] = [{}]
    for name, content in sorted(request.files.items()):
        if len(content) > MAX_CONFIG_MAP_BYTES:
            msg = f"file {name} has {len(content):,} bytes, a ConfigMap takes {MAX_CONFIG_MAP_BYTES:,}: cut it into pieces"
            raise ValueError(msg)
        if sum(map(len, groups[-1].values())) + len(content) > MAX_CONFIG_MAP_BYTES:
            groups.append({})
        groups[-1][name] = content
    return groups


def owner(request: GangRequest) -> dict[str, Any]:
    """The ConfigMap that owns everything else."""
    return _config_map(request, request.name, shards(request)[0], owner_uid=None)


def dependents(request: GangRequest, template: Mapping[str, Any], owner_uid: str) -> list[dict[str, Any]]:
    """Everything that the owner owns, in the order in which it is made: pods last."""
    more = [
        _config_map(request, f"{request.name}-{number}", group, owner_uid)
        for number, group in enumerate(shards(request))
        if number
    ]
    jobs = [job(request, template, owner_uid, index) for index in range(request.num_pods)]
    return [*more, service(request, owner_uid), *jobs]


def service(request: GangRequest, owner_uid: str) -> dict[str, Any]:
    """The headless Service that gives pods their names before they are ready."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(request, request.name, owner_uid),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {GANG_LABEL: request.name}},
    }


def job(request: GangRequest, template: Mapping[str, Any], owner_uid: str, index: int) -> dict[str, Any]:
    """The Job of one pod; it never makes a second one, and its deadline ends what nobody watches any more."""
    pod = pod_template(request, template, index)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**_metadata(request, f"{request.name}-{index}", owner_uid)},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": int(2 * request.run_bound_s) + 600,
            "template": pod,
        },
    }


def pod_template(request: GangRequest, template: Mapping[str, Any], index: int) -> dict[str, Any]:
    """The pod of one index: the place's own template, with what makes it a member of this gang."""
    pod = copy.deepcopy(dict(template))
    metadata = pod.setdefault("metadata", {})
    metadata["labels"] = {**metadata.get("labels", {}), **labels(request), INDEX_LABEL: str(index)}
    spec = pod.setdefault("spec", {})
    spec |= {"restartPolicy": "Never", "hostname": f"{request.name}-{index}", "subdomain": request.name}
    for name, value in (
        ("automountServiceAccountToken", False),
        ("enableServiceLinks", False),
        ("terminationGracePeriodSeconds", 10),
    ):
        spec.setdefault(name, value)
    given = {container["name"]: container for container in spec.get("containers", [])}
    variables = _variables(request, index)
    spec["containers"] = [
        _container(given.get(RANKS, {}), RANKS, request, request.ranks_command, variables),
        _container(
            {"resources": {"requests": _COLLECT_RESOURCES, "limits": _COLLECT_RESOURCES}, **given.get(COLLECT, {})},
            COLLECT,
            request,
            request.collect_command,
            variables,
        ),
    ]
    sources = [{"configMap": {"name": name}} for name in _config_map_names(request)]
    spec["volumes"] = [
        *spec.get("volumes", []),
        {"name": "gang-files", "projected": {"sources": sources}},
        {"name": "gang-out", "emptyDir": {}},
    ]
    _place(spec, request)
    return pod


def _config_map_names(request: GangRequest) -> list[str]:
    return [request.name if number == 0 else f"{request.name}-{number}" for number in range(len(shards(request)))]


def _container(
    given: Mapping[str, Any], name: str, request: GangRequest, command: tuple[str, ...], variables: list[dict[str, Any]]
) -> dict[str, Any]:
    mounts = [
        *given.get("volumeMounts", []),
        {"name": "gang-files", "mountPath": FILES_PATH, "readOnly": True},
        {"name": "gang-out", "mountPath": OUT_PATH},
    ]
    return {
        **given,
        "name": name,
        "image": request.image,
        "command": list(command),
        "env": [*given.get("env", []), *variables],
        "volumeMounts": mounts,
    }


def _variables(request: GangRequest, index: int) -> list[dict[str, Any]]:
    own = {
        "GANG_INDEX": str(index),
        "GANG_SIZE": str(request.num_pods),
        "GANG_HOST": f"{request.name}-0.{request.name}",
    }
    node = {"name": "GANG_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
    return [*({"name": name, "value": value} for name, value in {**request.environment, **own}.items()), node]


def _place(spec: dict[str, Any], request: GangRequest) -> None:
    """Binds pods to the named nodes, and apart from one another."""
    affinity = spec.setdefault("affinity", {}) if request.nodes or request.one_pod_a_node else {}
    if request.nodes:
        terms = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in request.nodes
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        affinity["nodeAffinity"] = {**affinity.get("nodeAffinity", {}), **required}
    if request.one_pod_a_node:
        term = {
            "labelSelector": {"matchLabels": {GANG_LABEL: request.name}},
            "topologyKey": "kubernetes.io/hostname",
        }
        apart = affinity.setdefault("podAntiAffinity", {})
        apart.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(term)


def _config_map(request: GangRequest, name: str, files: Mapping[str, bytes], owner_uid: str | None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(request, name, owner_uid),
        "binaryData": {name: base64.b64encode(content).decode("ascii") for name, content in files.items()},
        "immutable": True,
    }


def _metadata(request: GangRequest, name: str, owner_uid: str | None) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "labels": labels(request),
        "annotations": {"snakemake-gang/description": request.description},
    }
    if owner_uid is not None:
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": request.name, "uid": owner_uid}
        metadata["ownerReferences"] = [{**reference, "controller": False, "blockOwnerDeletion": False}]
    return metadata
