"""What the engine should say, from one process, in double precision, without a cache, a batch or a group.

Shapes: T tokens of one sequence, H hidden, A heads, D width of a head, K experts of a token, V vocabulary.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ep_serve.model import apply, logits, norm, route
from ep_serve.settings import EOS_TOKEN
from ep_serve.weights import Dense, Layer, make_dense, make_experts

if TYPE_CHECKING:
    from torch import Tensor

    from ep_serve.settings import Settings
    from ep_serve.weights import Expert


@dataclass(frozen=True)
class Generated:
    """What one prompt gives.

    Attributes:
        tokens: Generated tokens, an end mark included.
        logprobs: Log probability of each.
        margins: By how much each was ahead of the second likeliest, in log probability.
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
    def generate(self, prompt: list[int], max_tokens: int, *, ignore_eos: bool = False) -> Generated:
        """Greedy decoding, every token from the whole sequence anew."""
        tokens = list(prompt)
        logprobs, margins = [], []
        while len(tokens) - len(prompt) < max_tokens and len(tokens) < self._settings.max_len:
            scores_V = torch.log_softmax(self._next(tokens), -1)
            (first, second), (best, _) = (part.tolist() for part in scores_V.topk(2))
            tokens.append(best)
            logprobs.append(first)
            margins.append(first - second)
            if best == EOS_TOKEN and not ignore_eos:
                break
        return Generated(tuple(tokens[len(prompt) :]), tuple(logprobs), tuple(margins))

    def _next(self, tokens: list[int]) -> Tensor:
        """Scores [V] of what comes after the tokens."""
        x_TH = self._dense.embedding_VH[torch.tensor(tokens)] + self._dense.position_CH[: len(tokens)]
        for number, layer in enumerate(self._dense.layers):
            x_TH = x_TH + self._attend(layer, norm(x_TH))
            x_TH = x_TH + self._mix(number, layer, norm(x_TH))
        return logits(self._dense, x_TH[-1:])[0]

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
        rows = [
            sum(
                weight * apply(self._experts[(number, expert)], x_TH[row : row + 1])
                for weight, expert in zip(weight_TK[row], expert_TK[row].tolist(), strict=True)
            )
            for row in range(len(x_TH))
        ]
        return torch.cat([torch.as_tensor(row) for row in rows])
