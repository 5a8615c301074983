"""Workload formulas against independent scalar references, and the properties that each route promises."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_worker.contract import workload
from ep_worker.contract.counter import Stream, draw_int, stream_key, word_int

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "hash_vectors.json").read_text())["vectors"]
END = 2**62


def flat(count):
    """Equal thresholds."""
    return np.array([(index + 1) * END // count for index in range(count)], dtype=np.int64)


def tokens(first, count):
    """Global token numbers."""
    return np.arange(first, first + count, dtype=np.int64)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['tokens']}x{v['world']}")
def test_affine_route_reproduces_the_published_hash(vector):
    """SHA-256 over the rank-ordered digests of each rank's int64 route is the published one."""
    digests = b"".join(
        hashlib.sha256(
            workload.affine_experts(np, tokens(rank * vector["tokens"], vector["tokens"]), 256, 8, 20260824).tobytes()
        ).digest()
        for rank in range(vector["world"])
    )

    assert vector["route"] == hashlib.sha256(digests).hexdigest()


def reference_choices(token, num_slots, thresholds, key):
    """Distinct choices of one token, one draw at a time."""
    chosen = []
    for slot in range(num_slots):
        for attempt in range(workload.MAX_ATTEMPTS):
            drawn = draw_int((token * num_slots + slot) * workload.MAX_ATTEMPTS + attempt, key)
            pick = next(index for index, end in enumerate(thresholds) if drawn < end)
            if pick not in chosen:
                break
        else:
            pick = next(index for index in range(len(thresholds)) if index not in chosen)
        chosen.append(pick)
    return chosen


@settings(max_examples=40, deadline=None)
@given(data=st.data(), num_choices=st.integers(1, 12), seed=st.integers(0, 2**63 - 1))
def test_choices_follow_the_scalar_reference(data, num_choices, seed):
    """Any thresholds, also ones that give a choice no probability or nearly all: choices are distinct and as defined."""
    cuts = data.draw(st.lists(st.integers(0, END), min_size=num_choices - 1, max_size=num_choices - 1))
    thresholds = [*sorted(cuts), END]
    num_slots = data.draw(st.integers(1, num_choices))
    key = stream_key(seed, Stream.EXPERT)

    found = workload.distinct_choices(np, tokens(100, 3), num_slots, np.array(thresholds, dtype=np.int64), key)

    assert [reference_choices(token, num_slots, thresholds, key) for token in range(100, 103)] == found.tolist()
    assert all(len(set(row)) == num_slots for row in found.tolist())


def test_grouped_tokens_stay_in_their_groups():
    """With 8 groups of 4 experts and 3 groups a token, no token touches a fourth group, and all experts are used."""
    found = workload.grouped_experts(np, tokens(0, 500), flat(8), flat(12), 4, 6, seed=3)

    assert max(len({expert // 4 for expert in row}) for row in found.tolist()) == 3
    assert all(len(set(row)) == 6 for row in found.tolist())
    assert set(found.ravel().tolist()) == set(range(32))


def test_masking_hits_its_share_and_nothing_else():
    """A threshold of a quarter masks a quarter of the slots (4 sd of 8000 draws: 0.019) and leaves the others alone."""
    route = workload.distinct_choices(np, tokens(0, 1000), 8, flat(64), stream_key(5, Stream.EXPERT))
    masked = workload.mask_slots(np, route, tokens(0, 1000), END // 4, seed=5)

    assert 0.25 == pytest.approx((masked == workload.MASKED).mean(), abs=0.02)
    assert (masked[masked != workload.MASKED] == route[masked != workload.MASKED]).all()


def test_weights_are_unequal_positive_and_sum_to_one():
    """Weights lie between 64 and 192 parts of their sum; masked slots weigh nothing; a wholly masked token weighs zero."""
    route = np.array([[0, 1, 2, 3], [0, -1, 2, -1], [-1, -1, -1, -1]], dtype=np.int64)
    found = workload.weights(np, route, tokens(40, 3), seed=9, equal=False)

    assert found.dtype == np.float32
    assert [1.0, 1.0, 0.0] == pytest.approx(found.sum(1).tolist(), abs=1e-6)
    assert ((found == 0) == (route == -1)).all()
    parts = [64 + draw_int(40 * 4 + slot, stream_key(9, Stream.WEIGHT)) % 129 for slot in range(4)]
    assert [np.float32(part) / np.float32(sum(parts)) for part in parts] == found[0].tolist()
    assert len(set(found[0].tolist())) > 1


def test_hashed_input_is_what_its_words_say():
    """Column c of token g is 16 bits of word g * H/4 + c // 4, modulo 257, less 128, over 128."""
    found = workload.hashed_input(np, tokens(11, 2), 8, seed=4)
    key = stream_key(4, Stream.INPUT)

    def value(token, column):
        part = (word_int(token * 2 + column // 4, key) >> (16 * (column % 4))) & 0xFFFF
        return (part % 257 - 128) / 128

    assert [[value(token, column) for column in range(8)] for token in (11, 12)] == found.tolist()


@given(first=st.integers(0, 2**31 - 9), count=st.integers(1, 8))
def test_tags_survive_a_round_trip(first, count):
    """A token number is read back from its tag columns, also after they were scaled."""
    token_T = tokens(first, count)

    assert token_T.tolist() == workload.tokens_of_tags(np, workload.tags(np, token_T) * np.float32(0.37)).tolist()


def test_any_two_experts_disagree_on_about_half_of_the_columns():
    """Over 512 columns, 32 experts: every pair differs in 256 +- 5 sd (sd = sqrt(512)/2 = 11.3)."""
    signs = workload.expert_signs(np, np.arange(32, dtype=np.int64), 512, seed=2)
    different = (512 - signs @ signs.T) / 2

    assert set(np.unique(signs).tolist()) == {-1.0, 1.0}
    off_diagonal = different[~np.eye(32, dtype=bool)]
    assert off_diagonal.min() > 256 - 57
    assert off_diagonal.max() < 256 + 57
