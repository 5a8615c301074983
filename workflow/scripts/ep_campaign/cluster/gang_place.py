"""A cluster as a place: each attempt is a gang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_campaign.cluster.account import account_of, write_files
from ep_campaign.cluster.request import gang_name, gang_request
from ep_campaign.errors import refuse
from ep_campaign.place import Fitness
from snakemake_executor_plugin_gang.request import Code

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from ep_campaign.cluster.config import ClusterPlace
    from ep_campaign.plan import Plan
    from ep_worker.contract.spec import StartSpec
    from snakemake_executor_plugin_gang.gang import Gangs


class GangPlace:
    """A cluster, for one job."""

    def __init__(self, gangs: Gangs, config: ClusterPlace, stop: threading.Event) -> None:
        self._gangs, self._config, self._stop = gangs, config, stop

    def fitness(self, plan: Plan, folder: Path, ep_size: int) -> Fitness:
        """As `Place.fitness`."""
        observed = {"namespace": self._gangs.api.namespace, "nodes": list(self._config.nodes)}
        return Fitness({**observed, "num_pods": ep_size // plan.ep_entry(ep_size)["ranks_per_pod"]}, [], [])

    def launch(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any]:
        """As `Place.launch`; the gang is gone, and that proved, before this returns."""
        result = self._gangs.run(gang_request(self._config, folder, spec, attempt, image), self._stop)
        stopped = next((item for item in result.failures if item.code in (Code.API_UNREACHABLE, Code.CANCELLED)), None)
        if stopped is not None:
            message = f"{stopped.text}; the same command goes on with what is left of it"
            raise refuse(stopped.code.value, message, f"{spec.start} attempt {attempt}")
        lost = write_files(folder, spec, attempt, result.pods)
        return account_of(folder, spec, result, lost)

    def resume(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any] | None:
        """As `Place.resume`: a gang outlives its controller."""
        if not self._gangs.exists(gang_name(spec, attempt), self._stop):
            return None
        return self.launch(folder, spec, attempt, image)
