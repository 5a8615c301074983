"""A batched, cached, expert-parallel pass says what one process without any of that says."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from serve.engines import SMALL, assert_equals_reference

from ep_serve.batch import Batch
from ep_serve.group import join
from ep_serve.model import Model
from ep_serve.placement import first_placement
from ep_serve.reference import Reference
from ep_serve.settings import Settings, Transport
from ep_serve.weights import make_dense, make_expert, make_experts

if TYPE_CHECKING:
    from pathlib import Path

PROMPTS = (b"one", b"a second prompt that takes two steps of thirty-two rows", b"three", b"4", b"five!")


def serve(settings: Settings, folder: Path, width: int) -> dict[int, tuple[list[int], list[float]]]:
    """Tokens and log probabilities of each prompt; prompt i goes to rank i modulo the width; ranks are threads."""
    owner = first_placement(settings.shape.num_experts, width)
    meeting = str(folder / uuid.uuid4().hex)

    def run(rank: int) -> dict[int, tuple[list[int], list[float]]]:
        group = join(Transport.SHARED_MEMORY, meeting, rank, width, capacity=1 << 16, timeout_s=20.0)
        experts = make_experts(settings.shape, settings.seed, [e for e, holder in enumerate(owner) if holder == rank])
        model, batch = Model(settings, make_dense(settings), experts, owner, group), Batch(settings)
        own = range(rank, len(PROMPTS), width)
        made: dict[int, tuple[list[int], list[float]]] = {number: ([], []) for number in own}
        batch.admit([{"number": n, "tokens": list(PROMPTS[n]), "max_tokens": 12 + n, "ignore_eos": True} for n in own])
        for _ in range(20):  # every rank makes every step: also those without rows
            planned = batch.plan()
            for number, token, logprob, _ in batch.take(planned, model.step([segment for _, segment in planned])):
                made[number][0].append(token)
                made[number][1].append(logprob)
        group.close()
        return made

    with ThreadPoolExecutor(width) as pool:
        return {number: made for part in pool.map(run, range(width)) for number, made in part.items()}


@pytest.mark.parametrize("width", [1, 2, 3])
def test_equals_the_reference(tmp_path: Path, width: int) -> None:
    """Tokens and their log probabilities, at every width."""
    settings = replace(SMALL, max_num_seqs=5)
    reference = Reference(settings)
    for number, (tokens, logprobs) in serve(settings, tmp_path, width).items():
        assert 12 + number == len(tokens)
        assert_equals_reference(reference, list(PROMPTS[number]), tokens, logprobs)


def test_experts_and_attention_matter() -> None:
    """Another expert's weights, or another start of the prompt, give another text: equality above is no accident."""
    reference = Reference(SMALL)
    prompt, tokens = list(PROMPTS[1]), list(PROMPTS[2])
    said = reference.follow(prompt, tokens).logprobs
    assert said != pytest.approx(reference.follow([prompt[0] ^ 1, *prompt[1:]], tokens).logprobs, abs=1e-3)
    inner, outer = reference._experts[(0, 3)]
    for expert in range(SMALL.shape.num_experts):
        reference._experts[(0, expert)] = (inner, outer)
    assert said != pytest.approx(reference.follow(prompt, tokens).logprobs, abs=1e-3)


def test_weights_follow_from_the_seed() -> None:
    """One seed gives one model, bit for bit; another seed, layer or expert gives other weights of variance 1 / rows."""
    shape = SMALL.shape
    first, again = make_expert(shape, 1, 0, 3), make_expert(shape, 1, 0, 3)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    for other in (make_expert(shape, 2, 0, 3), make_expert(shape, 1, 1, 3), make_expert(shape, 1, 0, 4)):
        assert not torch.equal(first[0], other[0])
    assert 1 / shape.hidden == pytest.approx(float(first[0].var()), rel=0.1)
