"""What a dispatch delivered, held against the route: which tokens, for which experts, with which weights, bit for bit.

Legend: N received rows, n rows of them that some local expert gets, G (row, local expert) pairs, K top-k slots, H hidden
columns, B scale blocks, L local experts, A tokens of all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ep_worker.contract import workload as formulas
from ep_worker.contract.terms import Dtype
from ep_worker.experts import chunks, experts_of_groups
from ep_worker.quantise import quantise, take_rows
from ep_worker.reason import Reason
from ep_worker.workload import tagged_rows

if TYPE_CHECKING:
    from torch import Tensor

    from ep_worker.backends.protocol import Problem, Rows
    from ep_worker.contract.spec import StartSpec
    from ep_worker.grouping import Groups
    from ep_worker.roundtrip import Arrived
    from ep_worker.workload import Workload


@dataclass(frozen=True)
class Finding:
    """Something that is wrong: its code, and the first offending token or rank with the numbers."""

    code: Reason
    text: str


@dataclass(frozen=True)
class Arrivals:
    """What arrived, counted, and what is wrong with it.

    Attributes:
        num_pairs: (source rank, token) pairs.
        num_expert_rows: (row, local expert) pairs.
        finding: The first thing that is wrong, or None.
    """

    num_pairs: int
    num_expert_rows: int
    finding: Finding | None


class Expected:
    """What the route sends to one rank.

    Attributes:
        local_AK: Local expert ids of all tokens, -1 for experts elsewhere.
        weight_AK: Their weights.
        token_n: Global numbers of the tokens that have a local expert, rising.
    """

    def __init__(self, workload: Workload, problem: Problem) -> None:
        self._first = workload.first
        local_AK = workload.expert_AK - problem.rank * problem.experts_per_rank
        here_AK = (local_AK >= 0) & (local_AK < problem.experts_per_rank) & (workload.expert_AK >= 0)
        self.local_AK = torch.where(here_AK, local_AK, -1)
        self.weight_AK = workload.weight_AK
        self.token_n = here_AK.any(1).nonzero()[:, 0]

    def name(self, token: int) -> str:
        """A token as people speak of it."""
        if not 0 <= token < self.local_AK.shape[0]:
            return f"a token that does not exist (tag {token})"
        rank = max(r for r, first in enumerate(self._first) if first <= token)
        return f"token {token - self._first[rank]} of rank {rank}"


def check_arrivals(spec: StartSpec, workload: Workload, problem: Problem, arrived: Arrived) -> Arrivals:
    """Checks everything that one dispatch of tagged tokens delivered to this rank; stops at the first thing wrong."""
    expected = Expected(workload, problem)
    rows = arrived.rows
    used_n = (rows.expert_NK >= 0).any(1).nonzero()[:, 0]
    token_n = _tokens(take_rows(rows.payload_NH, used_n))
    finding = (
        _tokens_finding(token_n, expected)
        or _gates_finding(rows, used_n, token_n, expected)
        or _payload_finding(
            spec,
            problem,
            token_n,
            take_rows(rows.payload_NH, used_n),
            None if rows.scale_NB is None else rows.scale_NB[used_n],
            expected,
        )
    )
    if finding is None and arrived.groups is not None:
        finding = _groups_finding(spec, problem, arrived.groups, expected)
    return Arrivals(used_n.shape[0], int((rows.expert_NK >= 0).sum()), finding)


def _tokens(payload_NH: Tensor) -> Tensor:
    """Global token numbers that rows carry as tags."""
    with payload_NH.device:
        token_N: Tensor = formulas.tokens_of_tags(torch, payload_NH[:, : formulas.TAG_COLUMNS].float())
    return token_N


def _tokens_finding(token_n: Tensor, expected: Expected) -> Finding | None:
    """The arrived tokens must be exactly those that have a local expert, each once."""
    found, counts = torch.unique(token_n, return_counts=True)
    if torch.equal(found, expected.token_n) and bool((counts == 1).all()):
        return None
    missing = expected.token_n[~torch.isin(expected.token_n, found)]
    foreign = found[~torch.isin(found, expected.token_n)]
    twice = found[counts > 1]
    kinds = (
        ("did not arrive", missing),
        ("arrived without an expert here", foreign),
        ("arrived more than once", twice),
    )
    parts = [
        f"{len(tokens)} tokens {what}, first {expected.name(int(tokens[0]))}" for what, tokens in kinds if len(tokens)
    ]
    return Finding(Reason.WRONG_TOKENS, "; ".join(parts))


def _gates_finding(rows: Rows, used_n: Tensor, token_n: Tensor, expected: Expected) -> Finding | None:
    """Each row's local expert ids and their weights must be the route's, slot by slot."""
    local_nK, wanted_nK = rows.expert_NK[used_n].long(), expected.local_AK[token_n]
    wrong_n = (local_nK != wanted_nK).any(1)
    if bool(wrong_n.any()):
        row = int(wrong_n.nonzero()[0, 0])
        text = f"{expected.name(int(token_n[row]))} has local experts {local_nK[row].tolist()}"
        return Finding(Reason.WRONG_EXPERTS, f"{text}, the route says {wanted_nK[row].tolist()}")
    num_selections = int((rows.expert_NK >= 0).sum())
    if rows.num_selections is not None and num_selections != rows.num_selections:
        text = f"dispatch counts {rows.num_selections} local selections, its rows hold {num_selections}"
        return Finding(Reason.WRONG_EXPERTS, text)
    weight_nK, right_nK = rows.weight_NK[used_n], expected.weight_AK[token_n]
    wrong_n = ((weight_nK != right_nK) & (wanted_nK >= 0)).any(1)
    if bool(wrong_n.any()):
        row = int(wrong_n.nonzero()[0, 0])
        text = f"{expected.name(int(token_n[row]))} has weights {weight_nK[row].tolist()}"
        return Finding(Reason.WRONG_WEIGHTS, f"{text}, the route says {right_nK[row].tolist()}")
    return None


def _payload_finding(
    spec: StartSpec, problem: Problem, token_n: Tensor, payload_nH: Tensor, scale_nB: Tensor | None, expected: Expected
) -> Finding | None:
    """Each row must be, bit for bit, the tagged input of its token as this rank makes it, quantised where the arm carries FP8."""
    for chunk in chunks(token_n.shape[0]):
        x_CH = tagged_rows(spec, token_n[chunk])
        wrong_C = None
        if problem.dtype is Dtype.FP8:
            assert scale_nB is not None
            q_CH, scale_CB = quantise(x_CH)
            wrong_C = (scale_nB[chunk] != scale_CB).any(1)
            if bool(wrong_C.any()):
                row = int(wrong_C.nonzero()[0, 0])
                text = f"{int(wrong_C.sum())} rows with wrong scales, first {expected.name(int(token_n[chunk][row]))}"
                return Finding(Reason.WRONG_PAYLOAD, text)
            wrong_C = (payload_nH[chunk].view(torch.uint8) != q_CH.view(torch.uint8)).any(1)
        else:
            wrong_C = (payload_nH[chunk].view(torch.int16) != x_CH.view(torch.int16)).any(1)
        if bool(wrong_C.any()):
            row = int(wrong_C.nonzero()[0, 0])
            text = f"{int(wrong_C.sum())} rows with wrong values, first {expected.name(int(token_n[chunk][row]))}"
            return Finding(Reason.WRONG_PAYLOAD, text)
    return None


def _groups_finding(spec: StartSpec, problem: Problem, groups: Groups, expected: Expected) -> Finding | None:
    """Groups must hold exactly the (expert, token) pairs of the route, each with its weight and its bits."""
    here_AK = expected.local_AK >= 0
    count_L = torch.bincount(expected.local_AK[here_AK], minlength=problem.experts_per_rank)
    if not torch.equal(groups.end_L.long(), count_L.cumsum(0)):
        found = torch.diff(groups.end_L.long(), prepend=groups.end_L.new_zeros(1).long())
        wrong = int((found != count_L).nonzero()[0, 0])
        text = f"local expert {wrong} has {int(found[wrong])} rows, the route says {int(count_L[wrong])}"
        return Finding(Reason.WRONG_EXPERTS, text)
    num_rows = groups.payload_GH.shape[0]
    if num_rows != int(count_L.sum()):
        return Finding(Reason.WRONG_EXPERTS, f"groups hold {num_rows} rows, the route says {int(count_L.sum())}")
    num_tokens = expected.local_AK.shape[0]
    token_G = _tokens(groups.payload_GH)
    expert_G = experts_of_groups(groups.end_L, token_G.shape[0])
    token_AK = torch.arange(num_tokens, device=token_G.device)[:, None].expand_as(here_AK)
    wanted, wanted_order = (expected.local_AK * num_tokens + token_AK)[here_AK].sort()
    pair, order = (expert_G * num_tokens + token_G).sort()
    if not torch.equal(pair, wanted):
        wrong = int((pair != wanted).nonzero()[0, 0])
        text = f"local expert {int(pair[wrong]) // num_tokens} has {expected.name(int(pair[wrong]) % num_tokens)}"
        more = f"{int(wanted[wrong]) // num_tokens} should have {expected.name(int(wanted[wrong]) % num_tokens)}"
        return Finding(Reason.WRONG_EXPERTS, f"{text} where local expert {more}")
    if not torch.equal(groups.weight_G[order], expected.weight_AK[here_AK][wanted_order]):
        return Finding(Reason.WRONG_WEIGHTS, "the weights of grouped rows are not those of the route")
    return _payload_finding(spec, problem, token_G, groups.payload_GH, groups.scale_GB, expected)
