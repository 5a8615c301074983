"""One rank's view of a cell, made without processes: its workload, its problem, and a dispatch without a fault."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from ep_worker.backends.protocol import Problem, Rows
from ep_worker.contract.terms import Dtype
from ep_worker.grouping import group
from ep_worker.quantise import quantise
from ep_worker.roundtrip import Arrived
from ep_worker.workload import Workload, make_workload, tagged_rows

if TYPE_CHECKING:
    from ep_worker.contract.spec import StartSpec

CPU = torch.device("cpu")


def make_rank(spec: StartSpec, rank: int, dtype: Dtype) -> tuple[Workload, Problem]:
    """Workload and problem of a rank, for the first route of a spec."""
    workload = make_workload(spec, spec.routes[0], rank, CPU, Path())
    own = workload.own
    problem = Problem(rank, spec.ep_size, spec.shape, dtype, CPU, workload.expert_AK[own], workload.weight_AK[own], {})
    return workload, problem


def delivered(spec: StartSpec, workload: Workload, problem: Problem, *, grouped: bool) -> Arrived:
    """What a rank gets from a dispatch of tagged tokens without a fault, by loops over the whole route."""
    low = problem.rank * problem.experts_per_rank
    local_AK = workload.expert_AK - low
    here_AK = (local_AK >= 0) & (local_AK < problem.experts_per_rank)
    token_n = here_AK.any(1).nonzero()[:, 0]
    x_nH = tagged_rows(spec, token_n)
    payload_nH, scale_nB = quantise(x_nH) if problem.dtype is Dtype.FP8 else (x_nH, None)
    expert_nK = torch.where(here_AK, local_AK, -1)[token_n].int()
    rows = Rows(payload_nH, scale_nB, expert_nK, workload.weight_AK[token_n], int(here_AK.sum()), None)
    return Arrived(rows, group(rows, problem.experts_per_rank) if grouped else None)


def with_rows(arrived: Arrived, **fields: object) -> Arrived:
    """The same dispatch with other fields of its rows."""
    return replace(arrived, rows=replace(arrived.rows, **fields))
