"""From a campaign file to its plan, and everything that is wrong with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from elastic.runs import CAMPAIGN, make_plan

from ep_campaign.elastic.expand import load_elastic_plan, poisson_offsets
from ep_campaign.errors import CampaignError

if TYPE_CHECKING:
    from pathlib import Path


def codes(**fields: Any) -> list[str]:
    """Reason codes that a campaign with other fields earns."""
    with pytest.raises(CampaignError) as caught:
        make_plan(**fields)
    return sorted(caught.value.codes)


class TestPlan:
    """What a plan says."""

    def test_starts_and_their_order(self) -> None:
        """Two rounds of four states of two arms; arms trade places between rounds, and every start has its position."""
        starts = make_plan().starts
        assert list(range(16)) == [start.position for start in starts]
        assert ["narrow", "grow", "wide", "two-narrow"] == [start.state for start in starts[:8:2]]
        assert "w4/wide/round-02/shm" in {start.id for start in starts}
        for state in ("narrow", "wide"):
            first = [start.arm for start in starts if start.state == state and start.order_position == 1]
            assert {"tcp", "shm"} == set(first)

    def test_what_a_state_holds(self) -> None:
        """Ranks of 2 GPUs and 4 slots: wide is one deployment of 4, two-narrow is two of 2, on as many GPUs."""
        plan = make_plan()
        assert [4, 8, 8, 8] == [plan.num_gpus(state) for state in ("narrow", "grow", "wide", "two-narrow")]
        assert [8, 16, 16, 16] == [plan.num_slots(state) for state in ("narrow", "grow", "wide", "two-narrow")]
        assert (["narrow", "wide", "two-narrow"], ["grow"]) == (plan.sweeps, plan.resizes)

    def test_the_family(self) -> None:
        """2 cells x 3 figures x (2 arms x 2 other sweeps + 3 sweeps x 1 other arm) are 42 contrasts, which need more rounds."""
        family = make_plan().document["family"]
        assert 42 == family["num_contrasts"]
        assert family["min_rounds"] > 6

    def test_the_digest_follows_what_is_asked(self) -> None:
        """The same file gives the same digest, another target another one."""
        assert make_plan().digest == make_plan().digest
        assert make_plan().digest != make_plan(seed=8).digest

    def test_arrivals_are_drawn_in_the_plan(self) -> None:
        """As many as requests and warm-ups, from 0, rising; the mean gap of 4,000 at 4 a second is a quarter second."""
        cells = make_plan(cells=[{"arrivals": "poisson", "rate_per_s": 4, "requests": 6}]).document["cells"]
        offsets = cells["poisson-4"]["offsets_s"]
        assert 4 + 6 == len(offsets)
        assert 0.0 == offsets[0]
        assert sorted(offsets) == offsets
        many = poisson_offsets(4.0, 4000, 1, "x")
        assert 0.25 == pytest.approx(many[-1] / 3999, rel=0.05)

    def test_a_recorded_trace(self, tmp_path: Path) -> None:
        """Times come from the file; too few of them, or falling ones, are refused."""
        cells = [{"arrivals": "trace", "trace": "morning.txt", "requests": 2, "num_warmups": 1}]
        (tmp_path / "morning.txt").write_text("0\n0.5\n2\n9\n")
        plan = load_elastic_plan({**CAMPAIGN, "cells": cells}, tmp_path / "tiny.yaml")
        assert [0.0, 0.5, 2.0] == plan.document["cells"]["trace-morning"]["offsets_s"]
        for text in ("0\n1\n", "0\n2\n1\n", "-1\n0\n1\n", "soon\n"):
            (tmp_path / "morning.txt").write_text(text)
            with pytest.raises(CampaignError) as caught:
                load_elastic_plan({**CAMPAIGN, "cells": cells}, tmp_path / "tiny.yaml")
            assert ("bad_trace",) == caught.value.codes


class TestRefusals:
    """What cannot be measured is refused before anything runs."""

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({"name": "other"}, ["name_is_not_file"]),
            ({"reference": "ib"}, ["unknown_reference"]),
            ({"reference_state": "grow"}, ["unknown_reference"]),
            ({"resize": None}, ["missing_key"]),
            ({"cells": [{"concurrency": 1, "requests": 4}, {"concurrency": 1, "requests": 8}]}, ["duplicate_name"]),
            ({"prompt": {**CAMPAIGN["prompt"], "shared_prefix_units": 97}}, ["bad_value"]),
            ({"name": "other", "reference": "ib"}, ["name_is_not_file", "unknown_reference"]),
        ],
        ids=["file name", "arm", "state", "no load", "cells", "prefix", "two at once"],
    )
    def test_what_no_single_field_can_know(self, fields: dict[str, Any], expected: list[str]) -> None:
        """Each has its code, and all are told at once."""
        assert expected == codes(**fields)

    @pytest.mark.parametrize(
        "fields",
        [
            {"states": [{"name": "a", "widths": [2, 2]}]},
            {"states": [{"name": "a", "kind": "resize", "widths": [2]}]},
            {"states": [{"name": "a", "widths": [2], "expect": "refused"}]},
            {"cells": [{"requests": 4}]},
            {"cells": [{"concurrency": 4, "rate_per_s": 1.0, "requests": 4}]},
            {"target": {"driver": "vllm", "max_num_seqs": 4}},
            {"target": {"driver": "gpustack", "max_num_seqs": 4, "model": "m"}},
            {"surprise": 1},
        ],
        ids=[
            "same width",
            "one width",
            "refused sweep",
            "no load",
            "two loads",
            "no model",
            "no deployment",
            "unknown",
        ],
    )
    def test_fields_that_do_not_fit(self, fields: dict[str, Any]) -> None:
        """A section that cannot be is a refusal of the file."""
        assert codes(**fields)

    def test_drivers_that_start_no_process(self) -> None:
        """They need an endpoint for each arm, take no options, and drive one deployment."""
        target = {"driver": "vllm", "max_num_seqs": 4, "model": "m"}
        arms = [{"name": "tcp", "transport": "IB", "arguments": {"x": 1}}]
        states = [{"name": "narrow", "widths": [2], "deployments": 2}]
        assert ["bad_value", "bad_value", "missing_key"] == codes(target=target, arms=arms, states=states)

    def test_a_manifest_that_is_not_there(self) -> None:
        """A campaign names files that exist; what they hold is part of the plan."""
        target = {"driver": "gpustack", "max_num_seqs": 4, "model": "m", "namespace": "n", "deployment": "d"}
        arms = [{"name": "tcp", "transport": "IB", "endpoint": "h:1", "manifest": "none.yaml"}]
        assert ["no_such_file"] == codes(target=target, arms=arms, states=[{"name": "narrow", "widths": [2]}])
