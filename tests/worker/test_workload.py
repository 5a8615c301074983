"""Routes, weights and inputs: the published vectors, an independent scalar reference, counts by brute force."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from worker.problems import CPU
from worker.specs import END, SEED, TINY, make_spec, route

from ep_worker.contract import counter
from ep_worker.contract import workload as formulas
from ep_worker.contract.accounting import count_route
from ep_worker.contract.spec import Shape
from ep_worker.contract.workload import RouteKind
from ep_worker.failure import WorkloadError
from ep_worker.workload import digest, input_rows, make_workload, rank_ordered, read_trace

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "hash_vectors.json").read_text())
HIDDEN, EXPERTS, TOP_K, PERIOD = 7168, 256, 8, 257


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: str(v["tokens"]))
def test_the_published_route_digest_is_reproduced(vector: dict) -> None:
    """The affine route of the published campaigns, int64, hashed by rank and then in rank order, has their digest."""
    ranks, tokens = vector["world"], vector["tokens"]
    shape = Shape("published", tokens, tokens, HIDDEN, EXPERTS, TOP_K)
    published = route(RouteKind.AFFINE, ranks, shape, seed=VECTORS["generator"]["seed"])
    made = make_workload(make_spec(ranks=ranks, shape=shape, routes=[published]), published, 0, CPU, Path())

    assert vector["route"] == rank_ordered([digest(part) for part in made.expert_AK.split(tokens)])
    assert set(made.weight_AK.flatten().tolist()) == {1 / TOP_K}


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: str(v["tokens"]))
def test_the_published_input_digest_is_reproduced(vector: dict) -> None:
    """The affine input, BF16, has their digest; its rows repeat after 257 tokens, so that these are enough to make all."""
    ranks, tokens = vector["world"], vector["tokens"]
    spec = replace(make_spec(shape=Shape("published", tokens, tokens, HIDDEN, EXPERTS, TOP_K)), input_kind="affine")
    period = input_rows(spec, torch.arange(PERIOD))
    far = torch.tensor([ranks * tokens - 1])

    assert torch.equal(period[far % PERIOD], input_rows(spec, far))
    assert vector["input"] == rank_ordered(
        [digest(period[torch.arange(rank * tokens, (rank + 1) * tokens) % PERIOD]) for rank in range(ranks)]
    )


def test_a_digest_is_that_of_little_endian_rows() -> None:
    """A strided tensor is hashed row by row; an empty one as no bytes."""
    x = torch.tensor([[1, 2], [3, 4]], dtype=torch.int64).t()
    raw = b"".join(value.to_bytes(8, "little") for value in (1, 3, 2, 4))

    assert hashlib.sha256(raw).digest() == digest(x)
    assert hashlib.sha256(b"").digest() == digest(torch.empty(0, 3))


def scalar_choices(token: int, slots: int, thresholds: list[int], key: int) -> list[int]:
    """`distinct_choices` for one token, in Python integers."""
    chosen: list[int] = []
    for slot in range(slots):
        pick = None
        for attempt in range(formulas.MAX_ATTEMPTS):
            at = (token * slots + slot) * formulas.MAX_ATTEMPTS + attempt
            draw = counter.draw_int(at, key)
            pick = sum(threshold <= draw for threshold in thresholds)
            if pick not in chosen:
                break
        if pick in chosen:
            pick = min(set(range(len(thresholds))) - set(chosen))
        chosen.append(pick)
    return chosen


def scalar_weights(experts: list[int], token: int, seed: int) -> list[float]:
    """`weights` for one token."""
    key = counter.stream_key(seed, counter.Stream.WEIGHT)
    parts = [
        0 if expert < 0 else 64 + counter.draw_int(token * len(experts) + slot, key) % 129
        for slot, expert in enumerate(experts)
    ]
    total = torch.tensor(sum(parts) or 1, dtype=torch.float32)
    return [float(torch.tensor(part, dtype=torch.float32) / total) for part in parts]


def scalar_input(token: int, column: int, hidden: int, seed: int) -> float:
    """`hashed_input` for one element."""
    word = counter.word_int(token * (hidden // 4) + column // 4, counter.stream_key(seed, counter.Stream.INPUT))
    return ((word >> 16 * (column % 4) & 0xFFFF) % 257 - 128) / 128


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from([RouteKind.UNIFORM, RouteKind.ZIPF, RouteKind.MASKED, RouteKind.RAGGED, RouteKind.GROUPED]),
    ranks=st.integers(2, 4),
    seed=st.integers(0, 2**63 - 1),
)
def test_array_formulas_agree_with_a_scalar_reference(kind: RouteKind, ranks: int, seed: int) -> None:
    """Experts and weights of every token are what a loop over Python integers makes of the same seed."""
    declared = route(kind, ranks, seed=seed)
    made = make_workload(make_spec(ranks=ranks, routes=[declared]), declared, 0, CPU, Path())
    key = counter.stream_key(seed, counter.Stream.EXPERT)
    for token in range(sum(declared.num_tokens)):
        if kind is RouteKind.GROUPED:
            size = declared.experts_per_group
            groups = scalar_choices(token, 2, list(declared.thresholds), counter.stream_key(seed, counter.Stream.GROUP))
            members = scalar_choices(token, TINY.top_k, list(declared.member_thresholds), key)
            experts = [groups[member // size] * size + member % size for member in members]
        else:
            experts = scalar_choices(token, TINY.top_k, list(declared.thresholds), key)
        if kind is RouteKind.MASKED:
            mask = counter.stream_key(seed, counter.Stream.MASK)
            experts = [
                -1 if counter.draw_int(token * TINY.top_k + slot, mask) < declared.mask_threshold else expert
                for slot, expert in enumerate(experts)
            ]

        assert experts == made.expert_AK[token].tolist()
        assert scalar_weights(experts, token, seed) == made.weight_AK[token].tolist()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**63 - 1), token=st.integers(0, 2**40), column=st.integers(0, 127))
def test_input_agrees_with_a_scalar_reference(seed: int, token: int, column: int) -> None:
    """An input element is what Python integers make of the same seed, and BF16 holds it exactly."""
    spec = replace(make_spec(), seed=seed)

    assert scalar_input(token, column, 128, seed) == input_rows(spec, torch.tensor([token]))[0, column].item()


@settings(max_examples=25, deadline=None)
@given(data=st.data(), ranks=st.integers(2, 4), per_rank=st.integers(1, 3))
def test_counts_agree_with_brute_force(data: st.DataObject, ranks: int, per_rank: int) -> None:
    """Selections, rows and domain rows are what counting tokens one by one gives, masked slots and empty ranks included."""
    experts = ranks * per_rank
    slots = st.lists(st.integers(-1, experts - 1), min_size=3, max_size=3)
    routes = [data.draw(st.lists(slots, max_size=4)) for _ in range(ranks)]
    domain = data.draw(st.sampled_from([d for d in range(1, ranks + 1) if ranks % d == 0]))
    counts = count_route(torch, [torch.tensor(r, dtype=torch.int64).reshape(-1, 3) for r in routes], experts, domain)

    for source, tokens in enumerate(routes):
        for target in range(ranks):
            hits = [[e // per_rank for e in token if e >= 0].count(target) for token in tokens]
            assert sum(hits) == counts.num_selections[source][target]
            assert sum(h > 0 for h in hits) == counts.num_rows[source][target]
        for target in range(ranks // domain):
            hits = [any(e >= 0 and e // per_rank // domain == target for e in token) for token in tokens]
            assert sum(hits) == counts.num_domain_rows[source][target]


def test_a_ragged_route_numbers_tokens_without_gaps() -> None:
    """Rank r's tokens follow those of the ranks before it, however many these have."""
    declared = route(RouteKind.RAGGED, 3)
    made = make_workload(make_spec(ranks=3, routes=[declared]), declared, 1, CPU, Path())

    assert (6, 5, 0) == declared.num_tokens
    assert (0, 6, 11) == made.first
    assert [6, 7, 8, 9, 10] == made.own_tokens.tolist()


