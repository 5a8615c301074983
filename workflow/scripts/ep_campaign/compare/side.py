"""One side of a comparison: a sealed campaign of ours, or a published one, as start values by what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ep_campaign.cite import cite
from ep_campaign.errors import refuse
from ep_campaign.layout import Results
from ep_campaign.plan import TIMED_KINDS, read_plan
from ep_campaign.published_schema import load_published
from ep_campaign.stats.published_compat import PublishedArm
from ep_campaign.stats.verdict import Rules
from ep_campaign.summary import Role, read_summary
from ep_worker.contract.canonical import canonical_json, sha256_file, sha256_text
from ep_worker.contract.workload import RouteKind

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan
    from ep_campaign.summary import Contrast, Summary
    from ep_campaign.summary import Level as SummaryLevel

_ROUTE = (
    "kind",
    "num_tokens",
    "thresholds",
    "member_thresholds",
    "experts_per_group",
    "mask_threshold",
    "trace_sha256",
)
"""What makes a route the same workload; its seed only makes another draw of it."""
_MACHINE = ("gpu_model", "cpu_model", "num_cpus")
_US_PER_MS = 1e3
RULES = Rules()
"""By which a published campaign, which declares none, would be judged."""
_OUR_NAMES = {
    PublishedArm.DEEPEP_V1: "deepep-v1",
    PublishedArm.DEEPEP_V2: "deepep-v2",
    PublishedArm.UCCL: "uccl",
}
PUBLISHED = "published"
OURS = "campaign"


class Key(NamedTuple):
    """What was measured, whatever a campaign calls it."""

    ep_size: int
    tokens_per_rank: int
    hidden: int
    experts: int
    top_k: int
    route: str
    dtype: str
    boundary: str
    mode: str
    loop: str
    arm: str

    @property
    def text(self) -> str:
        """In a table."""
        phase = "" if self.loop == "roundtrip" else f", {self.loop} alone"
        shape = f"{self.tokens_per_rank:,} x {self.hidden:,}, {self.experts} experts, top-{self.top_k}"
        return f"EP {self.ep_size}, {shape}, {self.route.partition(' ')[0]}, {self.dtype}, {self.boundary}, {self.mode}{phase}"


@dataclass(frozen=True)
class Level:
    """Start values [us] of one arm at one place."""

    backend: str
    api_mode: str
    values_us: tuple[float, ...]


@dataclass(frozen=True)
class Ranking:
    """An arm against its campaign's reference: ratio with interval, and the verdict where one was made."""

    reference: str
    ratio: float
    lo: float
    hi: float
    verdict: str


@dataclass(frozen=True)
class Side:
    """One campaign.

    Attributes:
        label: Name.
        source: `campaign` or `published`.
        identity: Digests and state, for the head of the output.
        facts: What may differ between two campaigns, by name; values of arms as `arm: value`.
        machine: What must agree before times may be judged against each other; empty where it is not known.
        levels: Start values by what was measured.
        rankings: Contrasts by what was measured.
        shared_sizes: EP sizes whose ranks shared GPUs.
        alpha: Error rate of its family.
        threshold: Practical threshold.
    """

    label: str
    source: str
    identity: dict[str, str]
    facts: dict[str, str]
    machine: dict[str, str]
    levels: dict[Key, Level]
    rankings: dict[Key, Ranking]
    shared_sizes: frozenset[int]
    alpha: float
    threshold: float


def read_side(path: Path) -> Side:
    """A results folder, or a file of a published campaign.

    Raises:
        CampaignError: The folder is not sealed or altered; it is of kind elastic (`not_comparable`); the file is none.
    """
    if path.is_dir():
        return _of_campaign(Results(path))
    return _of_published(path)


def _of_campaign(results: Results) -> Side:
    citation = cite(results)
    if citation.kind not in TIMED_KINDS:
        message = f"is of kind {citation.kind}; expected a comparison or a regression, which time dispatch and combine"
        raise refuse("not_comparable", message, str(results.root))
    plan, summary = read_plan(results.plan), read_summary(results.statistics)
    superseded = citation.superseded_by
    identity = {"plan": citation.plan_digest, "seal": citation.seal_sha256, "state": citation.state}
    if superseded is not None:
        identity["superseded by"] = f"{superseded.by_campaign}: {superseded.reason}"
    cells = _cells(plan, summary)
    levels = {
        _key(cells[item.cell], item): Level(item.backend, item.api_mode.value, item.values_us)
        for item in summary.levels
        if item.values_us and item.same_as is None
    }
    rankings = {
        _key(cells[item.cell], item): Ranking(
            item.reference, item.ratio, item.interval.lo, item.interval.hi, str(item.ruling) if item.ruling else ""
        )
        for item in summary.contrasts
        if item.role is not Role.SECONDARY and item.ratio is not None and item.interval is not None
    }
    family = summary.head.family
    machine = _machine(summary, plan)
    return Side(
        citation.campaign,
        OURS,
        identity,
        _facts(plan, summary),
        machine,
        levels,
        rankings,
        frozenset(size.ranks for size in summary.head.ep_sizes if size.ranks_per_device > 1),
        family.alpha,
        family.practical_threshold,
    )


