"""The audit of nodes: a gang of one pod a node, of a pinned image, that reads what the kernel shows, and what came of it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from ep_campaign.cluster.archive import worker_archive
from ep_campaign.cluster.request import labels
from ep_campaign.custody.audit import audit_refusals
from ep_campaign.errors import Refusal
from ep_worker.contract.framing import decode
from snakemake_executor_plugin_gang.objects import FILES_PATH, OUT_PATH
from snakemake_executor_plugin_gang.request import GangRequest

if TYPE_CHECKING:
    from ep_campaign.cluster.config import ClusterPlace
    from ep_campaign.custody.place import AuditSection
    from ep_campaign.plan import Plan
    from snakemake_executor_plugin_gang.request import GangResult, PodEnd

RUN_BOUND_S = 60.0


def audit_request(place: ClusterPlace, audit: AuditSection, plan: Plan, num_pods: int) -> GangRequest:
    """The gang that audits the nodes of an EP size; its pods have the devices that ranks have."""
    key = f"{plan.digest}\naudit\n{num_pods}"
    return GangRequest(
        name=f"ep-audit-{hashlib.sha256(key.encode()).hexdigest()[:12]}",
        num_pods=num_pods,
        image=audit.image,
        ranks_command=(place.python, "-m", "ep_worker.audit", OUT_PATH),
        collect_command=(place.python, "-m", "ep_worker", "collect", OUT_PATH, f"{key_stream(plan)}/$(GANG_INDEX)"),
        files={"worker.zip": worker_archive()},
        run_bound_s=RUN_BOUND_S,
        environment={"PYTHONPATH": f"{FILES_PATH}/worker.zip", "PYTHONDONTWRITEBYTECODE": "1"},
        nodes=place.nodes,
        one_pod_a_node=True,
        labels={**place.labels, **labels(plan.name, plan.digest)},
        description=f"{plan.name}: audit of {num_pods} nodes",
    )


def key_stream(plan: Plan) -> str:
    """What names the audit in every frame of its pods' logs."""
    return f"audit/{plan.digest[:16]}"


def judge_audit(audit: AuditSection, plan: Plan, result: GangResult) -> tuple[dict[str, Any], list[Refusal]]:
    """What each node showed, and what is wrong with it; an audit that did not come back is wrong as well."""
    audits: dict[str, dict[str, Any]] = {}
    refusals = [
        Refusal("audit_failed", f"the audit did not run: {item.text} ({item.code.value})", "node set")
        for item in result.failures
    ]
    for pod in result.pods:
        found = _audit_of(plan, pod)
        if found is not None:
            audits[pod.node] = found
        elif not result.failures:
            last = " ".join(pod.ranks_log.split())[-200:]
            message = f"its audit did not come back (exit status {pod.exit_code}): {last or 'nothing was printed'}"
            refusals.append(Refusal("audit_failed", message, f"node {pod.node}"))
    return audits, refusals or audit_refusals(audit.needs(), audits)


def _audit_of(plan: Plan, pod: PodEnd) -> dict[str, Any] | None:
    stream = f"{key_stream(plan)}/{pod.index}"
    content = decode(pod.collect_log, expected_streams=(stream,)).messages.get((stream, "audit.json"))
    return None if content is None else dict(json.loads(content))
