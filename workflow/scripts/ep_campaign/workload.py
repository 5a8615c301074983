"""What every arm must have been given, worked out on the host: routes, weights, inputs, their digests and counts.

The ranks evaluate the contract's formulas with torch, this module evaluates them with numpy, and validation compares the
digests. Counts are made another way than `contract.accounting` makes them, so that one mistake cannot hide in both.

Legend: R ranks, T tokens of a rank, H hidden columns, K top-k slots, E experts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ep_campaign.routes import read_trace
from ep_worker.contract import workload as formulas
from ep_worker.contract.accounting import RouteCounts
from ep_worker.contract.counter import Stream, stream_key
from ep_worker.contract.workload import MASKED, RouteKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from ep_worker.contract.spec import Route, StartSpec

    Int64 = npt.NDArray[np.int64]

MAX_ELEMENTS = 1 << 26
"""Elements (tokens of all ranks x experts for a route, x hidden for an input) up to which validation recomputes digests."""


@dataclass(frozen=True)
class RouteWorkload:
    """One route of one profile at one EP size.

    Attributes:
        digests: `route_sha256` and `weights_sha256` over all ranks, and `..._by_rank`.
        counts: What goes where.
        expert_load: Selections of an expert over all tokens: `min`, `max`, `mean`.
    """

    digests: dict[str, Any]
    counts: RouteCounts
    expert_load: dict[str, Any]


def route_workload(spec: StartSpec, route: Route, folder: Path) -> RouteWorkload:
    """Experts and weights of a route; `folder` is where a trace's path starts.

    Raises:
        CampaignError: A trace file is missing or not text.
    """
    tokens, experts = list(token_numbers(route)), expert_ids(spec, route, folder)
    weights = (
        formulas.weights(np, expert_TK, token_T, route.seed, equal=route.equal_weights)
        for expert_TK, token_T in zip(experts, tokens, strict=True)
    )
    digests = {**_digests("route", experts, "<i8"), **_digests("weights", weights, "<f4")}
    load_E = np.zeros(spec.shape.experts, dtype=np.int64)
    for expert_TK in experts:
        load_E += np.bincount(expert_TK[expert_TK != MASKED], minlength=spec.shape.experts)
    load = {"min": int(load_E.min()), "max": int(load_E.max()), "mean": float(load_E.mean())}
    return RouteWorkload(digests, count(experts, spec.shape.experts, spec.domain_size), load)


def expert_ids(spec: StartSpec, route: Route, folder: Path) -> list[Int64]:
    """Expert ids of each rank [T, K], -1 where masked."""
    return list(_experts(spec, route, list(token_numbers(route)), folder))


def input_digests(spec: StartSpec, route: Route) -> dict[str, Any]:
    """`input_sha256` over all ranks, and `input_sha256_by_rank`: BF16 tokens."""
    return _digests("input", (_bf16(_input(spec, token_T)) for token_T in token_numbers(route)), "<u2")


def token_numbers(route: Route) -> Iterator[Int64]:
    """Global token numbers of each rank [T]: ranks follow one another without a gap."""
    first = 0
    for num_tokens in route.num_tokens:
        yield np.arange(first, first + num_tokens, dtype=np.int64)
        first += num_tokens


def rank_ordered(digests: Iterable[str]) -> str:
    """Digest of a whole: SHA-256 over the raw digests of its ranks, in rank order."""
    return hashlib.sha256(b"".join(bytes.fromhex(digest) for digest in digests)).hexdigest()


def _digests(name: str, arrays: Iterable[npt.NDArray[Any]], dtype: str) -> dict[str, Any]:
    """Digests of one array, rank by rank, as little-endian `dtype`, and of the whole."""
    by_rank = [hashlib.sha256(np.ascontiguousarray(array, dtype=dtype).data).hexdigest() for array in arrays]
    return {f"{name}_sha256": rank_ordered(by_rank), f"{name}_sha256_by_rank": by_rank}


def count(expert_RTK: Iterable[Int64], num_experts: int, domain_size: int) -> RouteCounts:
    """Counts of a route by listing its distinct (token, target) pairs."""
    ranks = list(expert_RTK)
    per_rank = num_experts // len(ranks)
    selections, rows, domain_rows = [], [], []
    for expert_TK in ranks:
        token_N, slot_N = np.nonzero(expert_TK != MASKED)
        target_N = expert_TK[token_N, slot_N] // per_rank
        selections.append(np.bincount(target_N, minlength=len(ranks)).tolist())
        rows.append(_distinct(token_N, target_N, len(ranks)))
        domain_rows.append(_distinct(token_N, target_N // domain_size, len(ranks) // domain_size))
    return RouteCounts(selections, rows, domain_rows, domain_size)


def _distinct(token_N: Int64, target_N: Int64, num_targets: int) -> list[int]:
    pairs = np.unique(np.stack([token_N, target_N]), axis=1)
    return [int(n) for n in np.bincount(pairs[1], minlength=num_targets)]


def _experts(spec: StartSpec, route: Route, tokens: list[Int64], folder: Path) -> Iterator[Int64]:
    if route.kind is RouteKind.TRACE:
        lines = [line for line in read_trace(folder / route.trace).splitlines() if line and not line.startswith("#")]
        table = np.array([[int(part) for part in line.split(",")] for line in lines], dtype=np.int64)
        yield from (table[token_T] for token_T in tokens)
        return
    for token_T in tokens:
        yield _drawn(spec, route, token_T)


def _drawn(spec: StartSpec, route: Route, token_T: Int64) -> Int64:
    top_k, ends = spec.shape.top_k, np.array(route.thresholds, dtype=np.int64)
    if route.kind is RouteKind.AFFINE:
        expert_TK = formulas.affine_experts(np, token_T, spec.shape.experts, top_k, route.seed)
    elif route.kind is RouteKind.GROUPED:
        members = np.array(route.member_thresholds, dtype=np.int64)
        expert_TK = formulas.grouped_experts(np, token_T, ends, members, route.experts_per_group, top_k, route.seed)
    else:
        key = stream_key(route.seed, Stream.EXPERT)
        expert_TK = formulas.distinct_choices(np, token_T, top_k, ends, key)
    if route.kind is RouteKind.MASKED:
        expert_TK = formulas.mask_slots(np, expert_TK, token_T, route.mask_threshold, route.seed)
    return np.asarray(expert_TK, dtype=np.int64)


def _input(spec: StartSpec, token_T: Int64) -> npt.NDArray[np.float32]:
    if spec.input_kind == "affine":
        return np.asarray(formulas.affine_input(np, token_T, spec.shape.hidden))
    return np.asarray(formulas.hashed_input(np, token_T, spec.shape.hidden, spec.seed))


def _bf16(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    """The upper halves of float32 words: BF16, exactly, for values that BF16 can hold."""
    words: npt.NDArray[np.uint32] = np.ascontiguousarray(values).view(np.uint32)
    return np.right_shift(words, 16, dtype=np.uint32)
