"""What a campaign of builds needs: one backend, a control, a sweep; and what every campaign with a sweep needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.published_series import PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_campaign.campaign import Arm, Campaign

SWEEP = "sweep"
"""Key of `api_modes` that stands for every profile of a sweep."""
REGRESSION = "regression"

Problem = tuple[str, str, str]


def profile_source_problems(campaign: Campaign) -> Iterator[Problem]:
    """(code, field, message): workload shapes are given, and once; a sweep's numbers rise."""
    if campaign.sweep is not None and campaign.profiles:
        yield "sweep_with_profiles", "sweep", "stands for profiles, and profiles are given as well; keep one"
    if campaign.sweep is None and not campaign.profiles:
        yield "empty_matrix", "profiles", "holds no workload shape, and there is no sweep: give one of them"
    if campaign.sweep is not None and list(campaign.sweep.tokens_per_rank) != sorted(
        set(campaign.sweep.tokens_per_rank)
    ):
        listed = ", ".join(map(str, campaign.sweep.tokens_per_rank))
        yield "sweep_not_rising", "sweep.tokens_per_rank", f"are {listed}; expected rising numbers, each once"


def with_sweep(campaign: Campaign) -> Campaign:
    """The campaign with its sweep's profiles among its profiles, also where arms name their API mode."""
    if campaign.sweep is None:
        return campaign
    profiles = campaign.sweep.profiles()
    arms = tuple(_with_modes(arm, [profile.name for profile in profiles]) for arm in campaign.arms)
    return campaign.model_copy(update={"profiles": profiles, "arms": arms})


def _with_modes(arm: Arm, profiles: list[str]) -> Arm:
    if SWEEP not in arm.api_modes:
        return arm
    modes = {name: mode for name, mode in arm.api_modes.items() if name != SWEEP}
    return arm.model_copy(update={"api_modes": {**dict.fromkeys(profiles, arm.api_modes[SWEEP]), **modes}})


def regression_problems(campaign: Campaign) -> Iterator[Problem]:
    """(code, field, message) of what makes no campaign of builds."""
    yield from _loop_problems(campaign)
    yield from _published_problems(campaign)
    if campaign.kind == REGRESSION:
        yield from _build_problems(campaign)
    elif campaign.control is not None:
        message = (
            f"{campaign.control!r} is a control of builds, and the kind is {campaign.kind}; expected kind {REGRESSION}"
        )
        yield "control_outside_regression", "control", message


def _loop_problems(campaign: Campaign) -> Iterator[Problem]:
    loops = campaign.family.loops
    if len(set(loops)) < len(loops):
        yield "duplicate_loop", "family.loops", f"{', '.join(loops)}: each once"
    if set(loops) - {"roundtrip"} and not campaign.measurement.isolated_loops:
        message = "phases are judged on their own loops, which measurement.isolated_loops: false leaves out"
        yield "loops_not_measured", "family.loops", message


def _published_problems(campaign: Campaign) -> Iterator[Problem]:
    if campaign.published and not (PUBLISHED / f"{campaign.published}.json").is_file():
        message = f"{campaign.published!r}: there is no such file in {PUBLISHED}"
        yield "unknown_published", "published", message
    if campaign.published and campaign.sweep is None:
        yield "published_without_sweep", "published", "a series stands beside a sweep, and there is none: take it out"


def _build_problems(campaign: Campaign) -> Iterator[Problem]:
    backends = sorted({arm.backend for arm in campaign.arms})
    if len(backends) > 1:
        message = f"{', '.join(backends)}: builds of one backend are compared here; backends in kind comparison"
        yield "several_backends", "arms", message
    if campaign.sweep is None:
        yield "no_sweep", "sweep", "is missing: at which token counts a build is slower is the question"
    if campaign.control is None:
        message = "is missing: name the arm whose build or knob restores the old behaviour"
        yield "no_control", "control", message
    elif campaign.control not in campaign.arm_names or campaign.control == campaign.reference:
        others = ", ".join(name for name in campaign.arm_names if name != campaign.reference)
        yield "unknown_control", "control", f"{campaign.control!r}; expected an arm beside the reference: {others}"


def alike(campaign: Campaign) -> list[tuple[str, str]]:
    """Pairs of arms that are one build with the same knobs: an A/A comparison, which must find nothing."""
    keys = [
        (arm.backend, arm.image, arm.build, arm.commit, sorted(arm.knobs.items()), sorted(arm.environment.items()))
        for arm in campaign.arms
    ]
    return [
        (first.name, second.name)
        for place, first in enumerate(campaign.arms)
        for other, second in enumerate(campaign.arms[place + 1 :], place + 1)
        if keys[place] == keys[other] and first.api_modes == second.api_modes
    ]
