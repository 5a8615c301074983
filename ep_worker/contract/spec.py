"""The specification of one start: everything that a launcher and its ranks are told, in one JSON file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.contract.series import Cell, Rejected, Series
from ep_worker.contract.terms import ApiMode, Device, Dtype
from ep_worker.contract.workload import RouteKind

if TYPE_CHECKING:
    import os

SPEC_SCHEMA = "ep-campaign/spec/1"
PROFILE, OVERHEAD = "profile", "overhead"
"""Kinds of launches that time no series: kernel times by the profiler; this harness against a minimal loop."""
SCORED = "scored"
"""Kind of a start that has latencies, and so must pass every gate of `ep_worker.gates`."""


@dataclass(frozen=True)
class Shape:
    """A profile's workload shape.

    Attributes:
        profile: Name of the profile.
        tokens_per_rank: Tokens of a rank (of the fullest rank, in a ragged route).
        max_tokens_per_rank: Capacity that buffers are made for; at least `tokens_per_rank`.
        hidden: Columns of a token; a multiple of 128.
        experts: Experts in all, spread evenly over the ranks.
        top_k: Experts of a token.
    """

    profile: str
    tokens_per_rank: int
    max_tokens_per_rank: int
    hidden: int
    experts: int
    top_k: int


@dataclass(frozen=True)
class Route:
    """A route, with every threshold made: nothing is left to a float or a library's random stream.

    Attributes:
        name: Name of the route.
        kind: Formula.
        seed: Seed of its draws and weights.
        num_tokens: Tokens of each rank.
        thresholds: Rising integers, last 2^62: of experts (uniform, zipf, masked, ragged), or of groups (grouped).
        member_thresholds: grouped only: of the experts within the groups that a token uses.
        experts_per_group: grouped only.
        mask_threshold: masked only: a slot whose draw is below it goes nowhere.
        trace: trace only: path of the file, relative to the spec's folder; one line of K ids for each token.
        trace_sha256: trace only: SHA-256 of that file.
    """

    name: str
    kind: RouteKind
    seed: int
    num_tokens: tuple[int, ...]
    thresholds: tuple[int, ...] = ()
    member_thresholds: tuple[int, ...] = ()
    experts_per_group: int = 0
    mask_threshold: int = 0
    trace: str = ""
    trace_sha256: str = ""

    @property
    def equal_weights(self) -> bool:
        """Only the published formula weights its slots alike."""
        return self.kind is RouteKind.AFFINE


@dataclass(frozen=True)
class ArmSpec:
    """What is compared: a backend with its API mode, knobs and environment.

    Attributes:
        name: Name of the arm.
        backend: Name of the backend.
        api_mode: The interface that this profile uses.
        knobs: What the backend's constructor is asked for (`num_sms`, ...); recorded as requested and as resolved.
        environment: Variables set before anything is imported.
        build: Folders of this arm's build, first on the ranks' import path.
    """

    name: str
    backend: str
    api_mode: ApiMode
    knobs: dict[str, Any]
    environment: dict[str, str]
    build: tuple[str, ...] = ()


@dataclass(frozen=True)
class StartSpec:
    """One start, or one run of another `kind`.

    Attributes:
        kind: `scored`, `admission`, `profile` or `overhead`.
        campaign: Name of the campaign.
        plan_digest: Digest of its plan.
        start: Id of the start: `ep<N>/<profile>/round-<RR>/<arm>`.
        device: Where ranks compute.
        ep_size: Ranks.
        ranks_per_pod: Ranks that one launcher starts.
        domain_size: Ranks of one scale-up domain.
        ranks_per_device: Ranks that share one GPU; 1, or the start is about correctness alone.
        input_kind: `hashed`, or `affine` for the published formula.
        seed: Seed of input and expert transforms.
        shape: Workload shape.
        arm: Arm.
        routes: Routes, by name in `cells`.
        cells: Cells, in measuring order.
        series: Every timed loop, cell by cell.
        rejected: What is known not to run.
        threads_per_rank: CPU threads of a rank's kernels.
        rendezvous_timeout_s: Bound on the ranks finding each other.
        collective_timeout_s: Bound on one collective.
        watchdog_s: Bound on the whole start.
    """

    kind: str
    campaign: str
    plan_digest: str
    start: str
    device: Device
    ep_size: int
    ranks_per_pod: int
    domain_size: int
    ranks_per_device: int
    input_kind: str
    seed: int
    shape: Shape
    arm: ArmSpec
    routes: tuple[Route, ...]
    cells: tuple[Cell, ...]
    series: tuple[Series, ...]
    rejected: tuple[Rejected, ...]
    threads_per_rank: int
    rendezvous_timeout_s: float
    collective_timeout_s: float
    watchdog_s: float

    def route(self, name: str) -> Route:
        """The route of that name."""
        return next(route for route in self.routes if route.name == name)

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        plain = {key: value for key, value in vars(self).items() if not hasattr(value, "__dataclass_fields__")}
        return {
            **plain,
            "schema": SPEC_SCHEMA,
            "device": self.device.value,
            "shape": vars(self.shape),
            "arm": {**vars(self.arm), "api_mode": self.arm.api_mode.value, "build": list(self.arm.build)},
            "routes": [route_json(route) for route in self.routes],
            "cells": [{"id": cell.id, "route": cell.route, "dtype": cell.dtype.value} for cell in self.cells],
            "series": [series.as_json() for series in self.series],
            "rejected": [rejected.as_json() for rejected in self.rejected],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> StartSpec:
        """Back from `as_json`.

        Raises:
            ValueError: The schema is not this version's, or a field is missing or unknown.
        """
        if value.get("schema") != SPEC_SCHEMA:
            msg = f"spec schema is {value.get('schema')!r}, this worker reads {SPEC_SCHEMA!r}: use the worker that came with it"
            raise ValueError(msg)
        fields = {key: item for key, item in value.items() if key != "schema"}
        try:
            return cls(
                **{
                    **fields,
                    "device": Device(fields["device"]),
                    "shape": Shape(**fields["shape"]),
                    "arm": ArmSpec(
                        **{
                            **fields["arm"],
                            "api_mode": ApiMode(fields["arm"]["api_mode"]),
                            "build": tuple(fields["arm"]["build"]),
                        }
                    ),
                    "routes": tuple(route_from_json(route) for route in fields["routes"]),
                    "cells": tuple(Cell(c["id"], c["route"], Dtype(c["dtype"])) for c in fields["cells"]),
                    "series": tuple(Series.from_json(series) for series in fields["series"]),
                    "rejected": tuple(Rejected.from_json(rejected) for rejected in fields["rejected"]),
                }
            )
        except (KeyError, TypeError) as error:
            msg = f"spec is not complete and exact: {type(error).__name__}: {error}"
            raise ValueError(msg) from error


def route_json(route: Route) -> dict[str, Any]:
    """Plain JSON value of a route."""
    plain = {key: list(value) if isinstance(value, tuple) else value for key, value in vars(route).items()}
    return {**plain, "kind": route.kind.value}


def route_from_json(value: dict[str, Any]) -> Route:
    """Back from `route_json`."""
    lists = ("num_tokens", "thresholds", "member_thresholds")
    return Route(**{**value, "kind": RouteKind(value["kind"]), **{key: tuple(value[key]) for key in lists}})


def read_spec(path: str | os.PathLike[str]) -> StartSpec:
    """Reads a spec file.

    Raises:
        ValueError: It is not JSON, or not a spec of this version.
    """
    value = json.loads(Path(path).read_text())
    if not isinstance(value, dict):
        msg = f"spec holds a {type(value).__name__}, expected a JSON object"
        raise ValueError(msg)  # noqa: TRY004 - what is wrong is a file, not a caller's argument
    return StartSpec.from_json(value)
