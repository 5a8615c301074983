"""What the controller may do on a cluster: one table, from which the RBAC manifest is written and each right is asked for.

Nothing here lets anybody write outside the namespace. Rank pods have a ServiceAccount without any right and no token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from ep_campaign.errors import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NAMESPACE = "ep-campaign"
CONTROLLER, RANKS = "ep-campaign-controller", "ep-campaign-ranks"
_RBAC = "rbac.authorization.k8s.io/v1"
_HEAD = """\
# Written by `make documents` from ep_campaign/custody/rights.py; a test removes each verb and sees it missed.
# kubectl apply -f deploy/rbac.yaml
"""


@dataclass(frozen=True)
class Right:
    """One resource and what is done to it.

    Attributes:
        group: API group; empty for the core group.
        resource: Plural name, with its subresource.
        verbs: Verbs, sorted.
        why: What for.
        everywhere: Whether it spans the cluster; then it is reading only.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    why: str
    everywhere: bool = False


RIGHTS = (
    Right("", "configmaps", ("create", "delete", "get", "list"), "a gang's owner, and the files that its pods read"),
    Right("", "services", ("create", "delete", "list"), "the headless Service by which ranks find each other"),
    Right("batch", "jobs", ("create", "delete", "list"), "one Job for each pod of a gang"),
    Right("", "pods", ("delete", "list", "watch"), "how a gang fares, and that it is gone"),
    Right("", "pods/log", ("get",), "results and diagnostics come out through logs"),
    Right("coordination.k8s.io", "leases", ("create", "get", "update"), "who may use the node set"),
    Right("", "nodes", ("list",), "whether the named nodes are there, ready and whole", everywhere=True),
    Right("", "pods", ("list",), "whether anybody else's pods hold their devices", everywhere=True),
)


def missing_rights(review: Callable[[dict[str, Any]], dict[str, Any]], namespace: str) -> list[Refusal]:
    """Every right that we do not have; asked for before anything is created.

    Args:
        review: Posts a SelfSubjectAccessReview and returns the answer.
        namespace: Where gangs run.
    """
    found = []
    for right, verb in each_verb():
        attributes = {"group": right.group, "verb": verb, "resource": right.resource.partition("/")[0]}
        if "/" in right.resource:
            attributes["subresource"] = right.resource.partition("/")[2]
        if not right.everywhere:
            attributes["namespace"] = namespace
        kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
        answer = review({**kind, "spec": {"resourceAttributes": attributes}})
        if not answer["status"].get("allowed"):
            place = "in all namespaces" if right.everywhere else f"in namespace {namespace}"
            message = f"may not {verb} {right.resource} {place} ({right.why}): apply deploy/rbac.yaml and use its ServiceAccount"
            found.append(Refusal("no_right", message, "cluster"))
    return found


def each_verb() -> Iterator[tuple[Right, str]]:
    """Every right with each of its verbs."""
    return ((right, verb) for right in RIGHTS for verb in right.verbs)


def manifest(namespace: str = NAMESPACE) -> list[dict[str, Any]]:
    """Namespace, ServiceAccounts, roles and their bindings."""
    subject = {"kind": "ServiceAccount", "name": CONTROLLER, "namespace": namespace}
    reader = f"{CONTROLLER}-reads-{namespace}"
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        _account(CONTROLLER, namespace, token=True),
        _account(RANKS, namespace, token=False),
        {**_role("Role", CONTROLLER, everywhere=False), "metadata": {"name": CONTROLLER, "namespace": namespace}},
        _binding("RoleBinding", "Role", CONTROLLER, subject, namespace),
        _role("ClusterRole", reader, everywhere=True),
        _binding("ClusterRoleBinding", "ClusterRole", reader, subject, ""),
    ]


def manifest_text() -> str:
    """`deploy/rbac.yaml`."""
    return _HEAD + yaml.safe_dump_all(manifest(), sort_keys=False, explicit_start=True, width=120)


def _account(name: str, namespace: str, *, token: bool) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace},
        "automountServiceAccountToken": token,
    }


def _role(kind: str, name: str, *, everywhere: bool) -> dict[str, Any]:
    rules = [
        {"apiGroups": [right.group], "resources": [right.resource], "verbs": list(right.verbs)}
        for right in RIGHTS
        if right.everywhere is everywhere
    ]
    return {"apiVersion": _RBAC, "kind": kind, "metadata": {"name": name}, "rules": rules}


def _binding(kind: str, role: str, name: str, subject: dict[str, str], namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name}
    return {"apiVersion": _RBAC, "kind": kind, "metadata": metadata, "roleRef": ref, "subjects": [subject]}
