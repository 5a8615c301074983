"""A declared route as tensors: which experts, which weights, which input; and the digests that arms are compared by.

Legend: A tokens of all ranks, T tokens of this rank, K top-k slots, H hidden columns. Global token numbers run through the
ranks in order without gaps: rank r's first token is the number of tokens before it, and line g of a trace is token g.
"""

from __future__ import annotations

import ctypes
import hashlib
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch

from ep_worker.collectives import gather_bytes
from ep_worker.contract import workload as formulas
from ep_worker.contract.accounting import count_route
from ep_worker.contract.counter import Stream, stream_key
from ep_worker.contract.workload import MASKED, RouteKind
from ep_worker.failure import WorkloadError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from ep_worker.contract.spec import Route, Shape, StartSpec

_DIGEST_BYTES = 32


@dataclass(frozen=True)
class Workload:
    """One route of one start, as every rank knows it.

    Attributes:
        route: What was declared.
        rank: This rank.
        first: Global number of each rank's first token.
        expert_AK: Expert ids of all tokens, int64, -1 where masked.
        weight_AK: Their gate weights, float32.
    """

    route: Route
    rank: int
    first: tuple[int, ...]
    expert_AK: Tensor
    weight_AK: Tensor

    @property
    def own(self) -> slice:
        """Global numbers of this rank's tokens."""
        start = self.first[self.rank]
        return slice(start, start + self.route.num_tokens[self.rank])

    @property
    def own_tokens(self) -> Tensor:
        """The same as int64 [T]."""
        return torch.arange(self.own.start, self.own.stop, dtype=torch.int64, device=self.expert_AK.device)


def make_workload(spec: StartSpec, route: Route, rank: int, device: torch.device, folder: Path) -> Workload:
    """Evaluates a route; `folder` is where a trace's path starts.

    Raises:
        WorkloadError: A trace is missing or is not the planned one.
    """
    *first, num_tokens = accumulate(route.num_tokens, initial=0)
    with device:  # the formulas make their tensors on the default device
        token_A = torch.arange(num_tokens, dtype=torch.int64)
        expert_AK = _experts(route, spec.shape, token_A, folder).contiguous()
        weight_AK = formulas.weights(torch, expert_AK, token_A, route.seed, equal=route.equal_weights).contiguous()
    return Workload(route, rank, tuple(first), expert_AK, weight_AK)


def _experts(route: Route, shape: Shape, token_A: Tensor, folder: Path) -> Any:
    num_experts, top_k, seed = shape.experts, shape.top_k, route.seed
    if route.kind is RouteKind.AFFINE:
        return formulas.affine_experts(torch, token_A, num_experts, top_k, seed)
    if route.kind is RouteKind.TRACE:
        return torch.tensor(read_trace(route, shape, folder), dtype=torch.int64)
    thresholds = torch.tensor(route.thresholds, dtype=torch.int64)
    if route.kind is RouteKind.GROUPED:
        members = torch.tensor(route.member_thresholds, dtype=torch.int64)
        return formulas.grouped_experts(torch, token_A, thresholds, members, route.experts_per_group, top_k, seed)
    expert_AK = formulas.distinct_choices(torch, token_A, top_k, thresholds, stream_key(seed, Stream.EXPERT))
    if route.kind is RouteKind.MASKED:
        return formulas.mask_slots(torch, expert_AK, token_A, route.mask_threshold, seed)
    return expert_AK


def read_trace(route: Route, shape: Shape, folder: Path) -> list[list[int]]:
    """Expert ids of every token of a trace: comma-separated lines, those that start with # left out.

    Raises:
        WorkloadError: The file cannot be read, is not the one that the plan hashed, or does not fit the shape.
    """
    path = folder / route.trace
    try:
        text = path.read_bytes()
    except OSError as error:
        msg = f"trace {path} cannot be read ({error.strerror}): it belongs beside the spec"
        raise WorkloadError(msg) from error
    digest = hashlib.sha256(text).hexdigest()
    if digest != route.trace_sha256:
        msg = f"trace {path} has SHA-256 {digest}, the plan hashed {route.trace_sha256}: restore it or plan again"
        raise WorkloadError(msg)
    lines = [line for line in text.decode("ascii").splitlines() if line and not line.startswith("#")]
    rows = [[int(part) for part in line.split(",")] for line in lines[: sum(route.num_tokens)]]
    fits = all(len(row) == shape.top_k and all(MASKED <= e < shape.experts for e in row) for row in rows)
    if len(rows) < sum(route.num_tokens) or not fits:
        msg = (
            f"trace {path} holds {len(rows)} usable lines, expected {sum(route.num_tokens)} of {shape.top_k} ids "
            f"from -1 to {shape.experts - 1}: plan again"
        )
        raise WorkloadError(msg)
    return rows


def input_rows(spec: StartSpec, token_N: Tensor) -> Tensor:
    """Input BF16 [N, H] of some tokens, by their global numbers."""
    with token_N.device:
        if spec.input_kind == "affine":
            rows_NH = formulas.affine_input(torch, token_N, spec.shape.hidden)
        else:
            rows_NH = formulas.hashed_input(torch, token_N, spec.shape.hidden, spec.seed)
        return torch.as_tensor(rows_NH).bfloat16()


def tagged_rows(spec: StartSpec, token_N: Tensor) -> Tensor:
    """Input rows BF16 [N, H] whose first columns say, in signs, which token they are."""
    x_NH = input_rows(spec, token_N)
    with token_N.device:
        x_NH[:, : formulas.TAG_COLUMNS] = formulas.tags(torch, token_N).bfloat16()
    return x_NH


def digest(tensor: Tensor) -> bytes:
    """SHA-256 of a tensor's little-endian bytes, row by row."""
    host = tensor.detach().cpu().contiguous()
    num_bytes = host.numel() * host.element_size()
    if num_bytes == 0:
        return hashlib.sha256().digest()
    return hashlib.sha256((ctypes.c_ubyte * num_bytes).from_address(host.data_ptr())).digest()


def rank_ordered(digests: list[bytes]) -> str:
    """Digest of a whole: SHA-256 of the raw digests of its ranks, in rank order."""
    return hashlib.sha256(b"".join(digests)).hexdigest()


def describe(spec: StartSpec, workload: Workload) -> dict[str, Any]:
    """The fields of a workload event: digests over all ranks (each rank hashes its own part), counts, expert load."""
    own = workload.own
    parts = {
        "route": workload.expert_AK[own],
        "weights": workload.weight_AK[own],
        "input": input_rows(spec, workload.own_tokens),
    }
    gathered = gather_bytes(b"".join(digest(part) for part in parts.values()), workload.expert_AK.device)
    fields: dict[str, Any] = {}
    for index, name in enumerate(parts):
        cut = slice(index * _DIGEST_BYTES, (index + 1) * _DIGEST_BYTES)
        fields[f"{name}_sha256"] = rank_ordered([row[cut] for row in gathered])
        fields[f"{name}_sha256_by_rank"] = [row[cut].hex() for row in gathered]
    expert_AK = workload.expert_AK.cpu()
    load_E = torch.bincount(expert_AK[expert_AK >= 0], minlength=spec.shape.experts)
    counts = count_route(
        torch, list(torch.split(expert_AK, list(workload.route.num_tokens))), spec.shape.experts, spec.domain_size
    )
    return {
        **fields,
        "route": workload.route.name,
        "num_tokens": list(workload.route.num_tokens),
        "counts": counts.as_json(),
        "expert_load": {"min": int(load_E.min()), "max": int(load_E.max()), "mean": load_E.double().mean().item()},
    }