def _key(cell: dict[str, Any], item: SummaryLevel | Contrast) -> Key:
    return Key(**cell, boundary=item.boundary.value, mode=item.mode.value, loop=item.loop.value, arm=item.arm)


def _cells(plan: Plan, summary: Summary) -> dict[str, dict[str, Any]]:
    """What each cell is, by its id: the fields of a key that do not depend on how it was timed."""
    profiles = {item.name: item for item in summary.head.profiles}
    routes = {
        (profile, int(size), route["name"]): route
        for profile, sizes in plan.document["routes"].items()
        for size, found in sizes.items()
        for route in found
    }
    keys: dict[str, dict[str, Any]] = {}
    for cell in summary.head.cells:
        profile, route = profiles[cell.profile], routes[cell.profile, cell.ep_size, cell.route]
        formula = sha256_text(canonical_json({name: route[name] for name in _ROUTE}))[:12]
        # The published formula follows from the shape alone.
        kind = cell.route_kind if cell.route_kind == RouteKind.AFFINE.value else f"{cell.route_kind} {formula}"
        shape = {name: getattr(profile, name) for name in ("tokens_per_rank", "hidden", "experts", "top_k")}
        keys[cell.id] = {"ep_size": cell.ep_size, **shape, "route": kind, "dtype": cell.dtype.value}
    return keys


def _machine(summary: Summary, plan: Plan) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in _MACHINE:
        values = {canonical_json(item.same[name]) for item in summary.observed if name in item.same}
        found[name] = " and ".join(sorted(values)) or "varies"
    for size in plan.document["ep_sizes"]:
        found[f"placement of EP {size['ranks']}"] = f"{size['ranks_per_pod']} ranks a pod"
    return found


def _facts(plan: Plan, summary: Summary) -> dict[str, str]:
    """Everything that may explain a difference, in the order in which a reader should look at it."""
    document = plan.document
    facts = {"device": str(document["device"]), "input": str(document["input"]), "seed": str(document["seed"])}
    facts["order"] = str(document["order"])
    for name, profile in document["profiles"].items():
        how = profile["measurement"]
        facts[f"iterations of {name}"] = f"{how['warmups']} + {how['iterations']}"
    for arm, entry in document["arms"].items():
        facts[f"{arm}: knobs"] = canonical_json(entry["knobs"])
        facts[f"{arm}: environment"] = canonical_json(entry["environment"])
        facts[f"{arm}: image"] = str(entry["image"])
    for seen in summary.observed:
        facts[f"{seen.arm}: worker, EP {seen.ep_size}"] = ", ".join(item[:12] for item in seen.worker_digests)
        for name, value in seen.same.items():
            facts[f"{seen.arm}: {name}, EP {seen.ep_size}"] = canonical_json(value)
    return facts


def _of_published(path: Path) -> Side:
    campaign = load_published(path)
    how = campaign.configuration
    levels = {}
    for cell in campaign.cells:
        # Their words for it: an FP8 cast before the boundary, or BF16 input at it.
        from_bf16 = campaign.timing_boundaries[cell.workload_profile].startswith("BF16")
        boundary = "bf16_ready" if from_bf16 and cell.dispatch_dtype == "fp8" else "dispatch_ready"
        for arm, item in cell.arms.items():
            key = Key(
                cell.world_size_ranks,
                cell.tokens_per_rank,
                *(how.hidden_dimensions, how.experts_dimensionless, how.top_k_dimensionless),
                *("affine", cell.dispatch_dtype, boundary, "host_start", "roundtrip", _OUR_NAMES[arm]),
            )
            levels[key] = Level(_OUR_NAMES[arm], "", tuple(ms * _US_PER_MS for ms in item.per_start_median_latency_ms))
    seen = campaign.campaign_provenance
    identity = {"file": path.name, "sha256": sha256_file(path), "id": seen.campaign_id, "created": seen.created_at_utc}
    facts = {name: str(value) for name, value in campaign.runtime.model_dump().items()}
    facts |= {f"{_OUR_NAMES[arm]}: image": image for arm, image in campaign.images.items()}
    return Side(
        path.stem, PUBLISHED, identity, facts, {}, levels, {}, frozenset(), RULES.alpha, RULES.practical_threshold
    )
