"""Weights from a seed: counter hashes, so that every torch on every machine makes the same model.

Shapes: H hidden, F inner width of an expert, E experts, V vocabulary, C positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from ep_serve.settings import VOCABULARY
from ep_worker.contract.counter import DRAW_BITS, as_signed, draws, mix_int

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from torch import Tensor

    from ep_serve.settings import Settings, Shape

Expert = tuple["Tensor", "Tensor"]
"""Weights [H, F] and [F, H] of one expert of one layer."""


@dataclass(frozen=True)
class Layer:
    """What every rank holds of a layer."""

    qkv_H3H: Tensor
    out_HH: Tensor
    router_HE: Tensor


@dataclass(frozen=True)
class Dense:
    """What every rank holds of the model."""

    embedding_VH: Tensor
    head_VH: Tensor
    position_CH: Tensor
    layers: tuple[Layer, ...]

    def tensors(self) -> Iterator[Tensor]:
        """All of it, in a fixed order."""
        yield self.embedding_VH
        yield self.head_VH
        yield self.position_CH
        for layer in self.layers:
            yield from (layer.qkv_H3H, layer.out_HH, layer.router_HE)


def make_dense(settings: Settings) -> Dense:
    """Dense weights of a fresh engine."""
    shape, seed = settings.shape, settings.seed
    size = shape.hidden
    layers = tuple(
        Layer(
            _matrix(seed, f"qkv {layer}", size, 3 * size),
            _matrix(seed, f"out {layer}", size, size),
            # Wide apart, so that routing does not hang on the last bit of a sum.
            _matrix(seed, f"router {layer}", size, shape.num_experts) * 4.0,
        )
        for layer in range(shape.num_layers)
    )
    unit = math.sqrt(size)
    return Dense(
        _matrix(seed, "embedding", size, VOCABULARY).t().contiguous() * unit,
        _matrix(seed, "head", size, VOCABULARY).t().contiguous() * unit,
        _matrix(seed, "position", size, settings.max_len).t().contiguous() * (0.5 * unit),
        layers,
    )


def empty_dense(settings: Settings) -> Dense:
    """Room for the dense weights, to be received."""
    shape = settings.shape
    size = shape.hidden
    layers = tuple(
        Layer(torch.empty(size, 3 * size), torch.empty(size, size), torch.empty(size, shape.num_experts))
        for _ in range(shape.num_layers)
    )
    embedding_VH, head_VH = (torch.empty(VOCABULARY, size) for _ in range(2))
    return Dense(embedding_VH, head_VH, torch.empty(settings.max_len, size), layers)


def make_expert(shape: Shape, seed: int, layer: int, expert: int) -> Expert:
    """Weights of one expert."""
    return (
        _matrix(seed, f"expert {layer} {expert} in", shape.hidden, shape.ffn),
        _matrix(seed, f"expert {layer} {expert} out", shape.ffn, shape.hidden) * 2.0,
    )


def empty_expert(shape: Shape) -> Expert:
    """Room for one expert, to be received."""
    return torch.empty(shape.hidden, shape.ffn), torch.empty(shape.ffn, shape.hidden)


def make_experts(shape: Shape, seed: int, experts: Iterable[int]) -> dict[tuple[int, int], Expert]:
    """Some experts of all layers, by (layer, expert)."""
    return {
        (layer, expert): make_expert(shape, seed, layer, expert)
        for expert in experts
        for layer in range(shape.num_layers)
    }


def _matrix(seed: int, label: str, rows: int, columns: int) -> Tensor:
    """Uniform values [rows, columns] of variance 1 / rows."""
    key = mix_int(seed)
    for byte in label.encode():
        key = mix_int(key ^ byte)
    drawn: Tensor = draws(torch.arange(rows * columns, dtype=torch.int64), as_signed(key))
    unit = drawn.double() / 2.0 ** (DRAW_BITS - 1) - 1.0
    return (unit * math.sqrt(3.0 / rows)).float().view(rows, columns)
