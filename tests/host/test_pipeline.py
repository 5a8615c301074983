"""What the Snakefile asks of its pipeline module."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from plans import SHAPES, campaign

from ep_campaign.errors import CampaignError
from ep_campaign.expand import load_plan
from ep_campaign.pipeline import open_pipeline

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = {"campaign": "tiny", "results": "results", "new_worker": "", "summary": "only"}


def test_a_summary_needs_no_source_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder holds its plan and its copy of the trace; measuring, and a folder without a plan, still need the source."""
    folder = tmp_path / "config" / "campaigns"
    folder.mkdir(parents=True)
    (tmp_path / "config" / "shapes.yaml").write_bytes(SHAPES.read_bytes())
    trace = folder / "t.csv"
    trace.write_text("0,1\n" * 16)
    file = folder / "tiny.yaml"
    file.write_text(yaml.safe_dump(campaign(routes=[{"name": "t", "kind": "trace", "trace": "t.csv"}])))
    plan = load_plan(file, SHAPES)
    trace.unlink()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(CampaignError) as refused:
        open_pipeline(CONFIG)
    assert refused.value.codes == ("no_such_trace",)

    stored = tmp_path / "results" / "tiny" / "plan.json"
    stored.parent.mkdir(parents=True)
    stored.write_text(plan.text())
    assert open_pipeline(CONFIG).plan.digest == plan.digest
    with pytest.raises(CampaignError):
        open_pipeline({**CONFIG, "summary": ""})
