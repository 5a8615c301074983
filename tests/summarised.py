"""Results folders that went through validation, aggregation and analysis: what figures and reports are made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from latency_model import Model
from plans import ARMS, make_plan, profile
from synthetic import WORKER_DIGEST, Attempt, make_results

from ep_campaign.aggregate import aggregate
from ep_campaign.analysis.stage import analyse
from ep_campaign.figures.view import View
from ep_campaign.summary import Summary, read_summary
from ep_campaign.validate import validate
from ep_campaign.validate.report import write
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan

MEASUREMENT = {
    "boundaries": ["dispatch_ready", "gemm_ready"],
    "modes": ["host_start", "graph", "chained"],
    "isolated_loops": True,
    "iterations": 20,
    "warmups": 2,
}
SLOWER = Model(arm_factor={"torch-agrs": 1.12})


@dataclass(frozen=True)
class Campaign:
    """A campaign up to its statistics.

    Attributes:
        plan: Plan.
        results: Its folder.
        summary: What `statistics.json` holds.
    """

    plan: Plan
    results: Results
    summary: Summary

    @property
    def view(self) -> View:
        """As figures see it."""
        return View(self.plan, self.summary)


def summarise(
    folder: Path,
    model: Model | None = None,
    attempts: Callable[[Plan], Mapping[str, Sequence[Attempt]]] | None = None,
    *,
    workers: Sequence[str] = (WORKER_DIGEST,),
    **fields: Any,
) -> Campaign:
    """A campaign of two routes, two dtypes and three arms over 12 rounds, unless `fields` say otherwise."""
    given = {
        "name": "summarised",
        "profiles": [profile("decode")],
        "routes": [{"name": "uniform", "kind": "uniform"}, {"name": "zipf", "kind": "zipf"}],
        "dtypes": ["fp8", "bf16"],
        "ep_sizes": [{"ranks": 2, "rounds": 12}],
        "measurement": MEASUREMENT,
        **fields,
    }
    folder.mkdir(parents=True, exist_ok=True)
    plan = make_plan(folder, **given)
    results = make_results(
        folder / "results", plan, model or SLOWER, attempts(plan) if attempts else None, workers=workers
    )
    write(validate(plan, results), results)
    aggregate(plan, results)
    analyse(plan, results)
    return Campaign(plan, results, read_summary(results.statistics))


def six_arms() -> list[dict[str, Any]]:
    """The portable arms, and each again as a build under test."""
    environment = {"environment": {"EP_BUILD": "1"}, "environment_reasons": {"EP_BUILD": "the build under test"}}
    return [
        *({"name": arm, "backend": arm} for arm in ARMS),
        *({"name": f"{arm}-under-test", "backend": arm, **environment} for arm in ARMS),
    ]


def broken(plan: Plan) -> dict[str, Sequence[Attempt]]:
    """One of every misfortune: crashes, a late start, a wrong value, a start that never was."""
    of = {(start.round, start.arm): start.id for start in plan.starts}
    crash, wrong = Attempt(status=Status.CRASHED, reason_code="rank_died"), Attempt(status=Status.INCORRECT)
    return {
        of[(3, "torch-agrs")]: (crash, crash),
        of[(7, "torch-a2a")]: (Attempt(status=Status.TIMED_OUT, infrastructure=True), Attempt(late=True)),
        of[(9, "torch-a2a-cached")]: (wrong,),
        of[(10, "torch-a2a-cached")]: (),
    }


def ended(plan: Plan) -> dict[str, Sequence[Attempt]]:
    """The last two rounds closed by the budget."""
    return {start.id: (Attempt(status=Status.NOT_RUN),) for start in plan.starts if start.round > 10}


def outliers(plan: Plan) -> Model:
    """Two starts of one arm far above all others."""
    far = [start.id for start in plan.starts if start.arm == "torch-agrs" and start.round in (3, 5)]
    return Model(arm_factor={"torch-agrs": 1.12}, outlier_starts=dict(zip(far, (5.0, 7.5), strict=True)))
