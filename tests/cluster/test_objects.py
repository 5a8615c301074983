"""What the eks profile makes of the published B200 campaign, put to a real API server without keeping any of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from clusters import admin, kubeconfig, namespace
from kubernetes import client
from plans import REPOSITORY, SHAPES

from ep_campaign.cluster.config import load_place
from ep_campaign.cluster.request import gang_request
from ep_campaign.expand import load_plan
from ep_worker.contract.canonical import pretty_json
from snakemake_executor_plugin_gang import read_template
from snakemake_executor_plugin_gang.objects import dependents, owner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.cluster
UID = "00000000-0000-0000-0000-000000000001"


@pytest.fixture(scope="module")
def everything() -> client.ApiClient:
    """A client with every right."""
    return admin(kubeconfig())


@pytest.fixture(scope="module")
def space(everything: client.ApiClient) -> Iterator[str]:
    """A namespace of its own."""
    with namespace(everything) as name:
        yield name


def try_out(everything: client.ApiClient, space: str, item: dict[str, Any]) -> dict[str, Any]:
    """The object as the server would keep it, defaults filled in; a refusal raises."""
    create = {
        "ConfigMap": client.CoreV1Api(everything).create_namespaced_config_map,
        "Service": client.CoreV1Api(everything).create_namespaced_service,
        "Job": client.BatchV1Api(everything).create_namespaced_job,
    }[item["kind"]]
    kept: dict[str, Any] = everything.sanitize_for_serialization(create(space, item, dry_run="All"))
    return kept


@pytest.mark.parametrize("arm", ["deepep-v2", "deepep-v1", "uccl"])
def test_the_server_takes_every_object_and_drops_no_field(
    everything: client.ApiClient, space: str, tmp_path: Path, arm: str
) -> None:
    """Two pods of eight GPUs and eight EFA devices, with huge pages and shared memory, are admitted as they were rendered."""
    plan = load_plan(REPOSITORY / "config" / "campaigns" / "b200-ep16.yaml", SHAPES)
    spec = plan.spec(next(item for item in plan.starts if item.arm == arm))
    (tmp_path / "spec.json").write_text(pretty_json(spec.as_json()), encoding="ascii")
    place = load_place(REPOSITORY / "profiles" / "eks" / "place.yaml").model_copy(update={"nodes": ("a", "b")})
    request = gang_request(place, tmp_path, spec, 1, plan.document["arms"][arm]["image"])
    template = read_template(REPOSITORY / "profiles" / "eks" / "pod.yaml")
    made = [owner(request), *dependents(request, template, UID)]

    assert [item["kind"] for item in made] == ["ConfigMap", "Service", "Job", "Job"]
    for item in made:
        assert missing(item, try_out(everything, space, item)) == []


def missing(asked: Any, kept: Any, where: str = "") -> list[str]:
    """Paths of what was asked and not kept; an old server drops silently what it does not know."""
    if isinstance(asked, dict) and isinstance(kept, dict):
        return [
            path
            for key, value in asked.items()
            for path in missing(value, kept.get(key), f"{where}.{key}" if where else key)
        ]
    if isinstance(asked, list) and isinstance(kept, list) and len(asked) == len(kept):
        pairs = enumerate(zip(asked, kept, strict=True))
        return [path for number, (one, other) in pairs for path in missing(one, other, f"{where}[{number}]")]
    return [] if asked == kept else [where]
