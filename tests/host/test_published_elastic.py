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
    cells = [(one.suite, one.width, one.concurrency) for one in STUDY.sweeps]
    assert [(suite, width, c) for suite in ("tcp", "rdma") for width in (2, 4) for c in CONCURRENCIES] == cells
    for suite in ("tcp", "rdma"):
        for width in (2, 4):
            state = [one for one in STUDY.sweeps if (one.suite, one.width) == (suite, width)]
            assert 416 == sum(one.num_requests for one in state) == sum(one.num_ok for one in state)


def test_stated_ratios_reproduce() -> None:
    """2.50, 6.96, 3.35 and 8.23 times, 83.0 %, as the study states them, from its own figures."""
    narrow, wide = STUDY.cell("tcp", 2, 64), STUDY.cell("tcp", 4, 64)
    fast_narrow, fast_wide = STUDY.cell("rdma", 2, 64), STUDY.cell("rdma", 4, 64)
    single, single_wide = STUDY.cell("tcp", 2, 1), STUDY.cell("tcp", 4, 1)
    assert 2.50 == round(narrow.ttft_p50_ms / wide.ttft_p50_ms, 2)
    assert 6.96 == round(wide.ttft_p50_ms / fast_wide.ttft_p50_ms, 2)
    assert 3.35 == round(fast_wide.output_tokens_per_s / wide.output_tokens_per_s, 2)
    assert 8.23 == round(fast_narrow.ttft_p50_ms / fast_wide.ttft_p50_ms, 2)
    assert 0.830 == round(single_wide.itl_p50_ms / single.itl_p50_ms - 1, 3)


def test_the_ledger_adds_up() -> None:
    """The server's completion lines: 880 = 416 + 24 + 439 + 1, 440 = 416 + 24, 2134 = 3 x 440 + 813 + 1."""
    ledger = STUDY.ledger
    state = ledger.measured_a_state + ledger.warmups_a_state
    grown = {one.suite: one.num_requests for one in STUDY.resizes}
    assert ledger.completions_before_wide_tcp == state + grown["tcp"] + ledger.calibration == 880
    assert ledger.completions_after_wide_tcp - ledger.completions_before_wide_tcp == state == 440
    assert ledger.completions_final_rdma == 3 * state + grown["rdma"] + ledger.calibration == 2134


def test_only_the_most_loaded_narrow_cell_is_queue_bound() -> None:
    """16 sequences on each of 2 ranks are 32 slots, below 64 in flight; on 4 ranks they are 64."""
    bound = [(one.suite, one.width, one.concurrency) for one in STUDY.sweeps if STUDY.is_queue_bound(one)]
    assert [("tcp", 2, 64), ("rdma", 2, 64)] == bound
    assert STUDY.cell("tcp", 3, 64) is None


def test_unknown_fields_are_refused(tmp_path: Path) -> None:
    """A figure that this reader does not know may change what the known ones mean."""
    value = json.loads(FILE.read_text())
    value["sweeps"][0]["ttft_p99_ms"] = 1.0
    path = tmp_path / "study.json"
    path.write_text(json.dumps(value))
    with pytest.raises(CampaignError, match=r"sweeps\.0\.ttft_p99_ms"):
        read_study(path)


def test_the_campaign_is_the_study_s_own_matrix() -> None:
    """Its cells, requests, warm-ups, lengths and widths are those of the study, and its manifests are there."""
    plan = load_elastic_plan(read_yaml(CAMPAIGN), CAMPAIGN).document
    cells = plan["cells"].values()
    assert [(one.concurrency, one.num_requests) for one in STUDY.sweeps if (one.suite, one.width) == ("tcp", 2)] == [
        (cell["concurrency"], cell["requests"]) for cell in cells
    ]
    assert {STUDY.environment["num_warmups_a_cell"]} == {cell["num_warmups"] for cell in cells}
    assert 24 == sum(cell["num_warmups"] for cell in cells) == STUDY.ledger.warmups_a_state
    assert (1024, 256) == (plan["prompt"]["num_units"], plan["prompt"]["max_tokens"])
    assert [[2], [2, 4], [2, 4]] == [state["widths"] for state in plan["states"].values()]
    assert 6 == len(plan["starts"])


@pytest.mark.parametrize("arm", ["tcp", "rdma"])
def test_manifests_say_what_the_study_ran(arm: str) -> None:
    """Flags of the manifest are those of the study; nothing that the operator owns is among them."""
    role = read_yaml(ROOT / "config" / "manifests" / f"h100-elastic-{arm}.yaml")["spec"]["roles"][0]
    flags = dict(zip(role["extraArgs"][::2], role["extraArgs"][1::2], strict=True))
    environment = STUDY.environment
    assert str(STUDY.suites[arm]["gpu_memory_utilization"]) == str(float(flags.pop("--gpu-memory-utilization")))
    assert {
        "--tensor-parallel-size": environment["tensor_parallel"],
        "--max-model-len": environment["max_model_len"],
        "--max-num-seqs": environment["max_num_seqs"],
        "--all2all-backend": environment["all2all_backend"],
        "--elastic-ep-max-dp-size": environment["elastic_ep_max_dp_size"],
        "--api-server-count": environment["api_server_count"],
    } == {name: _typed(value) for name, value in flags.items()}
    assert ("interface" in role["resources"]) == (arm == "rdma")


def _typed(value: str) -> int | str:
    return int(value) if value.isdecimal() else value