class TestTrace:
    """`read_trace`."""

    text = "# recorded\n0,5,-1\n11,2,3\n4,4,1\n"

    def trace(self, folder: Path, text: str | None = None) -> object:
        (folder / "trace.csv").write_text(text or self.text)
        sha256 = hashlib.sha256(self.text.encode()).hexdigest()
        return route(RouteKind.TRACE, 2, trace="trace.csv", trace_sha256=sha256, num_tokens=(2, 1))

    def test_lines_are_tokens(self, tmp_path: Path) -> None:
        """Line g of the file, comments left out, is global token g."""
        assert [[0, 5, -1], [11, 2, 3], [4, 4, 1]] == read_trace(self.trace(tmp_path), TINY, tmp_path)

    def test_another_file_is_refused(self, tmp_path: Path) -> None:
        """A file with another digest than the planned one is not used."""
        with pytest.raises(WorkloadError, match="the plan hashed"):
            read_trace(self.trace(tmp_path, self.text + "1,2,3\n"), TINY, tmp_path)

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        """A trace that is not beside the spec is an error that names it."""
        declared = self.trace(tmp_path)
        (tmp_path / "trace.csv").unlink()
        with pytest.raises(WorkloadError, match=r"trace\.csv cannot be read"):
            read_trace(declared, TINY, tmp_path)

    @pytest.mark.parametrize(("tokens", "experts"), [((4, 0), 12), ((2, 1), 11)], ids=["too few lines", "id too large"])
    def test_a_file_that_does_not_fit_is_refused(self, tmp_path: Path, tokens: tuple, experts: int) -> None:
        """Fewer lines than tokens, or an id beyond the experts, is an error."""
        declared = replace(self.trace(tmp_path), num_tokens=tokens)
        with pytest.raises(WorkloadError, match="usable lines"):
            read_trace(declared, replace(TINY, experts=experts), tmp_path)


def test_half_of_the_slots_of_the_masked_route_go_nowhere() -> None:
    """The masked route of these tests has tokens without any expert, else they would prove nothing about them."""
    declared = route(RouteKind.MASKED, 4)
    made = make_workload(make_spec(ranks=4, routes=[declared]), declared, 0, CPU, Path())

    assert END // 2 == declared.mask_threshold
    assert SEED == declared.seed
    assert (made.expert_AK < 0).all(1).any()
    assert (made.weight_AK[made.expert_AK < 0] == 0).all()
