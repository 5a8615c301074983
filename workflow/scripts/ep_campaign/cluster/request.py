"""From an attempt at a start to the gang that runs it."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from ep_campaign.cluster.archive import worker_archive
from ep_campaign.errors import refuse
from snakemake_executor_plugin_gang.objects import FILES_PATH, OUT_PATH
from snakemake_executor_plugin_gang.request import GangRequest

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.cluster.config import ClusterPlace
    from ep_worker.contract.spec import StartSpec

CAMPAIGN_LABEL, PLAN_LABEL = "ep-campaign/campaign", "ep-campaign/plan"
GRACE_S = 90.0
"""What pods are given beyond the launcher's own bounds: for interpreters to start and for logs to be written."""
MAX_SAMPLES_BYTES = 8 * 2**20
"""Of raw times in one pod: what is printed of them must fit a container's log before the kubelet rotates it (10 MiB)."""


def gang_name(spec: StartSpec, attempt: int) -> str:
    """The name of an attempt's gang: always the same, so that whoever comes back finds it."""
    readable = re.sub(r"[^a-z0-9]+", "-", spec.campaign.lower()).strip("-")[:24].strip("-")
    key = f"{spec.plan_digest}\n{spec.kind}\n{spec.start}\n{attempt}"
    return f"ep-{readable or 'campaign'}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def labels(campaign: str, plan_digest: str) -> dict[str, str]:
    """Labels by which the gangs of a plan are found."""
    return {CAMPAIGN_LABEL: re.sub(r"[^A-Za-z0-9._-]", "-", campaign)[:63].strip("-._"), PLAN_LABEL: plan_digest[:32]}


def stream_name(spec: StartSpec, attempt: int, pod: int) -> str:
    """What names an attempt's pod in every frame of its log."""
    return f"{spec.start}/attempt-{attempt}/pod-{pod}"


def gang_request(place: ClusterPlace, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> GangRequest:
    """The gang of an attempt.

    Raises:
        CampaignError: Neither arm nor place names an image; the raw times of a pod would not fit its log.
    """
    image = image or place.default_image
    if image is None:
        message = f"arm {spec.arm.name!r} names no image and the place has no default_image: set one of them, by digest"
        raise refuse("no_image", message, spec.start)
    num_bytes = samples_bytes(spec)
    if num_bytes > MAX_SAMPLES_BYTES:
        message = (
            f"the raw times of a pod come to {num_bytes / 2**20:.1f} MiB, {MAX_SAMPLES_BYTES / 2**20:.0f} MiB fit a log: "
            f"lower iterations, modes or boundaries, or use more pods of fewer ranks"
        )
        raise refuse("too_many_samples", message, spec.start)
    num_pods = spec.ep_size // spec.ranks_per_pod
    alone = num_pods == 1
    launch = (place.python, "-m", "ep_worker", "launch", f"{FILES_PATH}/spec.json", OUT_PATH, "--alive")
    nodes = ("--num-nodes", str(num_pods), "--node-rank", "$(GANG_INDEX)")
    rendezvous = () if alone else ("--rendezvous", f"$(GANG_HOST):{place.port}")
    stream = f"{spec.start}/attempt-{attempt}/pod-$(GANG_INDEX)"
    return GangRequest(
        name=gang_name(spec, attempt),
        num_pods=num_pods,
        image=image,
        ranks_command=(*launch, *nodes, *rendezvous),
        collect_command=(place.python, "-m", "ep_worker", "collect", OUT_PATH, stream),
        files={"worker.zip": worker_archive(), **_files(folder, spec)},
        run_bound_s=spec.watchdog_s + spec.rendezvous_timeout_s + GRACE_S,
        environment={**place.environment, "PYTHONPATH": f"{FILES_PATH}/worker.zip", "PYTHONDONTWRITEBYTECODE": "1"},
        nodes=place.nodes,
        one_pod_a_node=place.one_pod_a_node,
        labels={**place.labels, **labels(spec.campaign, spec.plan_digest)},
        description=f"{spec.campaign} {spec.kind} {spec.start} attempt {attempt}",
    )


def samples_bytes(spec: StartSpec) -> int:
    """Upper bound of a pod's raw times [bytes]: four phases of 8 bytes, each iteration and rank."""
    iterations = sum(series.iterations for series in spec.series if series.same_as is None)
    return 8 * 4 * iterations * spec.ranks_per_pod


def _files(folder: Path, spec: StartSpec) -> dict[str, bytes]:
    """The spec, and the traces that it names, flat: a ConfigMap has no folders."""
    found = {"spec.json": (folder / "spec.json").read_bytes()}
    for route in spec.routes:
        if route.trace:
            found[route.trace] = (folder / route.trace).read_bytes()
    return found
