"""Workload formulas: which experts each token goes to, with which weights, and what the tokens hold.

Legend: T tokens of a rank, H hidden columns, K top-k slots, E experts.

Arrays are signed 64-bit unless said otherwise. `xp` is the array module, numpy or torch: the ranks and the host evaluate
the same formulas and compare SHA-256 digests of the results. Integers only; the one float operation is an IEEE division
of two exactly represented integers.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from ep_worker.contract.counter import Stream, draws, stream_key, words

MAX_ATTEMPTS = 64
"""Redraws of a slot before it takes the lowest free choice; at 0.75 occupied mass that happens once in 10^8 slots."""

MASKED = -1
"""The expert id of a slot that goes nowhere."""

TAG_COLUMNS = 32
"""Columns that a tagged input overwrites with the bits of the global token number."""

_WEIGHT_LEVELS = 129
_WEIGHT_FLOOR = 64
_INPUT_LEVELS = 257
_INPUT_SCALE = 128


class RouteKind(str, Enum):
    """How experts are chosen.

    AFFINE: the published campaigns' formula: balanced, periodic, equal weights. UNIFORM: every expert alike.
    ZIPF: popularity falls as a power of the rank. GROUPED: first some expert groups, then experts within them
    (the group-limited gate of DeepSeek-V3, arXiv 2412.19437). MASKED: uniform, some slots go nowhere.
    RAGGED: uniform, token counts differ between ranks. TRACE: recorded expert ids.
    """

    AFFINE = "affine"
    UNIFORM = "uniform"
    ZIPF = "zipf"
    GROUPED = "grouped"
    MASKED = "masked"
    RAGGED = "ragged"
    TRACE = "trace"


def affine_experts(xp: Any, token_T: Any, num_experts: int, top_k: int, seed: int) -> Any:
    """Expert ids [T, K] of the published formula (17 g + 31 slot + seed) mod E, g the global token number."""
    slot_K = xp.arange(top_k, dtype=xp.int64)
    return (17 * token_T[:, None] + 31 * slot_K[None, :] + seed) % num_experts


def distinct_choices(xp: Any, token_T: Any, num_slots: int, thresholds: Any, key: int) -> Any:
    """Choices [T, num_slots] without repetition within a token, each drawn with the thresholds' probabilities.

    Args:
        xp: Array module.
        token_T: Global token numbers.
        num_slots: Choices for each token; at most the number of thresholds.
        thresholds: int64 [N], rising, last 2^62: choice i has probability (thresholds[i] - thresholds[i-1]) / 2^62.
        key: Key of the stream.
    """
    num_choices = thresholds.shape[0]
    chosen = xp.zeros((token_T.shape[0], num_choices), dtype=xp.bool)
    row_T = xp.arange(token_T.shape[0], dtype=xp.int64)
    columns = []
    for slot in range(num_slots):
        counter_T = (token_T * num_slots + slot) * MAX_ATTEMPTS
        pick_T = xp.searchsorted(thresholds, draws(counter_T, key), side="right")
        for attempt in range(1, MAX_ATTEMPTS):
            taken_T = chosen[row_T, pick_T]
            if not bool(taken_T.any()):
                break
            again_T = xp.searchsorted(thresholds, draws(counter_T + attempt, key), side="right")
            pick_T = xp.where(taken_T, again_T, pick_T)
        lowest_free_T = xp.argmax(xp.asarray(~chosen, dtype=xp.uint8), 1)
        pick_T = xp.where(chosen[row_T, pick_T], lowest_free_T, pick_T)
        chosen[row_T, pick_T] = True
        columns.append(pick_T)
    return xp.stack(columns, 1)


def grouped_experts(
    xp: Any, token_T: Any, group_thresholds: Any, member_thresholds: Any, experts_per_group: int, top_k: int, seed: int
) -> Any:
    """Expert ids [T, K]: a few groups first, then experts within those groups only.

    Args:
        xp: Array module.
        token_T: Global token numbers.
        group_thresholds: int64 [number of groups].
        member_thresholds: int64 [groups a token uses x experts of a group].
        experts_per_group: Experts of one group.
        top_k: Experts of a token.
        seed: The route's seed.
    """
    num_used = member_thresholds.shape[0] // experts_per_group
    group_TG = distinct_choices(xp, token_T, num_used, group_thresholds, stream_key(seed, Stream.GROUP))
    member_TK = distinct_choices(xp, token_T, top_k, member_thresholds, stream_key(seed, Stream.EXPERT))
    row_T1 = xp.arange(token_T.shape[0], dtype=xp.int64)[:, None]
    return group_TG[row_T1, member_TK // experts_per_group] * experts_per_group + member_TK % experts_per_group


def mask_slots(xp: Any, expert_TK: Any, token_T: Any, mask_threshold: int, seed: int) -> Any:
    """The route with each slot masked where its draw is below the threshold (of 2^62)."""
    counter_TK = token_T[:, None] * expert_TK.shape[1] + xp.arange(expert_TK.shape[1], dtype=xp.int64)[None, :]
    return xp.where(draws(counter_TK, stream_key(seed, Stream.MASK)) < mask_threshold, MASKED, expert_TK)


def weights(xp: Any, expert_TK: Any, token_T: Any, seed: int, *, equal: bool) -> Any:
    """Gate weights float32 [T, K]: 1/K each if `equal`, else unequal, summing to one over the slots that go somewhere.

    Unequal weights lie between 64 and 192 parts of their sum, so that the loss of any one contribution stands out of
    rounding (at top-8 the least weight is 64 / (64 + 7 * 192) = 0.045).
    """
    top_k = expert_TK.shape[1]
    if equal:
        return xp.full(tuple(expert_TK.shape), 1.0, dtype=xp.float32) / top_k
    counter_TK = token_T[:, None] * top_k + xp.arange(top_k, dtype=xp.int64)[None, :]
    part_TK = _WEIGHT_FLOOR + draws(counter_TK, stream_key(seed, Stream.WEIGHT)) % _WEIGHT_LEVELS
    part_TK = xp.where(expert_TK == MASKED, 0, part_TK)
    sum_T1 = part_TK.sum(1)[:, None]
    sum_T1 = xp.where(sum_T1 == 0, 1, sum_T1)
    return xp.asarray(part_TK, dtype=xp.float32) / xp.asarray(sum_T1, dtype=xp.float32)


def affine_input(xp: Any, token_T: Any, hidden: int) -> Any:
    """Input [T, H] float32 of the published formula ((17 g + 13 c + 19) mod 257 - 128) / 128; exact in BF16."""
    column_H = xp.arange(hidden, dtype=xp.int64)
    level_TH = (17 * token_T[:, None] + 13 * column_H[None, :] + 19) % _INPUT_LEVELS
    return xp.asarray(level_TH - _INPUT_SCALE, dtype=xp.float32) / _INPUT_SCALE


def hashed_input(xp: Any, token_T: Any, hidden: int, seed: int) -> Any:
    """Input [T, H] float32, levels -128..128 over 128, pseudo-random, exact in BF16; one word serves four columns."""
    quad_Q = xp.arange(hidden // 4, dtype=xp.int64)
    word_TQ = words(token_T[:, None] * (hidden // 4) + quad_Q[None, :], stream_key(seed, Stream.INPUT))
    level_TQ4 = xp.stack([((word_TQ >> (16 * part)) & 0xFFFF) % _INPUT_LEVELS for part in range(4)], 2)
    level_TH = level_TQ4.reshape(token_T.shape[0], (hidden // 4) * 4)
    return xp.asarray(level_TH - _INPUT_SCALE, dtype=xp.float32) / _INPUT_SCALE


def tags(xp: Any, token_T: Any) -> Any:
    """Tag columns [T, 32] float32: bit b of the global token number as +1 or -1; survives any symmetric quantiser."""
    bit = xp.arange(TAG_COLUMNS, dtype=xp.int64)
    return xp.asarray(2 * ((token_T[:, None] >> bit[None, :]) & 1) - 1, dtype=xp.float32)


def tokens_of_tags(xp: Any, tag_TC: Any) -> Any:
    """Global token numbers [T] read back from received tag columns, by sign."""
    bit = xp.arange(TAG_COLUMNS, dtype=xp.int64)
    return (xp.asarray(tag_TC > 0, dtype=xp.int64) << bit[None, :]).sum(1)


def expert_signs(xp: Any, expert_N: Any, hidden: int, seed: int) -> Any:
    """Transform [N, H] float32 of each expert: a column's value keeps or flips its sign, half of them each.

    Any two experts disagree on about half of the columns, so a token delivered to a wrong expert has the wrong sign
    there: no tolerance that allows rounding allows that.
    """
    num_words = -(-hidden // 64)
    counter_NW = expert_N[:, None] * num_words + xp.arange(num_words, dtype=xp.int64)[None, :]
    word_NW = words(counter_NW, stream_key(seed, Stream.EXPERT_SIGN))
    bit_NWB = (word_NW[:, :, None] >> xp.arange(64, dtype=xp.int64)[None, None, :]) & 1
    return xp.asarray(2 * bit_NWB.reshape(expert_N.shape[0], num_words * 64)[:, :hidden] - 1, dtype=xp.float32)
