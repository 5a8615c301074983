"""The plan as a table that a person can read before anything runs: matrix, order, time, cost, limits, and what n can tell."""

from __future__ import annotations

import textwrap
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ep_campaign.numbers import plural
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.resolution import POWER, resolvable_effect_percent, rounds_for_effect
from ep_campaign.text import table

if TYPE_CHECKING:
    from ep_campaign.plan import Plan

SHOWN_ROUNDS = 3


def preview(plan: Plan) -> str:
    """The whole preview, ready to print."""
    sections = [
        _head(plan),
        "Arms\n" + table(("arm", "backend", "API mode", "knobs", "image"), _arms(plan)),
        "Profiles\n"
        + table(("profile", "tokens/rank", "capacity", "hidden", "experts", "top-k", "iterations"), _profiles(plan)),
        "Cells (rows of the results; a start measures all of its EP size and profile)\n"
        + table(("EP", "profile", "routes", "dtypes", "cells", "rounds", "starts", "judged"), _cells(plan)),
        f"Order (at most {SHOWN_ROUNDS} rounds shown; every start is a process launch of its own)\n"
        + table(("EP", "profile", "round", "arms in turn"), _order(plan)),
        _duration(plan),
        _resolution(plan),
        _budget(plan),
        _rejected(plan),
        _warnings(plan),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _head(plan: Plan) -> str:
    document = plan.document
    boundary, mode = plan.primary
    return (
        f"Campaign {plan.name} ({document['kind']} on {document['device']})  digest {plan.digest}\n"
        f"{textwrap.fill(document['description'], 110)}\n"
        f"Verdicts: {boundary.value}, {mode.value}; reference {document['reference']}; order {document['order']}, "
        f"seed {document['seed']}"
    )


def _arms(plan: Plan) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, arm in plan.document["arms"].items():
        modes = sorted(set(arm["api_modes"].values()))
        knobs = ", ".join(f"{key}={value}" for key, value in sorted(arm["knobs"].items())) or "-"
        image = _short_image(arm["image"]) if arm["image"] else "local process"
        rows.append((name, arm["backend"], "/".join(modes), knobs, image))
    return rows


def _short_image(image: str) -> str:
    """A repository's last name and the first digits of the digest that pins it."""
    repository, _, digest = image.partition("@sha256:")
    return f"{repository.rpartition('/')[2]}@{digest[:12]}"


def _profiles(plan: Plan) -> list[tuple[str, ...]]:
    keys = ("tokens_per_rank", "max_tokens_per_rank", "hidden", "experts", "top_k")
    return [
        (
            name,
            *(str(profile["shape"][key]) for key in keys),
            f"{profile['measurement']['warmups']} + {profile['measurement']['iterations']}",
        )
        for name, profile in plan.document["profiles"].items()
    ]


def _cells(plan: Plan) -> list[tuple[str, ...]]:
    starts = Counter((start.ep_size, start.profile) for start in plan.starts)
    family = Counter(c["cell"].rsplit("/", 2)[0] for c in plan.contrasts)
    rows: list[tuple[str, ...]] = []
    for (ep_size, profile), group in groupby(
        plan.document["cells"], key=lambda cell: (cell["ep_size"], cell["profile"])
    ):
        cells = list(group)
        num_judged = family[f"ep{ep_size}/{profile}"]
        judged = plural(num_judged, "contrast") if num_judged else "described only"
        rows.append(
            (
                str(ep_size),
                profile,
                ", ".join(dict.fromkeys(cell["route"] for cell in cells)),
                ", ".join(dict.fromkeys(cell["dtype"] for cell in cells)),
                str(len(cells)),
                str(plan.num_rounds[ep_size]),
                str(starts[(ep_size, profile)]),
                judged,
            )
        )
    return rows


def _order(plan: Plan) -> list[tuple[str, ...]]:
    shown = [start for start in plan.starts if start.round <= SHOWN_ROUNDS]
    blocks = groupby(shown, key=lambda start: (start.ep_size, start.profile, start.round))
    return [
        (str(ep), profile, str(number), " > ".join(start.arm for start in group))
        for (ep, profile, number), group in blocks
    ]


def expected_seconds(plan: Plan) -> float:
    """Seconds of node-set time that the declared `expected_start_s` add up to."""
    return float(sum(plan.document["profiles"][start.profile]["expected_start_s"] for start in plan.starts))


def node_hours(plan: Plan) -> float:
    """Node-hours of all starts: each occupies the pods of its EP size."""
    profiles, seconds = plan.document["profiles"], 0.0
    for start in plan.starts:
        seconds += profiles[start.profile]["expected_start_s"] * plan.ep_entry(start.ep_size)["num_pods"]
    return seconds / 3600


def _duration(plan: Plan) -> str:
    seconds = expected_seconds(plan)
    text = f"Duration  {plural(len(plan.starts), 'start')}, about {seconds / 60:.0f} min of measuring ({seconds / 3600:.2f} h)"
    price = plan.document["price_per_node_hour"]
    if price is None:
        return f"{text}; no price declared"
    return (
        f"{text}; {node_hours(plan):.2f} node-hours, about {node_hours(plan) * price:.2f} {plan.document['currency']}"
    )


def _resolution(plan: Plan) -> str:
    family = plan.document["family"]
    size = len(plan.contrasts)
    if not size:
        return "Family    none: every EP size is described, none is judged"
    test, sd = PairedTest(family["test"]), family["assumed_start_cv"]
    head = (
        f"Family    {plural(size, 'contrast')}, family-wise alpha {family['alpha']:g} (Holm), test {test.value}, practical "
        f"threshold {100 * family['practical_threshold']:g} %; at least {plural(family['min_rounds'], 'complete round')}"
    )
    lines = [head]
    for entry in plan.document["ep_sizes"]:
        if entry["scored"] and any(c["cell"].startswith(f"ep{entry['ranks']}/") for c in plan.contrasts):
            effect = resolvable_effect_percent(entry["rounds"], size, sd, alpha=family["alpha"], test=test)
            assert effect is not None  # the plan was refused otherwise
            lines.append(
                f"          EP {entry['ranks']}: {entry['rounds']} rounds resolve a difference of {effect:.1f} % with power "
                f"{POWER:g}, if start medians spread by {100 * sd:g} %"
            )
    wanted = rounds_for_effect(100 * family["practical_threshold"], size, sd, alpha=family["alpha"], test=test)
    lines.append(f"          rounds that would resolve the practical threshold: {wanted or 'over 200'}")
    return "\n".join(lines)


def complete_rounds(plan: Plan, seconds: float) -> dict[int, int]:
    """Rounds of each EP size whose starts all end within `seconds` of measuring, at the expected durations."""
    left = Counter((start.ep_size, start.round) for start in plan.starts)
    done, rounds = 0.0, dict.fromkeys(plan.num_rounds, 0)
    for start in plan.starts:
        done += plan.document["profiles"][start.profile]["expected_start_s"]
        if done > seconds:
            break
        left[(start.ep_size, start.round)] -= 1
        if left[(start.ep_size, start.round)] == 0:
            rounds[start.ep_size] += 1
    return rounds


def _budget(plan: Plan) -> str:
    """Which verdicts the budget reaches: the complete rounds that fit, and whether they can decide the family."""
    hours = plan.document["budget_hours"]
    if hours is None:
        return ""
    lines = [f"Budget    {hours:g} h; a round that would not end within it does not begin"]
    needed = plan.document["family"]["min_rounds"]
    scored = {entry["ranks"] for entry in plan.document["ep_sizes"] if entry["scored"]}
    for ep_size, rounds in complete_rounds(plan, hours * 3600).items():
        verdict = "its verdicts are reached" if needed and rounds >= needed else "its family stays undecided"
        text = verdict if ep_size in scored and needed else "described only"
        lines.append(f"          EP {ep_size}: {rounds} of {plural(plan.num_rounds[ep_size], 'round')} fit; {text}")
    return "\n".join(lines)


def _rejected(plan: Plan) -> str:
    """What cannot run and why, cells of one reason together."""
    rows: dict[tuple[str, str, str, str], int] = Counter(
        (item["arm"], item["mode"], item["reason"], item["source"]) for item in plan.document["rejected"]
    )
    if not rows:
        return "Cannot run  nothing: every arm takes every cell and mode"
    shown = [
        (arm, "all modes" if mode == "*" else mode, str(n), reason, source)
        for (arm, mode, reason, source), n in rows.items()
    ]
    return "Cannot run (rows of the report, never blanks)\n" + table(("arm", "mode", "cells", "why", "source"), shown)


def _warnings(plan: Plan) -> str:
    warnings: list[dict[str, Any]] = plan.document["warnings"]
    return "\n".join(f"Note      {warning['text']} [{warning['code']}]" for warning in warnings)
