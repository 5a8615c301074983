"""What the controller may do: the manifest is the table, and each verb that is missing is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from ep_campaign.custody.rights import RIGHTS, each_verb, manifest, manifest_text, missing_rights

EVERY = list(each_verb())


def server(*denied: tuple[str, str]) -> Any:
    """Answers reviews; denies the named (resource, verb) pairs."""

    def review(asked: dict[str, Any]) -> dict[str, Any]:
        attributes = asked["spec"]["resourceAttributes"]
        name = "/".join(filter(None, (attributes["resource"], attributes.get("subresource"))))
        key = (f"{name}{'' if 'namespace' in attributes else ' everywhere'}", attributes["verb"])
        return {"status": {"allowed": key not in denied}}

    return review


def test_nothing_is_missing_where_all_is_allowed() -> None:
    """A controller with every right is refused nothing."""
    assert missing_rights(server(), "ns") == []


@pytest.mark.parametrize(
    ("right", "verb"), EVERY, ids=[f"{right.resource}-{verb}-{right.everywhere}" for right, verb in EVERY]
)
def test_each_missing_verb_is_named(right: Any, verb: str) -> None:
    """Without one verb exactly that one is missed, with what it is for and how to get it."""
    where = " everywhere" if right.everywhere else ""

    found = missing_rights(server((f"{right.resource}{where}", verb)), "ns")

    assert [refusal.code for refusal in found] == ["no_right"]
    assert f"may not {verb} {right.resource}" in found[0].message
    assert right.why in found[0].message


def test_nothing_writes_outside_the_namespace() -> None:
    """What spans the cluster is reading only, and no rule has a wildcard."""
    assert {verb for right in RIGHTS if right.everywhere for verb in right.verbs} <= {"get", "list", "watch"}
    assert not any("*" in (right.group, right.resource, *right.verbs) for right in RIGHTS)


def test_rank_pods_have_no_right_and_no_token() -> None:
    """Only the controller's account is bound to anything."""
    bound = [subject["name"] for item in manifest() for subject in item.get("subjects", [])]
    accounts = {item["metadata"]["name"]: item for item in manifest() if item["kind"] == "ServiceAccount"}

    assert set(bound) == {"ep-campaign-controller"}
    assert accounts["ep-campaign-ranks"]["automountServiceAccountToken"] is False


def test_the_manifest_is_the_table() -> None:
    """`make documents` writes deploy/rbac.yaml; it must not drift from the code."""
    path = Path(__file__).parents[2] / "deploy/rbac.yaml"

    assert path.read_text(encoding="utf-8") == manifest_text()
    assert list(yaml.safe_load_all(manifest_text())) == manifest()
