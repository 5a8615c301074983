"""A live resize: a closed loop and an open-loop prober run throughout, while the width changes and is proved."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from ep_campaign.drivers.convergence import Verdict
from ep_campaign.drivers.follow import Followed, Patience, follow
from ep_campaign.elastic.loader import Loader
from ep_campaign.elastic.sweep import load_spec
from ep_load.spec import Arrivals, Stream

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.drivers.driver import Driver, Endpoint
    from ep_campaign.elastic.plan import ElasticPlan

LOAD, PROBER = "load", "prober"


def resize_under_load(
    plan: ElasticPlan, driver: Driver, endpoint: Endpoint, widths: list[int], folder: Path
) -> list[Followed]:
    """Goes through widths under load; stops at the first that is not reached.

    Returns:
        What each resize came to; the load's files lie in `cells/load/`.

    Raises:
        CampaignError: `load_failed`, or `baseline_unproved`.
    """
    how = plan.document["resize"]
    streams = (
        Stream(LOAD, Arrivals.CLOSED, "load", how["concurrency"]),
        Stream(PROBER, Arrivals.PROBE, "probe", rate_per_s=how["probe_rate_per_s"], path=how["probe_path"]),
    )
    loader = Loader(load_spec(plan, [endpoint], streams), folder / "cells" / LOAD)
    followed: list[Followed] = []
    try:
        for old, new in itertools.pairwise(widths):
            time.sleep(how["before_s"])
            followed.append(follow(driver, endpoint, old, new, patience(plan)))
            if followed[-1].verdict is not Verdict.CONVERGED:
                break
        time.sleep(how["after_s"])
        loader.stop()
    finally:
        loader.kill()
    return followed


def patience(plan: ElasticPlan) -> Patience:
    """How resizes are watched."""
    how = plan.document["resize"]
    if how is None:
        return Patience(timeout_s=plan.document["limits"]["start_timeout_s"])
    return Patience(how["poll_s"], how["timeout_s"])
