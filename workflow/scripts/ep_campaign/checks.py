"""What a campaign's fields say only together: names that must exist, sizes that must divide, differences to declare."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ep_campaign.regression_checks import regression_problems
from ep_worker.contract.capabilities import CAPABILITIES, api_modes
from ep_worker.contract.quiet import loud_variables
from ep_worker.contract.terms import Device, Dtype
from ep_worker.contract.workload import RouteKind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ep_campaign.campaign import Campaign, EpSize, Profile, RouteModel


def with_shape(profile: Profile, shapes: dict[str, Any]) -> Profile:
    """The profile with hidden, experts and top_k taken from its shape, and its capacity filled in."""
    update: dict[str, Any] = {"max_tokens_per_rank": profile.max_tokens_per_rank or profile.tokens_per_rank}
    if profile.shape is not None:
        update |= {key: shapes[profile.shape][key] for key in ("hidden", "experts", "top_k")}
    return profile.model_copy(update=update)


Problem = tuple[str, str, str]


def problems(campaign: Campaign, path: Path, shapes: dict[str, Any]) -> Iterator[Problem]:
    """(code, field, message) of everything that the fields say only together."""
    if campaign.name != path.stem:
        yield "name_mismatch", "name", f"is {campaign.name!r} in the file {path.name}; expected {path.stem!r}"
    yield from _duplicates(campaign)
    if campaign.reference not in campaign.arm_names:
        known = ", ".join(campaign.arm_names)
        yield (
            "unknown_reference",
            "reference",
            f"{campaign.reference!r} is no arm of this campaign; expected one of {known}",
        )
    yield from _arm_problems(campaign)
    yield from _profile_problems(campaign, shapes)
    yield from _route_problems(campaign, shapes, path.parent)
    yield from _measurement_problems(campaign)
    yield from _family_problems(campaign)
    yield from regression_problems(campaign)


def _duplicates(campaign: Campaign) -> Iterator[Problem]:
    lists: list[tuple[str, str, list[Any]]] = [
        ("duplicate_arm", "arms", list(campaign.arm_names)),
        ("duplicate_profile", "profiles", [profile.name for profile in campaign.profiles]),
        ("duplicate_route", "routes", [route.name for route in campaign.routes]),
        ("duplicate_dtype", "dtypes", [dtype.value for dtype in campaign.dtypes]),
        ("duplicate_ep_size", "ep_sizes", [size.ranks for size in campaign.ep_sizes]),
        ("duplicate_boundary", "measurement.boundaries", [item.value for item in campaign.measurement.boundaries]),
        ("duplicate_mode", "measurement.modes", [item.value for item in campaign.measurement.modes]),
    ]
    for code, field, names in lists:
        twice = sorted({str(name) for name in names if names.count(name) > 1})
        if twice:
            yield code, field, f"{', '.join(twice)} stands more than once; names are unique"


def _arm_problems(campaign: Campaign) -> Iterator[Problem]:
    profiles = [profile.name for profile in campaign.profiles]
    for index, arm in enumerate(campaign.arms):
        field = f"arms.{index}"
        modes = api_modes(arm.backend)
        if not modes:
            known = ", ".join(sorted({backend for backend, _ in CAPABILITIES}))
            yield "unknown_backend", f"{field}.backend", f"{arm.backend!r} has no capability table; known: {known}"
            continue
        for profile in profiles:
            mode = arm.api_modes.get(profile)
            offered = ", ".join(item.value for item in modes)
            if mode is None and len(modes) > 1:
                message = f"profile {profile!r} needs one of {offered}: say which interface it uses"
                yield "missing_api_mode", f"{field}.api_modes", message
            elif mode is not None and mode not in modes:
                yield "unknown_api_mode", f"{field}.api_modes.{profile}", f"{mode.value!r}; {arm.backend} has {offered}"
        for profile in sorted(set(arm.api_modes) - set(profiles)):
            yield "unknown_profile", f"{field}.api_modes.{profile}", f"is no profile; expected {', '.join(profiles)}"
    yield from _environment_problems(campaign)


def _environment_problems(campaign: Campaign) -> Iterator[Problem]:
    names = sorted({name for arm in campaign.arms for name in arm.environment})
    for index, arm in enumerate(campaign.arms):
        for name in names:
            values = {other.environment.get(name) for other in campaign.arms}
            if len(values) > 1 and name in arm.environment and name not in arm.environment_reasons:
                message = f"{name} differs between arms; say why, or set it alike in all"
                yield "undeclared_difference", f"arms.{index}.environment_reasons", message
        loud = loud_variables(arm.environment)
        if loud:
            message = (
                f"sets {', '.join(loud)}: libraries must be quiet while they are timed; admission sets what it needs"
            )
            yield "loud_environment", f"arms.{index}.environment", message
        for name in sorted(set(arm.environment_reasons) - set(arm.environment)):
            message = f"gives a reason for {name}, which this arm does not set"
            yield "reason_without_variable", f"arms.{index}.environment_reasons", message


def _profile_problems(campaign: Campaign, shapes: dict[str, Any]) -> Iterator[Problem]:
    for index, profile in enumerate(campaign.profiles):
        field = f"profiles.{index}"
        given = [key for key in ("hidden", "experts", "top_k") if getattr(profile, key) is not None]
        if profile.shape is not None and given:
            yield "shape_twice", field, f"gives shape {profile.shape!r} and also {', '.join(given)}; keep one"
            continue
        if profile.shape is not None and profile.shape not in shapes:
            yield (
                "unknown_shape",
                f"{field}.shape",
                f"{profile.shape!r} is not in config/shapes.yaml: {', '.join(shapes)}",
            )
            continue
        if profile.shape is None and len(given) < 3:
            yield "missing_shape", field, "needs `shape`, or all of hidden, experts and top_k"
            continue
        full = with_shape(profile, shapes)
        assert full.hidden is not None
        assert full.experts is not None
        assert full.top_k is not None
        yield from _shape_problems(campaign, field, full, full.hidden, full.experts, full.top_k)


def _shape_problems(
    campaign: Campaign, field: str, profile: Profile, hidden: int, experts: int, top_k: int
) -> Iterator[Problem]:
    if hidden % 128:
        yield "hidden_not_divisible", f"{field}.hidden", f"{hidden} is not a multiple of 128, the FP8 scale block"
    if top_k > experts:
        yield "top_k_over_experts", f"{field}.top_k", f"{top_k} of {experts} experts: a token cannot go to one twice"
    capacity = profile.max_tokens_per_rank or profile.tokens_per_rank
    if capacity < profile.tokens_per_rank:
        message = f"capacity {capacity} is below tokens_per_rank {profile.tokens_per_rank}"
        yield "capacity_too_small", f"{field}.max_tokens_per_rank", message
    for number, size in enumerate(campaign.ep_sizes):
        if experts % size.ranks:
            message = f"{experts} experts of profile {profile.name!r} do not spread evenly over {size.ranks} ranks"
            yield "experts_not_divisible", f"ep_sizes.{number}.ranks", message


def _route_problems(campaign: Campaign, shapes: dict[str, Any], folder: Path) -> Iterator[Problem]:
    for index, route in enumerate(campaign.routes):
        field = f"routes.{index}"
        if route.kind is RouteKind.TRACE:
            yield from _trace_problems(field, route, folder)
        elif route.kind is RouteKind.RAGGED:
            for number, size in enumerate(campaign.ep_sizes):
                if route.empty_ranks >= size.ranks:
                    message = f"{route.empty_ranks} empty ranks of {size.ranks}: no rank would hold a token"
                    yield "no_tokens", f"ep_sizes.{number}.ranks", message
        elif route.kind is RouteKind.GROUPED:
            for profile in campaign.profiles:
                if profile.shape is None or profile.shape in shapes:
                    yield from _group_problems(field, route, with_shape(profile, shapes))


def _trace_problems(field: str, route: RouteModel, folder: Path) -> Iterator[Problem]:
    if route.trace is None:
        yield "missing_trace", f"{field}.trace", "a trace route needs the path of its file"
    elif not os.path.isfile(folder / route.trace):  # noqa: PTH113 - false also where the name is too long or holds a NUL
        yield "no_such_trace", f"{field}.trace", f"{folder / route.trace} is no file"


def _group_problems(field: str, route: RouteModel, profile: Profile) -> Iterator[Problem]:
    if profile.experts is None or profile.top_k is None:
        return
    if profile.experts % route.groups or route.groups_per_token > route.groups:
        message = f"{profile.experts} experts in {route.groups} groups, {route.groups_per_token} for a token"
        yield "bad_groups", f"{field}.groups", f"{message}: groups must divide experts and hold those of a token"
    elif profile.top_k > route.groups_per_token * (profile.experts // route.groups):
        yield (
            "bad_groups",
            f"{field}.groups_per_token",
            f"top-k {profile.top_k} does not fit in the groups",
        )


def _measurement_problems(campaign: Campaign) -> Iterator[Problem]:
    how = campaign.measurement
    if how.primary.boundary not in how.boundaries or how.primary.mode not in how.modes:
        message = (
            f"{how.primary.boundary.value} in {how.primary.mode.value} is not among the measured boundaries and modes"
        )
        yield "primary_not_measured", "measurement.primary", message
    for field, iterations in [
        ("measurement.iterations", how.iterations),
        *((f"profiles.{i}.iterations", p.iterations) for i, p in enumerate(campaign.profiles) if p.iterations),
        *((f"ep_sizes.{i}.iterations", e.iterations) for i, e in enumerate(campaign.ep_sizes) if e.iterations),
    ]:
        if iterations % how.chain_length:
            yield "chain_not_divisor", field, f"{iterations} iterations do not divide into chains of {how.chain_length}"
    for index, size in enumerate(campaign.ep_sizes):
        pod = size.ranks_per_pod or size.ranks
        if size.ranks % pod:
            yield "ep_size_not_divisible", f"ep_sizes.{index}.ranks_per_pod", f"{size.ranks} ranks in pods of {pod}"
        if size.ranks % (size.domain_size or pod):
            message = f"{size.ranks} ranks in domains of {size.domain_size or pod}"
            yield "ep_size_not_divisible", f"ep_sizes.{index}.domain_size", message
        if size.ranks_per_device > 1:
            yield from _sharing_problems(campaign, size, f"ep_sizes.{index}.ranks_per_device")


def _sharing_problems(campaign: Campaign, size: EpSize, field: str) -> Iterator[Problem]:
    """Ranks on one device take turns, so that their times say nothing: such a size is for correctness alone."""
    pod = size.ranks_per_pod or size.ranks
    if pod % size.ranks_per_device:
        yield "ep_size_not_divisible", field, f"{pod} ranks of a pod on devices of {size.ranks_per_device}"
    if campaign.device is not Device.CUDA:
        yield "no_device_to_share", field, f"ranks share a GPU, and the device is {campaign.device.value}"
    if size.scored:
        message = "ranks that share a GPU wait for each other's turns: set scored: false, and read correctness only"
        yield "shared_device_is_scored", field, message


def _family_problems(campaign: Campaign) -> Iterator[Problem]:
    family = campaign.family
    filters: list[tuple[str, tuple[str, ...] | None, list[str]]] = [
        ("profiles", family.profiles, [profile.name for profile in campaign.profiles]),
        ("routes", family.routes, [route.name for route in campaign.routes]),
        ("dtypes", None if family.dtypes is None else tuple(d.value for d in family.dtypes), [d.value for d in Dtype]),
    ]
    for key, chosen, known in filters:
        for name in sorted(set(chosen or ()) - set(known)):
            yield "unknown_family_member", f"family.{key}", f"{name!r} is not declared; expected {', '.join(known)}"
    if len(campaign.arms) < 2:
        yield "nothing_to_compare", "arms", "a comparison needs at least two arms"
