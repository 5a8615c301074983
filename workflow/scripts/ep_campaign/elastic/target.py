"""The driver of an arm, made from the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_campaign.drivers.cluster import Cluster
from ep_campaign.drivers.driver import Endpoint
from ep_campaign.drivers.engine import EngineDriver, EngineOptions
from ep_campaign.drivers.gpustack import GpustackDriver, GpustackOptions
from ep_campaign.drivers.vllm import VllmDriver, VllmOptions
from ep_campaign.elastic.campaign import DriverName
from ep_campaign.errors import refuse
from ep_campaign.load import read_yaml
from ep_campaign.pipeline import CAMPAIGNS
from ep_worker.contract.canonical import sha256_file

if TYPE_CHECKING:
    from ep_campaign.drivers.driver import Driver
    from ep_campaign.elastic.plan import ElasticPlan


def make_driver(plan: ElasticPlan, arm: str, work: Path) -> Driver:
    """A driver that has started nothing yet.

    Args:
        plan: Plan.
        arm: Name of the arm.
        work: Folder for what a bundled engine writes.

    Raises:
        CampaignError: A manifest is not what was planned.
    """
    target, declared, limits = plan.document["target"], plan.document["arms"][arm], plan.document["limits"]
    resize = plan.document["resize"] or {"timeout_s": limits["start_timeout_s"]}
    if target["driver"] == DriverName.ENGINE.value:
        arguments = {**target["arguments"], **declared["arguments"], "max-num-seqs": target["max_num_seqs"]}
        return EngineDriver(EngineOptions(work, arguments, limits["start_timeout_s"], resize["timeout_s"]))
    host, _, port = declared["endpoint"].rpartition(":")
    endpoint = Endpoint(host, int(port), target["model"])
    if target["driver"] == DriverName.VLLM.value:
        log = Path(declared["log"]) if declared["log"] else None
        return VllmDriver(VllmOptions(endpoint, log, resize_timeout_s=resize["timeout_s"]))
    proxy_host, _, proxy_port = target["proxy"].rpartition(":")
    return GpustackDriver(
        GpustackOptions(
            cluster=Cluster(proxy_host, int(proxy_port)),
            namespace=target["namespace"],
            name=target["deployment"],
            endpoint=endpoint,
            manifest=_manifest(declared),
            start_timeout_s=limits["start_timeout_s"],
        )
    )


def _manifest(declared: dict[str, Any]) -> dict[str, Any] | None:
    if declared["manifest"] is None:
        return None
    path = CAMPAIGNS / declared["manifest"]
    if not path.is_file() or sha256_file(path) != declared["manifest_sha256"]:
        message = "the manifest is not the one that was planned: restore it, or start a new campaign folder"
        raise refuse("manifest_changed", message, str(path))
    return dict(read_yaml(path))
