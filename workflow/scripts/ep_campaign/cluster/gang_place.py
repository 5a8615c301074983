"""A cluster as a place: each attempt is a gang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ep_campaign.cluster.account import account_of, write_files
from ep_campaign.cluster.node_audit import audit_request, judge_audit
from ep_campaign.cluster.request import CAMPAIGN_LABEL, gang_name, gang_request, labels
from ep_campaign.custody.evidence import prove
from ep_campaign.custody.teardown import Owned
from ep_campaign.errors import CampaignError, refuse
from ep_campaign.place import Fitness
from snakemake_executor_plugin_gang.request import Code

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from ep_campaign.cluster.config import ClusterPlace
    from ep_campaign.custody.guard import Guard
    from ep_campaign.custody.teardown import TeardownProof
    from ep_campaign.errors import Refusal
    from ep_campaign.plan import Plan
    from ep_worker.contract.spec import StartSpec
    from snakemake_executor_plugin_gang.gang import Gangs
    from snakemake_executor_plugin_gang.request import GangResult


class GangPlace:
    """A cluster, for one job."""

    def __init__(self, gangs: Gangs, config: ClusterPlace, guard: Guard, stop: threading.Event) -> None:
        self._gangs, self._config, self._guard, self._stop = gangs, config, guard, stop

    def fitness(self, plan: Plan, folder: Path, ep_size: int) -> Fitness:
        """As `Place.fitness`."""
        num_pods = ep_size // plan.ep_entry(ep_size)["ranks_per_pod"]
        own = (CAMPAIGN_LABEL, labels(plan.name, plan.digest)[CAMPAIGN_LABEL])
        observed: dict[str, Any] = {"namespace": self._gangs.api.namespace, "num_pods": num_pods}
        refusals: list[Refusal] = []
        try:
            num_nodes = num_pods if self._config.one_pod_a_node else 1
            observed["nodes"] = self._guard.admit(self._config.nodes, num_nodes, own)
        except CampaignError as error:
            refusals += error.refusals
        audit = self._config.custody.audit
        if audit is not None and not refusals:
            num_audits = len(self._config.nodes) or num_pods
            result = self._gangs.run(audit_request(self._config, audit, plan, num_audits), self._stop)
            observed["audits"], refusals = judge_audit(audit, plan, result)
        observed["lease"] = self._guard.account()
        return Fitness(observed, refusals, [])

    def launch(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any]:
        """As `Place.launch`; the gang is gone, and that proved, before this returns."""
        result = self._gangs.run(gang_request(self._config, folder, spec, attempt, image), self._stop)
        stopped = next((item for item in result.failures if item.code in (Code.API_UNREACHABLE, Code.CANCELLED)), None)
        if stopped is not None:
            message = f"{stopped.text}; the same command goes on with what is left of it"
            raise refuse(stopped.code.value, message, f"{spec.start} attempt {attempt}")
        lost = write_files(folder, spec, attempt, result.pods)
        account = account_of(folder, spec, result, lost)
        account["gang"]["teardown"] = self._teardown(result).as_json()
        proof = prove(folder, spec, self._config.custody.fabric)
        account["transport"] = proof.as_json()
        if account["outcome"] == "finished" and not proof.admissible:
            account["inadmissible"] = {"reason_code": proof.reason_code, "reason": f"transport: {proof.reason}"}
        return account

    def _teardown(self, result: GangResult) -> TeardownProof:
        """What became of the gang's objects, and whose fault it is where one is left."""
        made = [
            (Owned(item.kind, self._gangs.api.namespace, item.name, item.uid), item.gone) for item in result.objects
        ]
        gone, left = [item for item, is_gone in made if is_gone], [item for item, is_gone in made if not is_gone]
        return self._guard.judge_remaining(
            gone, left, result.seconds.get("gone", 0.0) - result.seconds.get("gathered", 0.0)
        )

    def resume(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any] | None:
        """As `Place.resume`: a gang outlives its controller."""
        if not self._gangs.exists(gang_name(spec, attempt), self._stop):
            return None
        return self.launch(folder, spec, attempt, image)
