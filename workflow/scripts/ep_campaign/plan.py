"""The plan of a comparison as every stage reads it: one document, its digest, and the start specifications that follow from it.

Standard library and contract only: the job that runs a start imports this module and must cost milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ep_campaign.plan_document import PLAN_SCHEMA, PlanDocument, read_document
from ep_worker.contract.capabilities import CAPABILITIES, Capability
from ep_worker.contract.series import Cell, Measurement, resolve
from ep_worker.contract.spec import ArmSpec, Shape, StartSpec, route_from_json
from ep_worker.contract.terms import ApiMode, Boundary, Device, Dtype, Loop, Mode

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["PLAN_SCHEMA", "Plan", "Start", "read_plan"]

TIMED_KINDS = ("comparison", "regression")
"""Kinds of campaign whose starts time dispatch and combine: this plan's."""
_MIN_CURVE = 3
"""Profiles from which latency against tokens is drawn as a curve."""
COLLECTIVE_BACKEND = {Device.CPU: "gloo", Device.CUDA: "nccl"}


@dataclass(frozen=True)
class Start:
    """One start of the plan.

    Attributes:
        id: `ep<N>/<profile>/round-<RR>/<arm>`, also its folder under `starts/`.
        position: Place in the campaign's order, from 0.
        round: Round of its EP size, from 1.
        ep_size: Ranks.
        profile: Profile.
        arm: Arm.
        order_position: Place among the arms of its round and profile, from 1.
        cells: Cell ids in measuring order.
    """

    id: str
    position: int
    round: int
    ep_size: int
    profile: str
    arm: str
    order_position: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Plan(PlanDocument):
    """A resolved comparison."""

    @property
    def device(self) -> Device:
        """Where ranks compute."""
        return Device(self.document["device"])

    @cached_property
    def starts(self) -> tuple[Start, ...]:
        """Every start, in order."""
        return tuple(Start(**{**item, "cells": tuple(item["cells"])}) for item in self.document["starts"])

    @cached_property
    def by_id(self) -> dict[str, Start]:
        """Starts by id."""
        return {start.id: start for start in self.starts}

    @property
    def num_rounds(self) -> dict[int, int]:
        """Rounds of each EP size."""
        return {size["ranks"]: size["rounds"] for size in self.document["ep_sizes"]}

    @property
    def contrasts(self) -> list[dict[str, str]]:
        """The declared family: cell, arm, reference, and the loop where it is no round-trip."""
        return list(self.document["family"]["contrasts"])

    @property
    def loops(self) -> tuple[Loop, ...]:
        """What the family judges: whole round-trips, or phases alone."""
        return tuple(Loop(item) for item in self.document["family"].get("loops", [Loop.ROUNDTRIP.value]))

    @property
    def control(self) -> str | None:
        """The arm that restores the old behaviour; None outside campaigns of builds."""
        control: str | None = self.document.get("control")
        return control

    @property
    def published(self) -> str | None:
        """Name of the published series to show beside the sweep; None for none."""
        name: str | None = self.document.get("published")
        return name

    @property
    def sweep(self) -> tuple[str, ...]:
        """Profiles that differ in tokens per rank alone, rising; empty where none was declared."""
        return tuple(self.document.get("sweep", ()))

    def token_profiles(self) -> tuple[str, ...]:
        """Profiles that differ in tokens per rank alone, rising: the declared sweep, or three and more of one shape."""
        if self.sweep:
            return self.sweep
        shapes: dict[tuple[int, ...], list[tuple[int, str]]] = {}
        for name, profile in self.document["profiles"].items():
            shape = profile["shape"]
            key = tuple(shape[field] for field in ("hidden", "experts", "top_k"))
            shapes.setdefault(key, []).append((shape["tokens_per_rank"], name))
        longest = max(shapes.values(), key=len)
        return tuple(name for _, name in sorted(longest)) if len(longest) >= _MIN_CURVE else ()

    @property
    def primary(self) -> tuple[Boundary, Mode]:
        """Boundary and mode that carry the verdicts."""
        how = self.document["primary"]
        return Boundary(how["boundary"]), Mode(how["mode"])

    @property
    def arms(self) -> list[str]:
        """Arms as they are shown everywhere: the reference first, then as declared."""
        reference = self.document["reference"]
        return [reference, *(arm for arm in self.document["arms"] if arm != reference)]

    def measurement(self, profile: str, ep_size: int) -> Measurement:
        """How the cells of a profile are timed at an EP size."""
        how = self.document["profiles"][profile]["measurement"]
        boundary, mode = self.primary
        return Measurement(
            boundaries=tuple(Boundary(item) for item in how["boundaries"]),
            modes=tuple(Mode(item) for item in how["modes"]),
            primary_boundary=boundary,
            primary_mode=mode,
            isolated_loops=how["isolated_loops"],
            iterations=self.ep_entry(ep_size)["iterations"] or how["iterations"],
            warmups=how["warmups"],
            chain_length=how["chain_length"],
        )

    def capability(self, arm: str, profile: str) -> Capability:
        """The capability table's entry of an arm in a profile."""
        entry = self.document["arms"][arm]
        return CAPABILITIES[(entry["backend"], ApiMode(entry["api_modes"][profile]))]

    def cell(self, cell_id: str) -> Cell:
        """A cell from its id."""
        _, _, route, dtype = cell_id.split("/")
        return Cell(cell_id, route, Dtype(dtype))

    def ep_entry(self, ep_size: int) -> dict[str, Any]:
        """The declared entry of an EP size."""
        return next(size for size in self.document["ep_sizes"] if size["ranks"] == ep_size)

    def spec(self, start: Start, *, kind: str = "scored") -> StartSpec:
        """What the ranks of a start are told."""
        document = self.document
        profile, arm = document["profiles"][start.profile], document["arms"][start.arm]
        entry = self.capability(start.arm, start.profile)
        cells = [self.cell(cell) for cell in start.cells]
        series, rejected = resolve(cells, self.measurement(start.profile, start.ep_size), entry, self.device)
        size, limits = self.ep_entry(start.ep_size), document["limits"]
        return StartSpec(
            kind=kind,
            campaign=self.name,
            plan_digest=self.digest,
            start=start.id,
            device=self.device,
            ep_size=start.ep_size,
            ranks_per_pod=size["ranks_per_pod"],
            domain_size=size["domain_size"],
            ranks_per_device=size.get("ranks_per_device", 1),
            input_kind=document["input"],
            seed=document["seed"],
            shape=Shape(profile=start.profile, **profile["shape"]),
            arm=ArmSpec(
                start.arm,
                arm["backend"],
                ApiMode(arm["api_modes"][start.profile]),
                arm["knobs"],
                arm["environment"],
                tuple(arm.get("build", ())),
            ),
            routes=tuple(route_from_json(item) for item in document["routes"][start.profile][str(start.ep_size)]),
            cells=tuple(cells),
            series=tuple(series),
            rejected=tuple(rejected),
            threads_per_rank=profile["measurement"]["threads_per_rank"],
            rendezvous_timeout_s=limits["rendezvous_timeout_s"],
            collective_timeout_s=limits["collective_timeout_s"],
            watchdog_s=limits["start_timeout_s"],
        )


def read_plan(path: Path) -> Plan:
    """The plan of a results folder.

    Raises:
        CampaignError: As `read_document` does.
    """
    return Plan(read_document(path))
