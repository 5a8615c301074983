"""The model on one rank: attention over the rank's own cache, experts wherever they are.

Shapes: N rows of a step, H hidden, A heads, D width of a head, K experts of a token, M rows at the experts,
V vocabulary, S slots, C positions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from torch import Tensor

    from ep_serve.batch import Segment
    from ep_serve.group import Group
    from ep_serve.settings import Settings
    from ep_serve.weights import Dense, Expert, Layer


class Model:
    """One rank's share.

    Attributes:
        dense: What every rank holds.
        experts: The experts that lie here, by (layer, expert).
        owner: Rank of each expert.
        group: The ranks that serve together.
    """

    def __init__(
        self,
        settings: Settings,
        dense: Dense,
        experts: dict[tuple[int, int], Expert],
        owner: tuple[int, ...],
        group: Group,
    ) -> None:
        self.dense, self.experts = dense, experts
        self._settings = settings
        shape = settings.shape
        room = (shape.num_layers, settings.max_num_seqs, settings.max_len, shape.num_heads, -1)
        rows = shape.num_layers * settings.max_num_seqs * settings.max_len
        self._keys_LSCAD = torch.zeros(rows, shape.hidden).view(room)
        self._values_LSCAD = torch.zeros(rows, shape.hidden).view(room)
        self.adopt(group, owner)

    def adopt(self, group: Group, owner: tuple[int, ...]) -> None:
        """Serves with another group from now on; experts that now lie elsewhere are forgotten."""
        self.group, self.owner = group, owner
        self._owner_E = torch.tensor(owner)
        self.experts = {key: own for key, own in self.experts.items() if owner[key[1]] == group.rank}

    @torch.inference_mode()
    def step(self, segments: list[Segment]) -> list[tuple[int, float]]:
        """One pass; every rank of the group must make it, also one without rows.

        Returns:
            The likeliest token after each segment and its log probability.
        """
        token_N = torch.tensor([token for segment in segments for token in segment.tokens], dtype=torch.int64)
        position_N = torch.tensor(
            [segment.start + row for segment in segments for row in range(len(segment.tokens))], dtype=torch.int64
        )
        slot_N = torch.tensor([segment.slot for segment in segments for _ in segment.tokens], dtype=torch.int64)
        x_NH = self.dense.embedding_VH[token_N] + self.dense.position_CH[position_N]
        for number, layer in enumerate(self.dense.layers):
            x_NH = x_NH + self._attend(number, layer, norm(x_NH), slot_N, position_N, segments)
            x_NH = x_NH + self._experts(number, layer, norm(x_NH))
        ends = torch.tensor([len(segment.tokens) for segment in segments], dtype=torch.int64).cumsum(0) - 1
        logits_BV = logits(self.dense, x_NH[ends])
        best_B = logits_BV.argmax(-1)
        logprob_B = functional.log_softmax(logits_BV, -1).gather(1, best_B[:, None])[:, 0]
        return list(zip(best_B.tolist(), logprob_B.tolist(), strict=True))

    def _attend(
        self, number: int, layer: Layer, x_NH: Tensor, slot_N: Tensor, position_N: Tensor, segments: list[Segment]
    ) -> Tensor:
        """Attention of every row to what came before it in its own sequence."""
        shape = self._settings.shape
        split = (len(x_NH), shape.num_heads, shape.hidden // shape.num_heads)
        query_NAD, key_NAD, value_NAD = (part.reshape(split) for part in (x_NH @ layer.qkv_H3H).chunk(3, -1))
        keys_SCAD, values_SCAD = self._keys_LSCAD[number], self._values_LSCAD[number]
        keys_SCAD[slot_N, position_N] = key_NAD
        values_SCAD[slot_N, position_N] = value_NAD
        out_NAD = torch.empty_like(query_NAD)
        first, single = 0, []
        for segment in segments:
            size = len(segment.tokens)
            if size == 1:
                single.append(first)
            else:
                rows, end = slice(first, first + size), segment.start + size
                out_NAD[rows] = _attention(
                    query_NAD[None, rows],
                    keys_SCAD[segment.slot, None, :end],
                    values_SCAD[segment.slot, None, :end],
                    (torch.arange(end) <= position_N[rows, None])[None],
                )[0]
            first += size
        if single:
            row_B = torch.tensor(single)
            end = int(position_N[row_B].max()) + 1
            out_NAD[row_B] = _attention(
                query_NAD[row_B, None],
                keys_SCAD[slot_N[row_B], :end],
                values_SCAD[slot_N[row_B], :end],
                (torch.arange(end) <= position_N[row_B, None])[:, None],
            )[:, 0]
        return out_NAD.reshape(x_NH.shape) @ layer.out_HH

    def _experts(self, number: int, layer: Layer, x_NH: Tensor) -> Tensor:
        """Mixture of experts: rows go to where their experts lie, and their results come back."""
        top_k = self._settings.shape.top_k
        weight_NK, expert_NK = route(x_NH, layer.router_HE, top_k)
        expert_M = expert_NK.reshape(-1)
        target_M = self._owner_E[expert_M]
        order_M = torch.argsort(target_M, stable=True)
        num_to_R = torch.bincount(target_M, minlength=self.group.width).tolist()
        # A row's expert travels as its last column: small whole numbers are exact in a float.
        sent_MW = torch.cat((x_NH.repeat_interleave(top_k, 0), expert_M[:, None].float()), 1)[order_M]
        here_MW, num_from_R = self.group.exchange(sent_MW, num_to_R, None)
        result_MH = self._compute(number, here_MW[:, :-1], here_MW[:, -1].long())
        back_MH, _ = self.group.exchange(result_MH, num_from_R, num_to_R)
        out_MH = torch.empty_like(back_MH)
        out_MH[order_M] = back_MH
        return (out_MH.view(-1, top_k, x_NH.shape[1]) * weight_NK[:, :, None]).sum(1)

    def _compute(self, number: int, x_MH: Tensor, expert_M: Tensor) -> Tensor:
        result_MH = torch.empty_like(x_MH)
        for expert in sorted(set(expert_M.tolist())):
            chosen_M = expert_M == expert
            result_MH[chosen_M] = apply(self.experts[(number, expert)], x_MH[chosen_M])
        return result_MH


def norm(x_NH: Tensor) -> Tensor:
    """Each row at unit root mean square."""
    return x_NH * torch.rsqrt(x_NH.square().mean(-1, keepdim=True) + 1e-6)


def route(x_NH: Tensor, router_HE: Tensor, top_k: int) -> tuple[Tensor, Tensor]:
    """Weights and numbers [N, K] of each row's experts; the weights add up to 1."""
    weight_NK, expert_NK = torch.softmax(x_NH @ router_HE, -1).topk(top_k, -1)
    return weight_NK / weight_NK.sum(-1, keepdim=True), expert_NK


def apply(expert: Expert, x_MH: Tensor) -> Tensor:
    """One expert on some rows."""
    inner_HF, outer_FH = expert
    return torch.relu(x_MH @ inner_HF) @ outer_FH


def logits(dense: Dense, x_BH: Tensor) -> Tensor:
    """Scores [B, V] of the next token."""
    return norm(x_BH) @ dense.head_VH.t() / math.sqrt(x_BH.shape[-1])


def _attention(query_BTAD: Tensor, key_BCAD: Tensor, value_BCAD: Tensor, seen_BTC: Tensor) -> Tensor:
    out_BATD = functional.scaled_dot_product_attention(
        query_BTAD.transpose(1, 2), key_BCAD.transpose(1, 2), value_BCAD.transpose(1, 2), attn_mask=seen_BTC[:, None]
    )
    return out_BATD.transpose(1, 2)
