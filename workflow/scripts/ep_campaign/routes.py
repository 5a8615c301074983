"""Routes with their thresholds made: exact decimal arithmetic here, integers from here on."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from ep_campaign.errors import CampaignError, Refusal
from ep_campaign.order import shuffled
from ep_worker.contract.counter import DRAW_BITS, Stream, draw_int, stream_key
from ep_worker.contract.spec import Route
from ep_worker.contract.workload import MASKED, RouteKind

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.campaign import Profile, RouteModel

END = 1 << DRAW_BITS
MAX_TRACE_BYTES = 256 << 20
"""Largest trace: 64 ranks of 65,536 tokens with ten ids of four digits each take 200 MiB."""


def thresholds(weights: list[Decimal]) -> tuple[int, ...]:
    """Rising integers, last 2^62, whose steps are the weights' shares, each rounded down at its cumulative end."""
    with localcontext() as context:
        context.prec = 60
        total = sum(weights, Decimal(0))
        cumulative, ends = Decimal(0), []
        for weight in weights:
            cumulative += weight
            ends.append(int(cumulative / total * END))
    return (*ends[:-1], END)


def popularity(num_experts: int, exponent: Decimal) -> list[Decimal]:
    """Zipf weights 1 / rank^exponent for ranks 1 .. E, to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return [Decimal(1) / Decimal(rank) ** exponent for rank in range(1, num_experts + 1)]


def ragged_counts(route: RouteModel, tokens_per_rank: int, num_ranks: int, seed: int) -> tuple[int, ...]:
    """Tokens of each rank: one rank full, `empty_ranks` empty, the rest between the least fraction and full."""
    least = max(1, int(route.least_fraction * tokens_per_rank))
    key = stream_key(seed, Stream.TOKEN_COUNT)
    counts = [least + draw_int(rank, key) % (tokens_per_rank - least + 1) for rank in range(num_ranks)]
    ranks = shuffled(num_ranks, seed, int(Stream.TOKEN_COUNT))
    counts[ranks[0]] = tokens_per_rank
    for rank in ranks[1 : 1 + route.empty_ranks]:
        counts[rank] = 0
    return tuple(counts)


def resolve_route(route: RouteModel, profile: Profile, num_ranks: int, seed: int, folder: Path) -> Route:
    """The route of one profile at one EP size.

    Raises:
        CampaignError: A trace file is short, out of range or not text.
    """
    assert profile.experts is not None
    assert profile.top_k is not None
    even = tuple(profile.tokens_per_rank for _ in range(num_ranks))
    flat = thresholds([Decimal(1)] * profile.experts)
    if route.kind is RouteKind.AFFINE:
        return Route(route.name, route.kind, seed, even)
    if route.kind is RouteKind.TRACE:
        assert route.trace is not None
        path = folder / route.trace
        digest = check_trace(path, profile.experts, profile.top_k, sum(even))
        return Route(route.name, route.kind, seed, even, trace=f"traces/{digest}.csv", trace_sha256=digest)
    if route.kind is RouteKind.ZIPF:
        weights = popularity(profile.experts, route.exponent)
        if route.placement == "shuffled":
            ranks = shuffled(profile.experts, seed, int(Stream.EXPERT_ORDER))
            weights = [weights[ranks[expert]] for expert in range(profile.experts)]
        return Route(route.name, route.kind, seed, even, thresholds(weights))
    if route.kind is RouteKind.GROUPED:
        size = profile.experts // route.groups
        groups = thresholds([Decimal(1)] * route.groups)
        members = thresholds([Decimal(1)] * (size * route.groups_per_token))
        return Route(route.name, route.kind, seed, even, groups, members, size)
    if route.kind is RouteKind.MASKED:
        return Route(route.name, route.kind, seed, even, flat, mask_threshold=int(route.masked_fraction * END))
    if route.kind is RouteKind.RAGGED:
        return Route(route.name, route.kind, seed, ragged_counts(route, even[0], num_ranks, seed), flat)
    return Route(route.name, route.kind, seed, even, flat)


def read_trace(path: Path) -> str:
    """The text of a trace, unpacked where its name ends in .gz.

    Raises:
        CampaignError: `trace_not_text`, or `trace_too_large` once it is unpacked.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            data = stream.read(MAX_TRACE_BYTES + 1)
        if len(data) > MAX_TRACE_BYTES:
            message = f"holds more than {MAX_TRACE_BYTES} bytes unpacked, the most that a trace may: cut it to what a plan needs"
            raise CampaignError([Refusal("trace_too_large", message, str(path))])
        text = data.decode("ascii")
    except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        message = f"is not ASCII text ({error}); expected one line of comma-separated expert ids for each token"
        raise CampaignError([Refusal("trace_not_text", message, str(path))]) from None
    return text


def check_trace(path: Path, num_experts: int, top_k: int, num_tokens: int) -> str:
    """SHA-256 of a trace's text, once every line holds `top_k` distinct ids of [-1, experts) and there are enough lines.

    Raises:
        CampaignError: With the first fault of each kind.
    """
    text = read_trace(path)
    faults: dict[str, Refusal] = {}
    rows = [line for line in text.splitlines() if line and not line.startswith("#")]
    for number, line in enumerate(rows, 1):
        fault = _row_fault(line, num_experts, top_k)
        if fault is not None:
            faults.setdefault(fault[0], Refusal(fault[0], fault[1], f"{path}: token line {number}"))
    if len(rows) < num_tokens:
        message = f"holds {len(rows)} token lines, the plan needs {num_tokens} (ranks x tokens_per_rank)"
        faults["trace_too_short"] = Refusal("trace_too_short", message, str(path))
    if faults:
        raise CampaignError(list(faults.values()))
    return hashlib.sha256(text.encode()).hexdigest()


def _row_fault(line: str, num_experts: int, top_k: int) -> tuple[str, str] | None:
    try:
        ids = [int(part) for part in line.split(",")]
    except ValueError:
        return "trace_not_integers", f"found {line[:60]!r}, expected {top_k} comma-separated expert ids"
    if len(ids) != top_k:
        return "trace_wrong_width", f"holds {len(ids)} ids, expected top-k {top_k}"
    wrong = [expert for expert in ids if not MASKED <= expert < num_experts]
    if wrong:
        return "trace_out_of_range", f"expert id {wrong[0]}, expected -1 (masked) or 0 to {num_experts - 1}"
    valid = [expert for expert in ids if expert != MASKED]
    if len(set(valid)) < len(valid):
        return "trace_repeats_expert", f"expert ids {line!r} repeat one: a token goes to an expert once"
    return None
