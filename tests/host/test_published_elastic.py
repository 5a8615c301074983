"""The published elastic study is shipped whole, and its own arithmetic holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ep_campaign.elastic.expand import load_elastic_plan
from ep_campaign.elastic.published import read_study
from ep_campaign.errors import CampaignError
from ep_campaign.load import read_yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "config" / "published" / "elastic-h100.json"
CAMPAIGN = ROOT / "config" / "campaigns" / "h100-width-2-4.yaml"
CONCURRENCIES = (1, 4, 8, 16, 32, 64)
STUDY = read_study(FILE)


def test_every_cell_is_there() -> None:
    """Two suites, two widths, six concurrencies; 416 requests a state, all ok."""
    cells = [(one.arm, one.width, one.concurrency) for one in STUDY.levels]
    expected = [(arm, width, c) for arm in ("tcp", "rdma") for width in (2, 4) for c in CONCURRENCIES]
    assert sorted(expected) == sorted(cells)
    for suite in ("tcp", "rdma"):
        for width in (2, 4):
            state = [one for one in STUDY.levels if (one.arm, one.width) == (suite, width)]
            assert 416 == sum(one.num_requests for one in state) == sum(one.num_ok for one in state)


def test_stated_ratios_reproduce() -> None:
    """2.50, 6.96, 3.35 and 8.23 times, 83.0 %, as the study states them, from its own figures."""
    narrow, wide = STUDY.level("tcp", 2, 64), STUDY.level("tcp", 4, 64)
    fast_narrow, fast_wide = STUDY.level("rdma", 2, 64), STUDY.level("rdma", 4, 64)
    single, single_wide = STUDY.level("tcp", 2, 1), STUDY.level("tcp", 4, 1)
    assert 2.50 == round(narrow.ttft_p50_ms / wide.ttft_p50_ms, 2)
    assert 6.96 == round(wide.ttft_p50_ms / fast_wide.ttft_p50_ms, 2)
    assert 3.35 == round(fast_wide.output_tokens_per_s / wide.output_tokens_per_s, 2)
    assert 8.23 == round(fast_narrow.ttft_p50_ms / fast_wide.ttft_p50_ms, 2)
    assert 0.830 == round(single_wide.itl_p50_ms / single.itl_p50_ms - 1, 3)


def test_the_ledger_adds_up() -> None:
    """The server's completion lines: 880 = 416 + 24 + 439 + 1, 1320 = 880 + 416 + 24, 2134 = 3 x 440 + 813 + 1."""
    state = 416 + len(CONCURRENCIES) * STUDY.prompt.num_warmups
    grown = {(one.arm, one.run): one.num_requests for one in STUDY.resizes}
    assert 440 == state
    assert [
        state + grown[("tcp", "first")] + 1,
        2 * state + grown[("tcp", "first")] + 1,
        3 * state + grown[("rdma", "first")] + 1,
    ] == [line.completion_lines for line in STUDY.ledger]


def test_only_the_most_loaded_narrow_cell_is_queue_bound() -> None:
    """16 sequences on each of 2 ranks are 32 slots, below 64 in flight; on 4 ranks they are 64."""
    bound = [(one.arm, one.width, one.concurrency) for one in STUDY.levels if STUDY.is_queue_bound(one)]
    assert [("tcp", 2, 64), ("rdma", 2, 64)] == bound
    assert STUDY.level("tcp", 3, 64) is None


def test_unknown_fields_are_refused(tmp_path: Path) -> None:
    """A figure that this reader does not know may change what the known ones mean."""
    value = json.loads(FILE.read_text())
    value["levels"][0]["ttft_p99_ms"] = 1.0
    path = tmp_path / "study.json"
    path.write_text(json.dumps(value))
    with pytest.raises(CampaignError, match=r"levels\.0\.ttft_p99_ms"):
        read_study(path)


def test_the_campaign_is_the_study_s_own_matrix() -> None:
    """Its cells, requests, warm-ups, lengths and widths are those of the study, and its manifests are there."""
    plan = load_elastic_plan(read_yaml(CAMPAIGN), CAMPAIGN).document
    cells = plan["cells"].values()
    assert [(one.concurrency, one.num_requests) for one in STUDY.levels if (one.arm, one.width) == ("tcp", 2)] == [
        (cell["concurrency"], cell["requests"]) for cell in cells
    ]
    assert {STUDY.prompt.num_warmups} == {cell["num_warmups"] for cell in cells}
    assert (STUDY.prompt.prompt_tokens, STUDY.prompt.max_tokens) == (
        plan["prompt"]["num_units"],
        plan["prompt"]["max_tokens"],
    )
    assert STUDY.prompt.max_num_seqs == plan["target"]["max_num_seqs"]
    assert [[2], [2, 4], [2, 4]] == [state["widths"] for state in plan["states"].values()]
    assert 6 == len(plan["starts"])
    assert all(arm["manifest_sha256"] for arm in plan["arms"].values())


@pytest.mark.parametrize(("arm", "utilisation"), [("tcp", "0.90"), ("rdma", "0.85")])
def test_manifests_say_what_the_study_ran(arm: str, utilisation: str) -> None:
    """Flags of the manifest are those of the study."""
    role = read_yaml(ROOT / "config" / "manifests" / f"h100-elastic-{arm}.yaml")["spec"]["roles"][0]
    flags = [" ".join(pair) for pair in zip(role["extraArgs"][::2], role["extraArgs"][1::2], strict=True)]
    said = " ".join(STUDY.environment[name] for name in ("collective", "engine_limits", "serving"))
    assert f"--gpu-memory-utilization {utilisation}" in flags
    assert ["--tensor-parallel-size 2"] == [flag for flag in flags if flag not in said and "utilization" not in flag]
    assert role["image"] in STUDY.environment["runner"]
    assert ("interface" in role["resources"]) == (arm == "rdma")
