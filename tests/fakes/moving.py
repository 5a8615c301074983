"""What the fake libraries share: real movement of rows between ranks, by pickled gathers, and faults that tests ask for.

Legend: T tokens of a rank, N received rows, H hidden columns, K top-k slots, R ranks, L local experts, M slots of one expert.
"""

from __future__ import annotations

import os

import torch
from torch import distributed as dist

GARBAGE = 77.0


def fault() -> str:
    """The fault that the environment asks for; empty for none."""
    return os.environ.get("FAKE_FAULT", "")


def gather(value: object) -> list:
    """A value of every rank, in rank order."""
    gathered: list = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, value)
    return gathered


def rank_rows(expert_TK: torch.Tensor, num_experts: int, num_ranks: int) -> torch.Tensor:
    """Whether a token goes to a rank, bool [T, R]."""
    target_TK = torch.where(expert_TK < 0, -1, expert_TK // (num_experts // num_ranks))
    return torch.stack([(target_TK == rank).any(1) for rank in range(num_ranks)], 1)


def send_rows(x_TH, scale_TB, expert_TK, weight_TK, num_experts):
    """Received (rows, scales, local ids, weights) by source rank, and (source rank, token) of each row."""
    me, ranks = dist.get_rank(), dist.get_world_size()
    local = num_experts // ranks
    sent = gather((x_TH.view(torch.uint8), scale_TB, expert_TK, weight_TK))
    parts, origin = [], []
    for source, (bytes_T, scales, experts, weights) in enumerate(sent):
        token_n = rank_rows(experts, num_experts, ranks)[:, me].nonzero()[:, 0]
        here = experts[token_n] - me * local
        ids = torch.where((here >= 0) & (here < local) & (experts[token_n] >= 0), here, -1)
        parts.append((bytes_T[token_n], None if scales is None else scales[token_n], ids, weights[token_n]))
        origin += [(source, int(token)) for token in token_n]
    rows = torch.cat([part[0] for part in parts]).view(x_TH.dtype)
    scales = None if scale_TB is None else torch.cat([part[1] for part in parts])
    ids, weights = torch.cat([part[2] for part in parts]), torch.cat([part[3] for part in parts])
    if fault() == "wrong_experts":
        ids = torch.where(ids == 0, 1, torch.where(ids == 1, 0, ids))
    if fault() == "lost_row":
        rows = rows.view(torch.uint8).clone()
        rows[0] = rows[-1]
        rows = rows.view(x_TH.dtype)
    return rows, scales, ids, weights, origin


def sum_back(y_NH, origin, num_tokens):
    """Unweighted sums over ranks of what came of each token, float32 inside, one rounding."""
    out_TH = torch.zeros((num_tokens, y_NH.shape[1]))
    me = dist.get_rank()
    for source, (rows, origins) in enumerate(gather((y_NH, origin))):
        if fault() == "dropped_rank" and source == 1:
            continue
        for row, (owner, token) in enumerate(origins):
            if owner == me:
                out_TH[token] += rows[row].float()
    return out_TH.to(y_NH.dtype)


def fill_slots(x_TH, expert_TK, num_experts, max_tokens, *, fp8):
    """Expert-major slots in a scrambled order: values, scales in float32, counts, and the (rank, token) of each slot."""
    me, ranks = dist.get_rank(), dist.get_world_size()
    local, hidden = num_experts // ranks, x_TH.shape[1]
    slots_LMH = torch.full((local, ranks * max_tokens, hidden), GARBAGE, dtype=torch.bfloat16)
    source_LM = torch.full((local, ranks * max_tokens), -1, dtype=torch.int32)
    count_L = torch.zeros(local, dtype=torch.int32)
    for source, (rows, experts) in reversed(list(enumerate(gather((x_TH, expert_TK))))):
        for token, slot in (experts // local == me).nonzero().flip(0).tolist():
            expert = int(experts[token, slot]) - me * local
            if experts[token, slot] < 0:
                continue
            slots_LMH[expert, count_L[expert]] = rows[token]
            source_LM[expert, count_L[expert]] = source * max_tokens + token
            count_L[expert] += 1
    if fault() == "wrong_experts":
        slots_LMH = slots_LMH.roll(1, 0)
    if not fp8:
        return slots_LMH, None, count_L, source_LM
    blocks = slots_LMH.float().view(local, ranks * max_tokens, hidden // 128, 128)
    amax = blocks.abs().amax(3).clamp(min=1e-4)
    q = (blocks * (448.0 / amax).unsqueeze(3)).to(torch.float8_e4m3fn).view(slots_LMH.shape)
    scales = amax * (1.0 / 448.0)
    return q, scales * (2.0 if fault() == "wrong_scales" else 1.0), count_L, source_LM


def sum_slots(y_LMH, expert_TK, weight_TK, source_LM, count_L, max_tokens, num_experts):
    """Sums over experts by the sender's weights; y of experts on all ranks."""
    me, ranks = dist.get_rank(), dist.get_world_size()
    local = num_experts // ranks
    out_TH = torch.zeros((expert_TK.shape[0], y_LMH.shape[2]))
    for rank, (slots, source, counts) in enumerate(gather((y_LMH, source_LM, count_L))):
        if fault() == "dropped_rank" and rank == 1:
            continue
        for expert in range(local):
            for slot in range(int(counts[expert])):
                owner, token = divmod(int(source[expert, slot]), max_tokens)
                if owner == me:
                    weight = weight_TK[token][expert_TK[token] == expert + rank * local].sum()
                    out_TH[token] += weight * slots[expert, slot].float()
    return out_TH.to(torch.bfloat16)
