"""What a cluster adds to the ranks' own time: recorded in each start, in a table, and in the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from forge import edit_start
from plans import make_plan
from reports import markdown
from summarised import Campaign
from synthetic import make_results

from ep_campaign.aggregate import aggregate
from ep_campaign.analysis.stage import analyse
from ep_campaign.summary import Gangs, read_summary
from ep_campaign.validate import validate
from ep_campaign.validate.report import write

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PLANNED: dict[str, Any] = {"ep_sizes": [{"ranks": 2, "rounds": 1, "scored": False}]}


def campaign(folder: Path, seconds: Sequence[dict[str, float] | None]) -> Campaign:
    """A campaign of three starts, up to its statistics, whose gangs reached these stages; None for a local start."""
    plan = make_plan(folder, **PLANNED)
    results = make_results(folder / "results", plan)
    for start, reached in zip(plan.starts, seconds, strict=True):
        if reached is not None:
            gang = {"seconds": reached}
            edit_start(results, start.id, lambda value, gang=gang: value["launcher"].update(gang=gang))
    write(validate(plan, results), results)
    aggregate(plan, results)
    analyse(plan, results)
    return Campaign(plan, results, read_summary(results.statistics))


def stages(started: float, ended: float, gone: float) -> dict[str, float]:
    """A gang that went through all stages [s since it was asked for]."""
    return {"scheduled": 0.1, "started": started, "ended": ended, "gathered": ended + 0.2, "gone": gone}


def test_each_gang_says_what_the_cluster_added(tmp_path: Path) -> None:
    """Before: until all pods ran. After: from the last pod's end until the gang was gone, 12.5 - 11.25 = 1.25 s."""
    made = campaign(tmp_path, [stages(1.5, 11.25, 12.5), None, {"scheduled": 0.5}])
    rows = pq.read_table(made.results.table("attempts")).to_pylist()

    found = {row["start"]: (row["gang_start_seconds"], row["gang_end_seconds"]) for row in rows}
    assert [(1.5, 1.25), (None, None), (None, None)] == [found[start.id] for start in made.plan.starts]


def test_the_report_says_the_medians(tmp_path: Path) -> None:
    """Three gangs: the middle of 1, 2 and 4 s before, of 1, 3 and 2 s after."""
    made = campaign(tmp_path, [stages(1.0, 10.0, 11.0), stages(2.0, 10.0, 13.0), stages(4.0, 10.0, 12.0)])

    assert made.summary.custody.gangs == Gangs(num_attempts=3, start_s=2.0, end_s=2.0)
    said = "median of 3 gangs on the controller's clock: 2.0 s until all pods ran, 2.0 s until the proof"
    assert said in markdown(made)


@pytest.mark.parametrize("reached", [None, {"scheduled": 0.5}])
def test_nothing_is_said_where_no_gang_ran(tmp_path: Path, reached: dict[str, float] | None) -> None:
    """Local starts, and gangs that never ran, say nothing of what a cluster adds."""
    made = campaign(tmp_path, [reached] * 3)

    assert made.summary.custody.gangs is None
    assert "Added by the cluster" not in markdown(made)
