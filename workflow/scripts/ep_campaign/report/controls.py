"""What was held fixed and how: one table for a reviewer, and who does which work inside the timer."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ep_campaign.numbers import count, listing, percent, plural, significant
from ep_campaign.report.document import Quoted, Rank, Section, Table, Text
from ep_campaign.report.values import shown, value_text
from ep_campaign.report.words import PLACEMENT_WORDS
from ep_worker.contract.counter import DRAW_BITS
from ep_worker.contract.terms import Boundary, Device, Loop
from ep_worker.contract.workload import RouteKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ep_campaign.report.source import Source
    from ep_campaign.summary import EpSize, Profile

_BOUNDARY_WORDS = {
    Boundary.DISPATCH_READY: "from the input as the arm's interface takes it (a cast by the caller is outside) to combined tokens",
    Boundary.BF16_READY: "from BF16 input (whoever casts, the cast is inside) to combined tokens",
    Boundary.GEMM_READY: "from BF16 input; dispatch ends with rows grouped by local expert, combine applies the gate weights",
}
_ROUTE_WORDS = {
    RouteKind.AFFINE: "the formula of the published campaigns: balanced, periodic, equal weights",
    RouteKind.UNIFORM: "every expert alike",
    RouteKind.ZIPF: "popularity falls as a power of the expert's rank",
    RouteKind.GROUPED: "first expert groups, then experts within them",
    RouteKind.MASKED: "uniform, some slots go nowhere",
    RouteKind.RAGGED: "uniform, token counts differ between ranks",
    RouteKind.TRACE: "recorded expert ids",
}
_HARDWARE = ("gpu_model", "driver_version", "nic", "cpu_model", "num_cpus", "memory_total_bytes", "machine")
_RUNTIME = (
    "torch_version",
    "cuda_version",
    "collective_library",
    "collective_version_loaded",
    "collective_version_compiled",
    "python_version",
    "kernel",
    "threads_per_rank",
)


def controls_section(source: Source) -> Section:
    """The table of controls and the table of placements."""
    rows: list[tuple[Text, ...]] = [
        ("Input", _input(source)),
        ("Routing", _routing(source)),
        ("Model shape", "; ".join(_shape(profile) for profile in source.summary.head.profiles)),
        ("Operations", _operations(source)),
        ("Timing boundary", _boundary(source)),
        (
            "Rank reduction",
            "slowest rank: the maximum over ranks of each iteration, then the median over iterations of a start",
        ),
        ("SM count", _num_sms(source)),
        ("Warm-up", _each(source, lambda profile: plural(profile.warmups, "untimed iteration"))),
        ("Measurement", _each(source, lambda profile: _measurement(source, profile))),
        ("Replication", "; ".join(_replication(size) for size in source.summary.head.ep_sizes)),
        ("Order", _order(source)),
        ("Hardware", _observed(source, _HARDWARE)),
        ("Runtime", _observed(source, _RUNTIME)),
        ("Correctness", _correctness(source)),
    ]
    blocks = (Table("Controls", ("control", "value"), tuple(rows)), _arms_table(source), _placements_table(source))
    return Section("controls", "Controls", Rank.CAVEAT, blocks)


def _input(source: Source) -> str:
    kinds = {
        "hashed": "pseudo-random BF16 from integer counter hashes",
        "affine": "the published campaigns' formula, BF16",
    }
    given = source.plan.document["input"]
    return (
        f"{kinds.get(given, given)}, seed {source.plan.document['seed']}; validation found input, route and weights equal by "
        "SHA-256 over all arms, rounds and attempts"
    )


def _routing(source: Source) -> str:
    parts: dict[str, None] = {}
    for by_size in source.plan.document["routes"].values():
        for size, routes in by_size.items():
            for route in routes:
                parts[route_words(route, int(size))] = None
    return "; ".join(parts)


def route_words(route: dict[str, Any], ep_size: int) -> str:
    """A route: its name, its formula, and how uneven it is."""
    kind = RouteKind(route["kind"])
    text = f"{route['name']}: {_ROUTE_WORDS[kind]}"
    if kind is RouteKind.ZIPF:
        ends = [0, *route["thresholds"]]
        most = max(high - low for low, high in pairwise(ends))
        text += f" (the most popular takes {percent(most / (1 << DRAW_BITS))} % of draws)"
    elif kind is RouteKind.MASKED:
        text += f" ({percent(route['mask_threshold'] / (1 << DRAW_BITS))} % of slots)"
    elif kind is RouteKind.RAGGED:
        text += f" (EP {ep_size}: {min(route['num_tokens']):,} to {max(route['num_tokens']):,} tokens)"
    elif kind is RouteKind.TRACE:
        text += f" (SHA-256 {route['trace_sha256'][:16]})"
    return text


def _shape(profile: Profile) -> str:
    source = f", as {profile.shape_source}" if profile.shape_source else ""
    return (
        f"{profile.name}: {count(profile.tokens_per_rank)} tokens/rank (capacity {count(profile.max_tokens_per_rank)}), hidden "
        f"{count(profile.hidden)}, {count(profile.experts)} experts, top-{profile.top_k}{source}"
    )


def _operations(source: Source) -> str:
    dtypes = listing(dict.fromkeys(cell.dtype.value for cell in source.summary.head.cells))
    return f"dispatch in {dtypes}, each expert's own transform outside the timer, combine in bf16 of input that is never all zeros"


def _boundary(source: Source) -> str:
    head = source.summary.head
    return f"{head.primary_boundary.value}, {head.primary_mode.value}: {_BOUNDARY_WORDS[head.primary_boundary]}"


def _num_sms(source: Source) -> str:
    by_arm: dict[str, dict[str, None]] = {}
    for level in source.summary.levels:
        for resolved in level.resolved:
            if "num_sms" in resolved:
                by_arm.setdefault(level.arm, {})[value_text(resolved["num_sms"])] = None
    if source.summary.head.device is Device.CPU:
        return "none: ranks compute on CPUs"
    if not by_arm:
        return "no arm says how many it uses"
    values = {tuple(found) for found in by_arm.values()}
    if len(values) == 1:
        return f"{listing(next(iter(values)), last='or')} (all arms)"
    return "; ".join(f"{arm}: {listing(found, last='or')}" for arm, found in by_arm.items())


def _each(source: Source, words: Any) -> str:
    """One text for all profiles where they agree, else one for each."""
    texts = {profile.name: words(profile) for profile in source.summary.head.profiles}
    if len(set(texts.values())) == 1:
        return str(next(iter(texts.values())))
    return "; ".join(f"{name}: {text}" for name, text in texts.items())


def _measurement(source: Source, profile: Profile) -> str:
    loops = "phases also timed alone" if profile.isolated_loops else "phases not timed alone"
    overrides = [size for size in source.summary.head.ep_sizes if size.iterations is not None]
    others = "".join(f" (EP {size.ranks}: {count(size.iterations)})" for size in overrides)
    return (
        f"{plural(profile.iterations, 'timed iteration')}{others} of each of "
        f"{plural(len(profile.boundaries), 'boundary', 'boundaries')} x {plural(len(profile.modes), 'mode')}, chains of "
        f"{profile.chain_length}, {loops}"
    )


def _replication(size: EpSize) -> str:
    judged = "scored" if size.scored else "described only"
    rounds = f"{plural(size.rounds, 'round')}, each an independent start of every arm and profile"
    override = f", {plural(size.iterations, 'timed iteration')} a series" if size.iterations else ""
    return f"EP {size.ranks}: {rounds}{override} ({judged})"


def _order(source: Source) -> str:
    words = {
        "williams": "Williams designs over arms, dealt by the seed: each arm in each place and after each other arm equally often",
        "published": "the three patterns of the published campaigns",
    }
    order = source.summary.head.order
    return f"{words.get(order, order)}; dtypes and routes balanced apart from it; one start at a time"


def _observed(source: Source, names: Iterable[str]) -> str:
    """Provenance fields that all starts agree on, in one line; those that differ are named."""
    observed = source.summary.observed
    if not observed:
        return "no start has an ok record, so that nothing was observed"
    parts = []
    for name in names:
        values = {value_text(item.same[name]) for item in observed if name in item.same}
        differs = any(name in item.varying for item in observed)
        if differs or len(values) > 1:
            parts.append(f"{name} differs (see Provenance)")
        elif values and not any(shown(item.same.get(name)) is None for item in observed):
            parts.append(f"{name} {next(iter(values))}")
    sizes = [f"EP {size.ranks} on {plural(size.num_pods, 'node')}" for size in source.summary.head.ep_sizes]
    return "; ".join([*(sizes if "gpu_model" in names else []), *parts])


def _correctness(source: Source) -> str:
    evidence = source.evidence
    errors = [level.max_token_error for level in source.summary.levels if level.max_token_error is not None]
    tolerances = [level.tolerance for level in source.summary.levels if level.tolerance is not None]
    text = (
        f"every expert applies its own transform; arrived (rank, token) pairs and counts are checked exactly, values per token, on "
        f"all ranks, before and after timing: {plural(evidence.num_checks_passed, 'check')} passed, "
        f"{plural(evidence.num_checks_failed, 'cell and boundary', 'cells and boundaries')} failed"
    )
    if errors and tolerances:
        text += f"; worst token {significant(max(errors), 2)}, tolerance {significant(max(tolerances), 2)}"
    return text


def _arms_table(source: Source) -> Table:
    rows = []
    for arm in source.summary.head.arms:
        modes = {profile: mode.value for profile, mode in arm.api_modes.items()}
        same = len(set(modes.values())) == 1
        shown_modes = (
            next(iter(modes.values())) if same else ", ".join(f"{name}: {mode}" for name, mode in modes.items())
        )
        knobs = ", ".join(f"{name}={value}" for name, value in sorted(arm.knobs.items()))
        role = " (reference)" if arm.name == source.summary.head.reference else ""
        image: Text = Quoted(arm.image) if arm.image else "none: local processes"
        rows.append((f"{arm.name}{role}", arm.backend, shown_modes, Quoted(knobs) if knobs else "none", image))
    return Table("Arms", ("arm", "backend", "API mode", "knobs", "image"), tuple(rows))


def _placements_table(source: Source) -> Table:
    """Who casts, permutes and weights at each boundary; profiles and dtypes, then arms, that agree share a row."""
    where: dict[tuple[str, ...], dict[str, None]] = {}
    for level in source.summary.levels:
        if level.loop is Loop.ROUNDTRIP:
            placements = (level.cast_placement, level.permute_placement, level.weight_placement)
            key = (level.arm, level.boundary.value, *(PLACEMENT_WORDS[item] for item in placements))
            where.setdefault(key, {})[f"{level.profile} {level.dtype.value}"] = None
    arms: dict[tuple[str, ...], list[str]] = {}
    for (arm, boundary, *words), cells in where.items():
        arms.setdefault((boundary, ", ".join(cells), *words), []).append(arm)
    boundaries = [boundary.value for boundary in Boundary]
    ordered = sorted(arms.items(), key=lambda item: boundaries.index(item[0][0]))
    rows = tuple((boundary, cells, ", ".join(names), *words) for (boundary, cells, *words), names in ordered)
    head = ("boundary", "where", "arms", "FP8 cast", "rows by expert", "gate weights")
    return Table("Who does which work", head, rows)
