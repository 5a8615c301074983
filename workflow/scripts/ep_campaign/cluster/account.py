"""From what a gang left to files of an attempt and the account of how its processes ended."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ep_campaign.attempt import interrupted
from ep_campaign.cluster.request import stream_name
from ep_worker.contract.framing import decode
from ep_worker.contract.terms import Status
from snakemake_executor_plugin_gang.request import Code

if TYPE_CHECKING:
    from pathlib import Path

    from ep_worker.contract.spec import StartSpec
    from snakemake_executor_plugin_gang.request import Failure, GangResult, PodEnd

_STATUS = {
    Code.IMAGE: Status.INADMISSIBLE,
    Code.RUN_BOUND: Status.TIMED_OUT,
    Code.UNSCHEDULABLE: Status.TIMED_OUT,
    Code.NOT_STARTED: Status.TIMED_OUT,
}
"""Status of what a gang's failure kept from being measured; `crashed` for the others."""
_SECONDARY = ("peer_lost", "collective_timeout", "rendezvous_timeout")
"""What a pod says that only saw another one fail."""


def write_files(folder: Path, spec: StartSpec, attempt: int, pods: tuple[PodEnd, ...]) -> list[str]:
    """Writes what pods left into the attempt's folder; returns what was lost on the way, in words.

    Only files that a launcher writes, of the ranks of its own pod, are believed.
    """
    lost = []
    for pod in pods:
        stream = stream_name(spec, attempt, pod.index)
        decoded = decode(pod.collect_log, expected_streams=(stream,))
        first = pod.index * spec.ranks_per_pod
        ranks = "|".join(map(str, range(first, first + spec.ranks_per_pod)))
        known = re.compile(rf"rank-({ranks})\.(jsonl|samples|log)")
        for (found, name), content in decoded.messages.items():
            if found == stream and known.fullmatch(name):
                (folder / name).write_bytes(content)
            elif found == stream and name == "launcher.json":
                (folder / f"launcher-{pod.index}.json").write_bytes(content)
        lost += [f"pod {pod.index}: {item}" for item in decoded.lost if item.stream == stream]
        (folder / f"pod-{pod.index}.log").write_text(pod.ranks_log, encoding="utf-8")
    return lost


def account_of(folder: Path, spec: StartSpec, result: GangResult, lost: list[str]) -> dict[str, Any]:
    """How all processes of a gang ended, in the terms of one launcher, with what the cluster did."""
    num_pods = spec.ep_size // spec.ranks_per_pod
    launchers = [found for index in range(num_pods) if (found := _launcher(folder, index)) is not None]
    if result.failures:
        base = _of_failure(result.failures[0])
    elif len(launchers) < num_pods:
        missing = sorted(set(range(num_pods)) - {one["node_rank"] for one in launchers})
        codes = {pod.index: pod.exit_code for pod in result.pods}
        text = ", ".join(f"pod {index} (exit status {codes.get(index)})" for index in missing)
        why = f"; lost on the way: {'; '.join(lost)[:300]}" if lost else ""
        base = {
            **interrupted(f"no account of its launcher came back from {text}{why}"),
            "reason_code": "incomplete_logs",
        }
        if not lost:
            base["reason_code"] = "launcher_died"
    else:
        base = min(launchers, key=_rank_of_blame)
    return {
        "outcome": base["outcome"],
        "status": base["status"],
        "reason_code": base["reason_code"],
        "reason": base["reason"],
        "ranks": [rank for one in launchers for rank in one["ranks"]],
        "durations_s": {str(one["node_rank"]): one["durations_s"] for one in launchers},
        "image_ids": [pod.image_id for pod in result.pods],
        "gang": _custody(result),
    }


def _launcher(folder: Path, index: int) -> dict[str, Any] | None:
    try:
        return dict(json.loads((folder / f"launcher-{index}.json").read_text(encoding="ascii")))
    except (OSError, ValueError):
        return None


def _of_failure(failure: Failure) -> dict[str, Any]:
    where = "" if failure.pod is None else f"pod {failure.pod}: "
    status = _STATUS.get(failure.code, Status.CRASHED)
    return {**interrupted(f"{where}{failure.text}"), "status": status.value, "reason_code": failure.code.value}


def _rank_of_blame(launcher: dict[str, Any]) -> tuple[int, int]:
    """Smallest for the pod whose account says why: a failure of its own before one that it only saw, these before none."""
    finished = launcher["outcome"] == "finished"
    return (2 if finished else 1 if launcher["reason_code"] in _SECONDARY else 0, launcher["node_rank"])


def _custody(result: GangResult) -> dict[str, Any]:
    """What the cluster did, for the record: controller's clock, nodes, and the proof that nothing is left."""
    return {
        "seconds": result.seconds,
        "pods": [
            {"index": pod.index, "uid": pod.uid, "node": pod.node, "exit_code": pod.exit_code, "restarts": pod.restarts}
            for pod in result.pods
        ],
        "failures": [{"code": item.code.value, "pod": item.pod, "text": item.text} for item in result.failures],
        "objects": [
            {"kind": item.kind, "name": item.name, "uid": item.uid, "gone": item.gone} for item in result.objects
        ],
        "removed": bool(result.objects) and all(item.gone for item in result.objects),
    }
