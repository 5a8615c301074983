"""From a checked campaign to its plan: the matrix, the order, what is rejected and why, and the declared family."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from ep_campaign import order
from ep_campaign.errors import CampaignError, Refusal
from ep_campaign.load import load_campaign
from ep_campaign.plan import PLAN_SCHEMA, Plan
from ep_campaign.regression_checks import alike
from ep_campaign.routes import resolve_route
from ep_campaign.stats.family import smallest_n
from ep_worker.contract.capabilities import CAPABILITIES, Capability, api_modes, reject_mode, reject_shape
from ep_worker.contract.spec import route_json
from ep_worker.contract.terms import Loop
from ep_worker.contract.workload import RouteKind

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.campaign import Campaign, EpSize, Profile, RouteModel

ANY = "*"
"""Stands for every boundary or mode in a rejected row that does not depend on it."""


def load_plan(campaign_path: Path, shapes_path: Path) -> Plan:
    """The plan of a campaign file.

    Raises:
        CampaignError: With every refusal that the file, or the matrix it describes, earns.
    """
    return expand(load_campaign(campaign_path, shapes_path), campaign_path.parent)


def expand(campaign: Campaign, folder: Path) -> Plan:
    """The plan of a checked campaign; `folder` is where trace paths start.

    Raises:
        CampaignError: The matrix is empty, its family cannot be decided, or a trace is refused.
    """
    matrix = _Matrix(campaign, folder)
    starts = _order(campaign, matrix)
    contrasts = matrix.contrasts()
    refusals = [*_matrix_refusals(campaign, starts, matrix), *_family_refusals(campaign, contrasts)]
    if refusals:
        raise CampaignError(refusals)
    family = campaign.family
    return Plan(
        {
            "schema": PLAN_SCHEMA,
            "campaign": campaign.name,
            "kind": campaign.kind,
            "description": campaign.description,
            "device": campaign.device.value,
            "seed": campaign.seed,
            "input": campaign.input,
            "order": campaign.order.value,
            "reference": campaign.reference,
            **_builds(campaign),
            "primary": campaign.measurement.primary.model_dump(mode="json"),
            "arms": {arm.name: {**_arm(campaign, arm.name)} for arm in campaign.arms},
            "profiles": {profile.name: _profile(campaign, profile) for profile in campaign.profiles},
            "routes": matrix.routes,
            "dtypes": [dtype.value for dtype in campaign.dtypes],
            "ep_sizes": [_ep_size(size) for size in campaign.ep_sizes],
            "cells": matrix.cells,
            "family": {
                "alpha": family.alpha,
                "practical_threshold": family.practical_threshold,
                "test": family.test.value,
                "assumed_start_cv": family.assumed_start_cv,
                "min_rounds": smallest_n(len(contrasts), family.alpha) if contrasts else None,
                **({"loops": list(family.loops)} if family.loops != ("roundtrip",) else {}),
                "contrasts": contrasts,
            },
            "limits": campaign.limits.model_dump(mode="json"),
            **({"kernel_times": True} if campaign.measurement.kernel_times else {}),
            "budget_hours": campaign.budget_hours,
            "price_per_node_hour": campaign.price_per_node_hour,
            "currency": campaign.currency,
            "starts": starts,
            "rejected": matrix.rejected,
            "warnings": _warnings(campaign, matrix),
        }
    )


def _arm(campaign: Campaign, name: str) -> dict[str, Any]:
    arm = next(item for item in campaign.arms if item.name == name)
    only = api_modes(arm.backend)[0]
    return {
        "backend": arm.backend,
        "image": arm.image,
        "api_modes": {p.name: arm.api_modes.get(p.name, only).value for p in campaign.profiles},
        "knobs": arm.knobs,
        "environment": arm.environment,
        "environment_reasons": arm.environment_reasons,
        **({"build": list(arm.build)} if arm.build else {}),
        **({"commit": arm.commit} if arm.commit else {}),
    }


def _builds(campaign: Campaign) -> dict[str, Any]:
    """What only a campaign with a control or a sweep has."""
    found: dict[str, Any] = {}
    if campaign.control:
        found["control"] = campaign.control
    if campaign.sweep:
        found["sweep"] = [profile.name for profile in campaign.profiles]
    if campaign.published:
        found["published"] = campaign.published
    return found


def _profile(campaign: Campaign, profile: Profile) -> dict[str, Any]:
    how = campaign.measurement
    return {
        "shape": profile.model_dump(include={"tokens_per_rank", "max_tokens_per_rank", "hidden", "experts", "top_k"}),
        "shape_source": profile.shape,
        "expected_start_s": profile.expected_start_s,
        "measurement": {
            "boundaries": [item.value for item in how.boundaries],
            "modes": [item.value for item in how.modes],
            "isolated_loops": how.isolated_loops,
            "iterations": profile.iterations or how.iterations,
            "warmups": how.warmups if profile.warmups is None else profile.warmups,
            "chain_length": how.chain_length,
            "threads_per_rank": how.threads_per_rank,
        },
    }


def _ep_size(size: EpSize) -> dict[str, Any]:
    pod = size.ranks_per_pod or size.ranks
    return {
        "ranks": size.ranks,
        "rounds": size.rounds,
        "ranks_per_pod": pod,
        "num_pods": size.ranks // pod,
        "domain_size": size.domain_size or pod,
        "iterations": size.iterations,
        "scored": size.scored,
        **({"ranks_per_device": size.ranks_per_device} if size.ranks_per_device > 1 else {}),
    }


class _Matrix:
    """Cells, and what each arm cannot do of them."""

    def __init__(self, campaign: Campaign, folder: Path) -> None:
        self.campaign = campaign
        self.cells: list[dict[str, Any]] = []
        self.rejected: list[dict[str, Any]] = []
        self.runnable: dict[tuple[int, str, str], list[str]] = {}
        self.routes: dict[str, dict[str, Any]] = {profile.name: {} for profile in campaign.profiles}
        for size in campaign.ep_sizes:
            for profile in campaign.profiles:
                self._add(size, profile, folder)

    def _add(self, size: EpSize, profile: Profile, folder: Path) -> None:
        resolved = [resolve_route(r, profile, size.ranks, self.campaign.seed, folder) for r in self.campaign.routes]
        self.routes[profile.name][str(size.ranks)] = [route_json(route) for route in resolved]
        for route, done in zip(self.campaign.routes, resolved, strict=True):
            for dtype in self.campaign.dtypes:
                cell = f"ep{size.ranks}/{profile.name}/{route.name}/{dtype.value}"
                entry = {"id": cell, "ep_size": size.ranks, "profile": profile.name, "route": route.name}
                scored = self._scored(size, profile, route, dtype.value)
                self.cells.append({**entry, "dtype": dtype.value, "scored": scored})
                for arm in self.campaign.arms:
                    self._add_arm(arm.name, cell, size, profile, 0 in done.num_tokens)

    def _scored(self, size: EpSize, profile: Profile, route: RouteModel, dtype: str) -> bool:
        family = self.campaign.family
        kept = (family.profiles, profile.name), (family.routes, route.name), (family.dtypes, dtype)
        return size.scored and all(names is None or name in names for names, name in kept)

    def _add_arm(self, arm: str, cell: str, size: EpSize, profile: Profile, has_empty_rank: bool) -> None:
        entry = self.capability(arm, profile)
        assert profile.hidden is not None
        assert profile.top_k is not None
        reason = reject_shape(
            entry,
            self.campaign.device,
            ep_size=size.ranks,
            hidden=profile.hidden,
            top_k=profile.top_k,
            max_tokens_per_rank=profile.max_tokens_per_rank or profile.tokens_per_rank,
            has_empty_rank=has_empty_rank,
        )
        row = {"cell": cell, "arm": arm, "boundary": ANY}
        if reason is not None:
            self.rejected.append({**row, "mode": ANY, **_reason(reason.code, reason.reason, reason.source)})
            return
        self.runnable.setdefault((size.ranks, profile.name, arm), []).append(cell)
        for mode in self.campaign.measurement.modes:
            reason = reject_mode(entry, self.campaign.device, mode)
            if reason is not None:
                self.rejected.append({**row, "mode": mode.value, **_reason(reason.code, reason.reason, reason.source)})

    def arms_of(self, size: EpSize, profile: Profile) -> list[str]:
        """Arms that run any cell of a block, as declared."""
        return [arm for arm in self.campaign.arm_names if (size.ranks, profile.name, arm) in self.runnable]

    def capability(self, arm: str, profile: Profile) -> Capability:
        entry = _arm(self.campaign, arm)
        return next(
            value
            for (backend, mode), value in CAPABILITIES.items()
            if backend == entry["backend"] and mode.value == entry["api_modes"][profile.name]
        )

    def _runs_primary(self, cell: dict[str, Any], arm: str) -> bool:
        """Whether an arm can be measured in a cell in the mode that carries the verdicts."""
        size, name = cell["ep_size"], cell["profile"]
        profile = next(one for one in self.campaign.profiles if one.name == name)
        mode = self.campaign.measurement.primary.mode
        runs = cell["id"] in self.runnable.get((size, name, arm), ())
        return runs and reject_mode(self.capability(arm, profile), self.campaign.device, mode) is None

    def primary_runs(self, arm: str) -> bool:
        """Whether an arm can be measured in the primary mode in any cell."""
        return any(self._runs_primary(cell, arm) for cell in self.cells)

    def contrasts(self) -> list[dict[str, str]]:
        """The declared family: scored cells in which both the arm and the reference run in the primary mode, loop by loop."""
        reference = self.campaign.reference
        found = []
        for cell in self.cells:
            for arm in self.campaign.arm_names:
                runs = [self._runs_primary(cell, name) for name in (arm, reference)]
                if cell["scored"] and arm != reference and all(runs):
                    row = {"cell": cell["id"], "arm": arm, "reference": reference}
                    # A round-trip's row says nothing of its loop: plans from before there was a choice keep their digests.
                    found += [
                        row if loop == Loop.ROUNDTRIP.value else {**row, "loop": loop}
                        for loop in self.campaign.family.loops
                    ]
        return found


def _reason(code: str, reason: str, source: str) -> dict[str, str]:
    return {"reason_code": code, "reason": reason, "source": source}


def _order(campaign: Campaign, matrix: _Matrix) -> list[dict[str, Any]]:
    """Every start, in order: rounds in turn; in a round its EP sizes and profiles, in each the arms."""
    total = max(size.rounds for size in campaign.ep_sizes)
    blocks = [(size, profile) for size in campaign.ep_sizes for profile in campaign.profiles]
    block_orders = order.deal(len(blocks), total, campaign.seed, purpose=1)
    arm_orders = {
        index: _arm_orders(campaign, matrix.arms_of(size, profile), size.rounds, index)
        for index, (size, profile) in enumerate(blocks)
    }
    taking_part = {size.ranks: order.spread(size.rounds, total) for size in campaign.ep_sizes}
    starts: list[dict[str, Any]] = []
    for overall, block_order in enumerate(block_orders):
        for index in block_order:
            size, profile = blocks[index]
            if overall not in taking_part[size.ranks]:
                continue
            number = taking_part[size.ranks].index(overall)
            for place, arm in enumerate(arm_orders[index][number], 1):
                cells = matrix.runnable[(size.ranks, profile.name, arm)]
                starts.append(
                    {
                        "id": f"ep{size.ranks}/{profile.name}/round-{number + 1:02d}/{arm}",
                        "position": len(starts),
                        "round": number + 1,
                        "ep_size": size.ranks,
                        "profile": profile.name,
                        "arm": arm,
                        "order_position": place,
                        "cells": _cell_order(campaign, cells, size.rounds, number, index, arm),
                    }
                )
    return starts


def _arm_orders(campaign: Campaign, arms: list[str], num_rounds: int, block: int) -> list[list[str]]:
    """For each round the order of the arms that run in a block: balanced over these, not over arms that never run."""
    if not arms:
        return [[] for _ in range(num_rounds)]
    if campaign.order.value == "published":
        try:
            dealt = order.published(len(campaign.arms), num_rounds)
        except ValueError as error:
            raise CampaignError([Refusal("published_order_needs_three_arms", str(error), "order")]) from None
        return [[name for index in row if (name := campaign.arm_names[index]) in arms] for row in dealt]
    dealt = order.deal(len(arms), num_rounds, campaign.seed, purpose=100 + block)
    return [[arms[index] for index in row] for row in dealt]


def _cell_order(campaign: Campaign, cells: list[str], num_rounds: int, number: int, block: int, arm: str) -> list[str]:
    """The cells of one start: routes and dtypes balanced over rounds, apart from the order of arms."""
    if campaign.order.value == "published":
        return cells if number % 2 == 0 else list(reversed(cells))
    purpose = 10_000 + 100 * block + campaign.arm_names.index(arm)
    return [cells[index] for index in order.deal(len(cells), num_rounds, campaign.seed, purpose)[number]]


def _matrix_refusals(campaign: Campaign, starts: list[dict[str, Any]], matrix: _Matrix) -> list[Refusal]:
    if not starts:
        message = "every cell is rejected for every arm: nothing can be measured; `make plan` shows each reason"
        return [Refusal("empty_matrix", message, campaign.name)]
    running = {start["arm"] for start in starts}
    if campaign.reference not in running:
        message = f"the reference {campaign.reference!r} runs in no cell: no contrast can be made"
        return [Refusal("reference_never_runs", message, campaign.name)]
    if not matrix.primary_runs(campaign.reference):
        mode = campaign.measurement.primary.mode.value
        message = f"the reference {campaign.reference!r} cannot be measured in the primary mode {mode}: choose another of either"
        return [Refusal("primary_never_runs", message, f"{campaign.name}: measurement.primary")]
    return []


def _family_refusals(campaign: Campaign, contrasts: list[dict[str, str]]) -> list[Refusal]:
    if not contrasts:
        return []
    needed = smallest_n(len(contrasts), campaign.family.alpha)
    per_size = Counter(contrast["cell"].split("/")[0] for contrast in contrasts)
    return [
        Refusal(
            "undecidable_family",
            f"{size.rounds} rounds cannot decide a family of {len(contrasts)} contrasts: the best possible p is "
            f"2^{1 - size.rounds} and Holm's first step needs {campaign.family.alpha:g}/{len(contrasts)}; use at least "
            f"{needed} rounds, declare fewer contrasts, or set scored: false to describe without judging",
            f"{campaign.name}: ep_sizes, {size.ranks} ranks",
        )
        for size in campaign.ep_sizes
        if per_size[f"ep{size.ranks}"] and size.rounds < needed
    ]


def _warnings(campaign: Campaign, matrix: _Matrix) -> list[dict[str, str]]:
    found = []
    for size in campaign.ep_sizes:
        running = {len(matrix.arms_of(size, profile)) for profile in campaign.profiles} - {0}
        for num_orders in sorted({len(order.williams(number)) for number in running}):
            if campaign.order.value == "williams" and size.rounds % num_orders:
                text = f"{size.rounds} rounds at EP {size.ranks} are no multiple of the {num_orders} balanced orders"
                found.append({"code": "order_unbalanced", "text": text})
    if campaign.order.value == "published":
        text = "the published rotation uses 3 of 6 arm orders: carry-over is not balanced"
        found.append({"code": "order_unbalanced", "text": text})
    for first, second in alike(campaign):
        text = f"{first} and {second} are one build with the same knobs: an A/A comparison, which must find nothing"
        found.append({"code": "arms_alike", "text": text})
    if len(campaign.arms) > 6:
        text = f"{len(campaign.arms)} arms: a round takes long, and machines drift; six is a good rule"
        found.append({"code": "many_arms", "text": text})
    if any(route.kind is RouteKind.AFFINE for route in campaign.routes):
        text = "route affine is balanced, periodic and equally weighted: it says nothing of skewed traffic"
        found.append({"code": "affine_route", "text": text})
    return found
