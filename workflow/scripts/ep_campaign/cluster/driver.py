"""The executor's driver: what the jobs of this workflow mean on a cluster."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ep_campaign.admission import admit, lines
from ep_campaign.cluster.config import load_place
from ep_campaign.cluster.gang_place import GangPlace
from ep_campaign.cluster.request import gang_name, labels
from ep_campaign.custody.guard import Guard, holder_of
from ep_campaign.custody.server import Server
from ep_campaign.errors import CampaignError, refuse
from ep_campaign.layout import Results, of_outcome
from ep_campaign.measure import describe, measure
from ep_campaign.plan import read_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from ep_campaign.plan import Plan
    from snakemake_executor_plugin_gang.driver import GangJob
    from snakemake_executor_plugin_gang.gang import Gangs


class CampaignDriver:
    """Measures and admits on a cluster; made once for a workflow."""

    def __init__(self, gangs: Gangs, place: Path, tell: Callable[[str], None]) -> None:
        try:
            self._config = load_place(Path(place))
        except CampaignError as error:
            raise ValueError(str(error)) from None
        self._gangs, self._tell = gangs, tell
        self._guard: Guard | None = None
        self._guarding = threading.Lock()
        self._swept: set[str] = set()

    def run(self, job: GangJob, stop: threading.Event) -> None:
        """Runs one job of rule `measure` or `admit`.

        Raises:
            CampaignError: No record could be made.
        """
        output = Path(job.outputs[0])
        if job.rule == "measure":
            results, start_id, first_attempt = of_outcome(output)
            plan = read_plan(results.plan)
            place = self._place(plan, results, stop)
            start = plan.by_id[start_id]
            outcome = measure(plan, results, start, first_attempt, place)
            self._tell(describe(plan, results, start, outcome))
        elif job.rule == "admit":
            results = Results(output.parents[1])
            plan = read_plan(results.plan)
            place = self._place(plan, results, stop)
            ep_size = int(job.wildcards["ep"])
            for line in lines(ep_size, admit(plan, results, ep_size, place)):
                self._tell(line)
        else:
            raise refuse("unknown_rule", f"rule {job.rule!r} has no meaning on a cluster: list it under localrules")

    def close(self) -> None:
        """Gives the lease back."""
        with self._guarding:
            if self._guard is not None:
                self._guard.close()
                self._guard = None

    def _place(self, plan: Plan, results: Results, stop: threading.Event) -> GangPlace:
        """The cluster for one job: ours to use, and rid of what dead controllers left.

        Raises:
            CampaignError: A right is missing, or the nodes are another's.
        """
        with self._guarding:
            if self._guard is None:
                server = Server(self._gangs.api)
                guard = Guard(server, self._config.custody, holder_of(plan.name, results.root))
                guard.open()
                self._guard = guard
            self._guard.check()
            # Only now: what is swept might else be another controller's, which has the lease.
            self._sweep(plan, results, stop)
            return GangPlace(self._gangs, self._config, self._guard, stop)

    def _sweep(self, plan: Plan, results: Results, stop: threading.Event) -> None:
        """Removes, once, what dead controllers of this plan left: every gang that no open attempt can still harvest."""
        if plan.digest in self._swept:
            return
        open_attempts = {
            gang_name(plan.spec(start), attempt)
            for start in plan.starts
            for attempt in results.attempts(start.id)
            if not (results.attempt(start.id, attempt) / "start.json").exists()
        }
        for name in self._gangs.names(labels(plan.name, plan.digest), stop):
            if name not in open_attempts:
                self._tell(f"removing gang {name}, which a controller that is gone left behind")
                self._gangs.remove(name)
        self._swept.add(plan.digest)
