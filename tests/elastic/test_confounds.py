"""Every other difference between things that are compared is listed."""

from __future__ import annotations

from typing import Any

from elastic.runs import make_plan

from ep_campaign.elastic.confounds import arm_confounds, differences, state_confounds

PLAN = make_plan()


def provenance(**settings: Any) -> dict[str, Any]:
    """What a driver observed."""
    return {
        "engine": "ep_serve",
        "settings": {"transport": "tcp", "width": 2, "max_len": 512, **settings},
        "groups": [1],
    }


def test_settings_that_differ() -> None:
    """Nested fields by their path, absent ones too; what is observed per process is no setting."""
    left = {"spec": {"roles": [{"name": "a", "extraArgs": ["--x", "1"]}]}, "groups": [1], "version": {"version": "1"}}
    right = {"spec": {"roles": [{"name": "a", "extraArgs": ["--x", "2"]}]}, "groups": [2]}
    assert [
        ("spec.roles.0.extraArgs", '["--x","1"]', '["--x","2"]'),
        ("version.version", "1", "absent"),
    ] == differences(left, right)


def test_arms_differ_in_more_than_their_transport() -> None:
    """The transport is what arms are for; anything else is a confound, declared or not."""
    seen = {
        ("tcp", "narrow"): provenance(),
        ("shm", "narrow"): provenance(transport="shm", max_len=256, seed=9),
        ("shm", "wide"): provenance(transport="shm"),
    }
    found = arm_confounds(PLAN, seen)
    assert [("settings.max_len", "256", "512"), ("settings.seed", "9", "absent")] == [
        (one["field"], one["arm_value"], one["reference_value"]) for one in found
    ]
    assert {"narrow"} == {one["state"] for one in found}


def test_states_differ_in_more_than_their_width() -> None:
    """The width is what states are for."""
    seen = {("tcp", "narrow"): provenance(), ("tcp", "wide"): provenance(width=4, max_len=256)}
    (found,) = state_confounds(PLAN, seen)
    assert ("wide", "settings.max_len", "256", "512") == (
        found["state"],
        found["field"],
        found["state_value"],
        found["reference_value"],
    )
