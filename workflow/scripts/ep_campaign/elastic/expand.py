"""From an elastic campaign file to its plan: starts in their order, arrivals drawn, everything that is wrong at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ep_campaign import order
from ep_campaign.elastic.campaign import ArrivalKind, DriverName, ElasticCampaign, StateKind
from ep_campaign.elastic.plan import ElasticPlan
from ep_campaign.errors import CampaignError, Refusal, refuse
from ep_campaign.load import as_campaign
from ep_campaign.plan_document import PLAN_SCHEMA
from ep_campaign.stats.family import smallest_n
from ep_worker.contract.canonical import sha256_file, sha256_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ep_campaign.elastic.campaign import ElasticCell, ElasticState

COMPARED = ("ttft_p50_ms", "tpot_p50_ms", "ms_per_output_token")
"""Figures of a cell that are compared; all are durations, less being better."""


def load_elastic_plan(value: Any, path: Path) -> ElasticPlan:
    """The plan of a campaign file.

    Args:
        value: What the file holds.
        path: The file; paths in it start in its folder.

    Raises:
        CampaignError: With every refusal that the file earns.
    """
    where = str(path)
    campaign = as_campaign(ElasticCampaign, value, where)
    refusals = [Refusal(code, message, f"{where}: {field}") for code, field, message in _problems(campaign, path)]
    if refusals:
        raise CampaignError(refusals)
    return _expand(campaign, path.parent)


def _problems(campaign: ElasticCampaign, path: Path) -> Iterator[tuple[str, str, str]]:
    """Code, field and message of everything that no single field can know."""
    if campaign.name != path.stem:
        yield "name_is_not_file", "name", f"found {campaign.name!r} in file {path.name}: they must be the same"
    for field, names in (
        ("arms", [arm.name for arm in campaign.arms]),
        ("states", [state.name for state in campaign.states]),
        ("cells", [cell.name for cell in campaign.cells]),
    ):
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            yield "duplicate_name", field, f"{', '.join(twice)} stand twice: results would overwrite each other"
    if campaign.reference not in [arm.name for arm in campaign.arms]:
        yield "unknown_reference", "reference", f"there is no arm {campaign.reference!r}"
    sweeps = [state.name for state in campaign.states if state.kind is StateKind.SWEEP]
    if campaign.reference_state not in sweeps:
        yield "unknown_reference", "reference_state", f"{campaign.reference_state!r} is no sweep; these are: {sweeps}"
    if campaign.resize is None and len(sweeps) < len(campaign.states):
        yield "missing_key", "resize", "a state resizes under load: say how"
    if campaign.prompt.shared_prefix_units > campaign.prompt.num_units:
        yield "bad_value", "prompt.shared_prefix_units", "is longer than the prompt"
    yield from _driver_problems(campaign)


def _driver_problems(campaign: ElasticCampaign) -> Iterator[tuple[str, str, str]]:
    driver = campaign.target.driver
    for index, arm in enumerate(campaign.arms):
        if driver is not DriverName.ENGINE and (arm.endpoint is None or not arm.endpoint.rpartition(":")[2].isdigit()):
            yield "missing_key", f"arms.{index}.endpoint", f"driver {driver} needs `host:port`, found {arm.endpoint!r}"
        if driver is not DriverName.ENGINE and arm.arguments:
            yield "bad_value", f"arms.{index}.arguments", f"driver {driver} starts no process: arguments go nowhere"
    for index, state in enumerate(campaign.states):
        if driver is not DriverName.ENGINE and state.deployments > 1:
            yield "bad_value", f"states.{index}.deployments", f"driver {driver} drives one deployment an arm"


def _expand(campaign: ElasticCampaign, folder: Path) -> ElasticPlan:
    starts = _starts(campaign)
    sweeps = [state for state in campaign.states if state.kind is StateKind.SWEEP]
    num_contrasts = (
        len(campaign.cells)
        * len(COMPARED)
        * (len(campaign.arms) * (len(sweeps) - 1) + len(sweeps) * (len(campaign.arms) - 1))
    )
    return ElasticPlan(
        {
            "schema": PLAN_SCHEMA,
            "campaign": campaign.name,
            "kind": campaign.kind,
            "description": campaign.description,
            "seed": campaign.seed,
            "target": campaign.target.model_dump(mode="json"),
            "arms": {arm.name: _arm(arm.model_dump(mode="json"), folder) for arm in campaign.arms},
            "reference": campaign.reference,
            "states": {state.name: state.model_dump(mode="json") for state in campaign.states},
            "reference_state": campaign.reference_state,
            "cells": {cell.name: _cell(campaign, cell, folder) for cell in campaign.cells},
            "order": {
                "arms": [arm.name for arm in campaign.arms],
                "states": [state.name for state in campaign.states],
                "cells": [cell.name for cell in campaign.cells],
            },
            "prompt": campaign.prompt.model_dump(mode="json"),
            "resize": None if campaign.resize is None else campaign.resize.model_dump(mode="json"),
            "rounds": campaign.rounds,
            "targets": campaign.targets.model_dump(mode="json"),
            "published": campaign.published,
            "limits": campaign.limits.model_dump(mode="json"),
            "family": {
                "metrics": list(COMPARED),
                "num_contrasts": num_contrasts,
                "min_rounds": smallest_n(num_contrasts) if num_contrasts else None,
            },
            "starts": starts,
        }
    )


def _arm(arm: dict[str, Any], folder: Path) -> dict[str, Any]:
    """An arm; a manifest goes by what it holds, not by where it lies."""
    if arm["manifest"] is not None:
        path = folder / arm["manifest"]
        if not path.is_file():
            raise refuse("no_such_file", f"manifest {arm['manifest']} is not there", str(path))
        arm["manifest_sha256"] = sha256_file(path)
    return arm


def _cell(campaign: ElasticCampaign, cell: ElasticCell, folder: Path) -> dict[str, Any]:
    offsets: list[float] = []
    total = cell.num_warmups + cell.requests
    if cell.arrivals is ArrivalKind.POISSON:
        assert cell.rate_per_s is not None
        offsets = poisson_offsets(cell.rate_per_s, total, campaign.seed, cell.name)
    elif cell.arrivals is ArrivalKind.TRACE:
        offsets = _read_trace(folder / str(cell.trace), total)
    return {**cell.model_dump(mode="json"), "name": cell.name, "offsets_s": offsets}


def poisson_offsets(rate_per_s: float, count: int, seed: int, name: str) -> list[float]:
    """Arrival times of a Poisson process [s, to the microsecond], the first at 0: gaps -ln(u) / rate, u from a hash."""
    offsets, now = [], 0.0
    for index in range(count):
        offsets.append(round(now, 6))
        word = int(sha256_text(f"{seed}/{name}/{index}")[:13], 16)  # 52 bits
        now -= math.log((word + 1) / 2.0**52) / rate_per_s
    return offsets


def _read_trace(path: Path, count: int) -> list[float]:
    try:
        offsets = [float(line) for line in path.read_text(encoding="ascii").split()]
    except (OSError, ValueError) as error:
        raise refuse("bad_trace", f"cannot be read as one time a line: {error}", str(path)) from None
    if len(offsets) < count or list(offsets) != sorted(offsets) or offsets[0] < 0:
        message = f"holds {len(offsets)} times; {count} are needed (warm-ups included), rising, from 0"
        raise refuse("bad_trace", message, str(path))
    return offsets[:count]


def _starts(campaign: ElasticCampaign) -> list[dict[str, Any]]:
    """Rounds in turn; in each the states in their order, in each the arms in a balanced order."""
    starts: list[dict[str, Any]] = []
    names = [arm.name for arm in campaign.arms]
    for number in range(campaign.rounds):
        for index, state in enumerate(campaign.states):
            arm_order = order.deal(len(names), campaign.rounds, campaign.seed, purpose=100 + index)[number]
            starts += [
                _start(state, names[arm], number + 1, place, len(starts) + place - 1)
                for place, arm in enumerate(arm_order, 1)
            ]
    return starts


def _start(state: ElasticState, arm: str, number: int, place: int, position: int) -> dict[str, Any]:
    width = state.widths[-1]
    return {
        "id": f"w{width}/{state.name}/round-{number:02d}/{arm}",
        "position": position,
        "round": number,
        "width": width,
        "state": state.name,
        "arm": arm,
        "order_position": place,
    }
