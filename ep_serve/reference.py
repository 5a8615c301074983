"""What the engine should say, from one process, in double precision, without a cache, a batch or a group.

Shapes: T tokens of one sequence, H hidden, A heads, D width of a head, K experts of a token, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ep_serve.model import apply, logits, norm, route
from ep_serve.weights import Dense, Layer, make_dense, make_experts

if TYPE_CHECKING:
    from torch import Tensor

    from ep_serve.settings import Settings
    from ep_serve.weights import Expert


@dataclass(frozen=True)
class Followed:
    """What the model says along a given continuation: greedy decoding would have made it if `tokens` is the continuation.

    Attributes:
        tokens: Likeliest token at each place, given everything before it.
        logprobs: Log probability of each.
        margins: By how much each is ahead of the second likeliest, in log probability.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    margins: tuple[float, ...]


class Reference:
    """The whole model in one process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        dense = make_dense(settings)
        self._dense = Dense(
            dense.embedding_VH.double(),
            dense.head_VH.double(),
            dense.position_CH.double(),
            tuple(
                Layer(layer.qkv_H3H.double(), layer.out_HH.double(), layer.router_HE.double()) for layer in dense.layers
            ),
        )
        shape = settings.shape
        experts = make_experts(shape, settings.seed, range(shape.num_experts))
        self._experts: dict[tuple[int, int], Expert] = {
            key: (inner.double(), outer.double()) for key, (inner, outer) in experts.items()
        }

    @torch.inference_mode()
    def follow(self, prompt: list[int], continuation: list[int]) -> Followed:
        """One pass over a prompt and what came after it."""
        tokens = [*prompt, *continuation][:-1]
        x_TH = self._dense.embedding_VH[torch.tensor(tokens)] + self._dense.position_CH[: len(tokens)]
        for number, layer in enumerate(self._dense.layers):
            x_TH = x_TH + self._attend(layer, norm(x_TH))
            x_TH = x_TH + self._mix(number, layer, norm(x_TH))
        scores_TV = torch.log_softmax(logits(self._dense, x_TH[len(prompt) - 1 :]), -1)
        value_T2, token_T2 = scores_TV.topk(2)
        margins = value_T2[:, 0] - value_T2[:, 1]
        return Followed(tuple(token_T2[:, 0].tolist()), tuple(value_T2[:, 0].tolist()), tuple(margins.tolist()))

    def _attend(self, layer: Layer, x_TH: Tensor) -> Tensor:
        heads = self._settings.shape.num_heads
        query_ATD, key_ATD, value_ATD = (
            part.view(len(x_TH), heads, -1).transpose(0, 1) for part in (x_TH @ layer.qkv_H3H).chunk(3, -1)
        )
        scores_ATT = query_ATD @ key_ATD.transpose(1, 2) / math.sqrt(query_ATD.shape[-1])
        later_TT = torch.ones(len(x_TH), len(x_TH), dtype=torch.bool).triu(1)
        out_ATD = torch.softmax(scores_ATT.masked_fill(later_TT, -math.inf), -1) @ value_ATD
        return out_ATD.transpose(0, 1).reshape(x_TH.shape) @ layer.out_HH

    def _mix(self, number: int, layer: Layer, x_TH: Tensor) -> Tensor:
        weight_TK, expert_TK = route(x_TH, layer.router_HE, self._settings.shape.top_k)
        out_TH = torch.zeros_like(x_TH)
        for row, (weights, experts) in enumerate(zip(weight_TK, expert_TK.tolist(), strict=True)):
            for weight, expert in zip(weights, experts, strict=True):
                out_TH[row] += weight * apply(self._experts[(number, expert)], x_TH[row])
        return out_TH
