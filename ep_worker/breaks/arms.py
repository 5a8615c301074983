"""An arm with one fault, named by its knob `fault`: wrong in what it delivers, or in how it comes to its times.

Legend: T tokens of this rank, N received rows, H hidden columns, B scale blocks.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from ep_worker.backends.torch_a2a import TorchA2a
from ep_worker.contract.capabilities import CAPABILITIES, Capability
from ep_worker.contract.terms import ApiMode
from ep_worker.gates import COLLECTIVE_STEM, mapped_libraries

if TYPE_CHECKING:
    from torch import Tensor

    from ep_worker.backends.protocol import Problem, Rows
    from ep_worker.backends.torch_a2a import Layout

SLEEP_S = 0.02
_STALE = range(5, 13)
"""Combines that return an old result: after both inputs' proofs, before the last of the ten timed ones."""
_AT_DISPATCH = 12
"""A dispatch that lies inside the timed loop of ten iterations after three warm-ups."""


class Broken(TorchA2a):
    """The cached all-to-all with one fault; `none` is the control."""

    capability: ClassVar[Capability] = CAPABILITIES[("torch-a2a-cached", ApiMode.PORTABLE)]
    num_sms: ClassVar[int] = 20
    """Of the class, as the buffers of DeepEP V1 and UCCL-EP have it."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(replace(problem, knobs={}))
        self._fault = str(problem.knobs["fault"])
        self._rank = problem.rank
        self._num_dispatched = self._num_combined = 0
        self._last_out: Tensor | None = None
        if "num_sms" in problem.knobs:
            Broken.num_sms = int(problem.knobs["num_sms"])
        if self._fault == "two_libraries":
            map_second_library(Path(problem.knobs["folder"]) / f"rank-{problem.rank}")

    def layout(self) -> Layout:
        """Lays out; with a swapped map as if each rank held the experts of the one before it."""
        honest = self._problem
        if self._fault == "swapped_map":
            away_TK = (honest.expert_TK + honest.experts_per_rank) % honest.shape.experts
            self._problem = replace(honest, expert_TK=away_TK)
        handle = super().layout()
        self._problem = honest
        return handle

    def dispatch(self, payload_TH: Tensor, scale_TB: Tensor | None, handle: Layout) -> Rows:
        """Delivers, and spoils what arrived or what the process is."""
        rows = super().dispatch(payload_TH, scale_TB, handle)
        self._num_dispatched += 1
        if self._num_dispatched == _AT_DISPATCH:
            self._disturb()
        ids = rows.expert_NK
        if self._fault == "swapped_experts":
            return replace(rows, expert_NK=torch.where(ids == 0, 1, torch.where(ids == 1, 0, ids)))
        if self._fault == "wrong_weights":
            return replace(rows, weight_NK=rows.weight_NK.flip(1))
        if self._fault == "wrong_scales" and rows.scale_NB is not None:
            return replace(rows, scale_NB=rows.scale_NB * 2)
        return rows

    def _disturb(self) -> None:
        if self._fault == "compiles":
            compile_into(Path(os.environ["EP_JIT_CACHE_DIR"]))
        elif self._fault == "leaked_num_sms":
            Broken.num_sms = 8  # what the arm before asked for

    def combine(self, y_NH: Tensor, handle: Layout) -> Tensor:
        """Combines, and spoils what comes back."""
        y_NH = y_NH[-handle.num_received :]
        if self._fault == "dropped_rank" and self._rank == 1:
            y_NH = torch.zeros_like(y_NH)
        out_TH = super().combine(y_NH, handle)
        self._num_combined += 1
        last, self._last_out = self._last_out, out_TH
        if self._fault == "zeroed_token":
            out_TH[0] = 0
        elif self._fault == "stale" and self._num_combined in _STALE and last is not None:
            return last
        elif self._fault == "slow_rank" and self._rank == 1:
            self._tarry()
        return out_TH

    def _tarry(self) -> None:
        """Comes late by `SLEEP_S`, after the last exchange, as a rank with a busy core or a throttled device does."""
        if self._problem.device.type == "cuda":
            torch.cuda._sleep(round(SLEEP_S * 1e9))  # type: ignore[no-untyped-call] # noqa: SLF001 - one cycle is 0.5 to 1 ns
        else:
            time.sleep(SLEEP_S)

    def resolved(self) -> dict[str, Any]:
        """What the class says now."""
        return {**super().resolved(), "num_sms": Broken.num_sms}


def compile_into(cache: Path) -> None:
    """Compiles a function that did not exist before and leaves it in a cache, as a JIT compiler does."""
    import py_compile  # noqa: PLC0415 - in the middle of a timed loop is the point

    cache.mkdir(parents=True, exist_ok=True)
    source = cache / f"kernel_{os.getpid()}.py"
    source.write_text("def kernel(x):\n    return x + 1\n")
    py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")), doraise=True)


def map_second_library(folder: Path) -> None:
    """Maps copies of a shared object under the collective library's name, so that two are mapped.

    Where the process has the real one, the copy is of it; else two copies of a library of torch's stand for it.
    """
    mapped = mapped_libraries(COLLECTIVE_STEM)
    source = (mapped or mapped_libraries("libtorch_global_deps.so"))[0]
    for number in range(2 - min(len(mapped), 1)):
        copy = folder / str(number) / f"{COLLECTIVE_STEM}.2"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
        ctypes.CDLL(str(copy))
