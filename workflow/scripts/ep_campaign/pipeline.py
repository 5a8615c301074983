"""What the Snakefile asks: the plan, the targets, the order. Rules hold no logic; it is all here."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_campaign.errors import CampaignError, refuse
from ep_campaign.identity import (
    Locked,
    accept_worker,
    analysis_digest,
    check_plan,
    check_worker,
    lock,
    node_set_lock_path,
    worker_digest,
)
from ep_campaign.jsonfile import read_object
from ep_campaign.kinds import load_any_plan
from ep_campaign.layout import Results
from ep_campaign.plan import read_plan

if TYPE_CHECKING:
    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.plan import Plan

CAMPAIGNS = Path("config/campaigns")
SHAPES = Path("config/shapes.yaml")
LOCAL_NODE_SET = "local"


def campaign_path(name: str) -> Path:
    """The file of a campaign that is named, with or without its suffix.

    Raises:
        CampaignError: This is not the folder that holds the campaigns.
    """
    if not CAMPAIGNS.is_dir():
        message = f"there is no folder {CAMPAIGNS} in {Path.cwd()}: run this from the repository's root"
        raise refuse("wrong_folder", message)
    return CAMPAIGNS / f"{name.removesuffix('.yaml')}.yaml"


@dataclass(frozen=True)
class Pipeline:
    """One campaign, as this invocation sees it.

    Attributes:
        plan: The plan of the campaign file.
        results: Its results folder.
        summary_only: Never measure: the inputs are the outcomes that exist.
        new_worker: Reason for accepting another worker; empty where none was given.
    """

    plan: Plan | ElasticPlan
    results: Results
    summary_only: bool
    new_worker: str

    @cached_property
    def worker_digest(self) -> str:
        """Digest of this checkout's worker."""
        return worker_digest(self.plan.kind)

    @cached_property
    def analysis_digest(self) -> str:
        """Digest of this checkout's host side."""
        return analysis_digest()

    @cached_property
    def targets(self) -> dict[str, int]:
        """For each start the first attempt of the job that is its target."""
        return {start.id: self.results.target(start.id) for start in self.plan.starts}

    @cached_property
    def pending(self) -> list[str]:
        """Starts that this invocation would measure."""
        return [id_ for id_, attempt in self.targets.items() if not self.results.outcome(id_, attempt).exists()]

    @cached_property
    def outcomes(self) -> list[str]:
        """Paths of the outcomes that a summary needs."""
        if self.summary_only:
            return [str(self._last_outcome(start.id)) for start in self.plan.starts if self._last_outcome(start.id)]
        return [str(self.results.outcome(id_, attempt)) for id_, attempt in self.targets.items()]

    @cached_property
    def kernel_times(self) -> list[str]:
        """Paths of the kernel times that the plan asks for; none by default."""
        if not self.plan.document.get("kernel_times"):
            return []
        paths = [self.results.kernel_times(size["ranks"]) for size in self.plan.document["ep_sizes"]]
        return [str(path) for path in paths if path.exists() or not self.summary_only]

    def outcomes_of(self, ep_size: int) -> list[str]:
        """Paths of the outcomes of one EP size that a summary needs."""
        return [path for path in self.outcomes if f"/starts/ep{ep_size}/" in path]

    @cached_property
    def lost_mark(self) -> list[str]:
        """The mark that a summarised folder has lost, so that the last stage writes it again; usually empty."""
        results = self.results
        whole = results.checksums.exists() and results.validation.exists() and (self.summary_only or not self.pending)
        if not whole or results.complete.exists() or results.partial.exists():
            return []
        try:
            state = read_object(results.validation, str(results.validation)).get("state")
        except CampaignError:
            return []  # the stages that read it say so
        return [str(results.complete if state == "complete" else results.partial)]

    def _last_outcome(self, start_id: str) -> Path | None:
        existing = sorted(self.results.start(start_id).glob("outcome-*.json"), key=lambda p: int(p.stem.split("-")[1]))
        return existing[-1] if existing else None

    def priority(self, start_id: str) -> int:
        """Higher runs earlier: the plan's order."""
        return len(self.plan.starts) - self.plan.by_id[start_id].position

    def num_nodes(self, ep_size: int) -> int:
        """Hosts that a start of an EP size runs on."""
        sizes = {size["ranks"]: size["ranks_per_pod"] for size in self.plan.document["ep_sizes"]}
        return ep_size // int(sizes[ep_size])

    def hold(self, *, here: bool) -> list[Locked]:
        """Takes the campaign's lock, and this machine's if anything is to be measured `here`; records the worker.

        Raises:
            CampaignError: Another process holds one of them, or the folder cannot be written.
        """
        held = [lock(self.results.root / ".lock", f"campaign {self.plan.name}")]
        if self.pending and not self.summary_only:
            if here:
                held.append(lock(node_set_lock_path(LOCAL_NODE_SET), f"node set {LOCAL_NODE_SET}"))
            accept_worker(self.results, self.worker_digest, self.new_worker)
        return held


def use_this_interpreter() -> None:
    """Puts this interpreter's folder first on the path, so that jobs run it also where its environment is not activated."""
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def _plan(config: dict[str, Any]) -> Plan | ElasticPlan:
    """The plan of the campaign file; a summary whose source trace is gone takes that of the folder, which holds its own copy."""
    path = campaign_path(str(config["campaign"]))
    try:
        return load_any_plan(path, SHAPES)
    except CampaignError as error:
        stored = Results(Path(str(config["results"])) / path.stem).plan
        if config["summary"] != "only" or set(error.codes) != {"no_such_trace"} or not stored.exists():
            raise
        return read_plan(stored)


def open_pipeline(config: dict[str, Any]) -> Pipeline:
    """The pipeline of a Snakemake configuration.

    Raises:
        CampaignError: The configuration, the campaign file or the results folder is refused.
    """
    known = {"campaign", "results", "new_worker", "summary"}
    unknown = sorted(set(config) - known)
    if unknown:
        raise refuse("unknown_config", f"unknown --config {', '.join(unknown)}; known: {', '.join(sorted(known))}")
    if config["summary"] not in ("", "only"):
        raise refuse("bad_config", f"summary={config['summary']!r}; expected summary=only, or nothing")
    plan = _plan(config)
    results = Results(Path(str(config["results"])) / plan.name)
    blocking = next((path for path in (results.root, *results.root.parents) if path.exists()), Path())
    if not blocking.is_dir():
        raise refuse("not_a_folder", f"results={config['results']}: a file lies there; name a folder", str(blocking))
    pipeline = Pipeline(plan, results, config["summary"] == "only", str(config["new_worker"]))
    check_plan(plan, results)
    if pipeline.pending and not pipeline.summary_only:
        check_worker(results, pipeline.worker_digest, pipeline.new_worker)
    return pipeline
