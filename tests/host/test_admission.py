"""Admission: what stops a campaign on this host, what it only notes, and when nothing is left to compare."""

from __future__ import annotations

from pathlib import Path

import pytest
from plans import REPOSITORY, SHAPES, make_plan

from ep_campaign.admission import arm_refusals
from ep_campaign.expand import load_plan
from ep_campaign.local import host_notes, host_refusals, needs, observe_host

MIB = 1 << 20
ROOMY = {
    "num_cpus": 2,
    "memory_available_bytes": 1 << 40,
    "disk_free_bytes": 1 << 40,
    "load_average_1min": 0.1,
    "num_gpus": 0,
}
OK = {"status": "ok", "reason_code": "", "reason": ""}
CLOSED = {"status": "inadmissible", "reason_code": "missing_build", "reason": "no such module"}


def gpu_plan():
    """The published EP 16 campaign: two pods of eight GPUs."""
    return load_plan(REPOSITORY / "config" / "campaigns" / "b200-ep16.yaml", SHAPES)


def test_a_host_with_room_is_not_refused(tmp_path):
    """Enough of everything: no refusal, no note."""
    plan = make_plan(tmp_path)
    assert [] == host_refusals(plan, 2, ROOMY)
    assert [] == host_notes(plan, 2, ROOMY)


@pytest.mark.parametrize(
    ("name", "code"),
    [("memory_available_bytes", "too_little_memory"), ("disk_free_bytes", "too_little_disk")],
)
def test_one_byte_too_little_is_refused(tmp_path, name, code):
    """The bound itself passes, one byte below it does not."""
    plan = make_plan(tmp_path)
    least = needs(plan, 2)[name]
    assert [] == host_refusals(plan, 2, {**ROOMY, name: least})
    assert [code] == [one.code for one in host_refusals(plan, 2, {**ROOMY, name: least - 1})]


def test_every_rank_of_the_group_counts_on_one_host(tmp_path):
    """Pods share this host, so needs grow with ranks: 300 MiB each and 12 bytes for 8 tokens x top-2 x 128 columns."""
    plan = make_plan(tmp_path, ep_sizes=[{"ranks": 4, "ranks_per_pod": 2, "rounds": 3, "scored": False}])
    assert 4 * (300 * MIB + 12 * 8 * 2 * 128) == needs(plan, 4)["memory_available_bytes"]
    assert ["one_host", "oversubscribed"] == [note["code"] for note in host_notes(plan, 4, ROOMY)]


@pytest.mark.parametrize(("num_gpus", "code"), [(0, "no_cuda"), (8, "too_few_gpus")])
def test_gpus_are_asked_for_before_anything_else(num_gpus, code):
    """A CUDA campaign on a host with too few GPUs: that is the refusal, however little memory there is."""
    host = {**ROOMY, "num_gpus": num_gpus, "memory_available_bytes": 0}
    (refusal,) = host_refusals(gpu_plan(), 16, host)
    assert code == refusal.code
    assert f"offers {num_gpus} CUDA GPUs, EP 16 needs 16" in refusal.message


def test_gpus_of_this_host_are_counted_and_visibility_is_respected(monkeypatch):
    """No more than CUDA_VISIBLE_DEVICES names; an empty one names none."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert 0 == observe_host(Path())["num_gpus"]


def test_a_closed_arm_alone_is_recorded_and_stops_nothing(tmp_path):
    """One of two arms beside the reference cannot run: the others are still compared."""
    plan = make_plan(tmp_path)
    assert [] == arm_refusals(plan, 2, {"torch-a2a": OK, "torch-a2a-cached": CLOSED, "torch-agrs": OK})


@pytest.mark.parametrize(
    "closed", [("torch-a2a",), ("torch-a2a-cached", "torch-agrs")], ids=["the reference", "every other arm"]
)
def test_nothing_to_compare_is_refused_with_each_arms_reason(tmp_path, closed):
    """Without the reference, or with it alone, no start may spend time; arms without starts here do not count."""
    plan = make_plan(tmp_path)
    arms = {arm: CLOSED if arm in closed else OK for arm in plan.document["arms"]}
    found = arm_refusals(plan, 2, arms)
    assert ["missing_build"] * len(closed) == [one.code for one in found]
    assert all(
        f"arm {arm!r}" in one.message and "no such module" in one.message
        for arm, one in zip(closed, found, strict=True)
    )
