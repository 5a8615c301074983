"""A serving sweep: every cell in turn, each its own run of load, on one or more deployments at one width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_campaign.elastic.calibrate import calibrate
from ep_campaign.elastic.campaign import ArrivalKind
from ep_campaign.elastic.loader import Loader
from ep_load.spec import Arrivals, LoadSpec, Prompt, Stream

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ep_campaign.drivers.driver import Endpoint
    from ep_campaign.elastic.plan import ElasticPlan


def sweep(plan: ElasticPlan, endpoints: Sequence[Endpoint], folder: Path) -> dict[str, Any]:
    """Runs all cells.

    Returns:
        The client's calibration; each cell's files lie in `cells/<name>/`.

    Raises:
        CampaignError: `load_failed`.
    """
    cells = plan.cells.values()
    most = max((cell["concurrency"] or 1 for cell in cells), default=1)
    calibration = calibrate(most, plan.document["seed"], folder / "calibration")
    for cell in cells:
        spec = load_spec(plan, endpoints, (cell_stream(cell),))
        loader = Loader(spec, folder / "cells" / cell["name"])
        try:
            loader.wait(cell_timeout_s(plan, cell))
        finally:
            loader.kill()
    return {"calibration": calibration}


def load_spec(plan: ElasticPlan, endpoints: Sequence[Endpoint], streams: tuple[Stream, ...]) -> LoadSpec:
    """Load on endpoints, as the plan wants it."""
    limits = plan.document["limits"]
    return LoadSpec(
        endpoints=tuple(f"{one.host}:{one.port}" for one in endpoints),
        model=endpoints[0].model,
        prompt=Prompt(**plan.document["prompt"]),
        streams=streams,
        seed=plan.document["seed"],
        drain_s=limits["drain_s"],
        request_timeout_s=limits["request_timeout_s"],
    )


def cell_stream(cell: dict[str, Any]) -> Stream:
    """The stream of one cell."""
    closed = cell["arrivals"] == ArrivalKind.CLOSED.value
    return Stream(
        name=cell["name"],
        arrivals=Arrivals.CLOSED if closed else Arrivals.OPEN,
        phase="measured",
        concurrency=cell["concurrency"] or 1,
        num_warmups=cell["num_warmups"],
        num_requests=cell["requests"],
        offsets_s=tuple(cell["offsets_s"]),
    )


def cell_timeout_s(plan: ElasticPlan, cell: dict[str, Any]) -> float:
    """What a cell can take at most: every request its bound, one after the other in each worker."""
    bound_s = float(plan.document["limits"]["request_timeout_s"])
    if cell["offsets_s"]:
        return float(cell["offsets_s"][-1]) + 2 * bound_s
    total = cell["num_warmups"] + cell["requests"]
    return float(bound_s * (1 + -(-total // cell["concurrency"])))
