"""One rank: does what the front says, in the order in which it says it.

The front's order is the same for every rank, so ranks agree on which step a group changes at without asking one another.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

import torch

from ep_serve.batch import Batch
from ep_serve.evidence import Evidence
from ep_serve.model import Model
from ep_serve.settings import Fault, Settings
from ep_serve.standby import Change, Standby, meet, prepare
from ep_serve.weights import make_dense, make_experts

if TYPE_CHECKING:
    from ep_serve.wire import Line, Message

EXIT_FAILED = 1


class Rank:
    """A rank between two messages."""

    def __init__(self, settings: Settings, rank: int, line: Line) -> None:
        self._settings, self._rank, self._line = settings, rank, line
        self._batch = Batch(settings)
        self._evidence = Evidence(rank, settings.transport.value)
        self._model: Model | None = None
        self._standby: Standby | None = None
        self._generation = 0

    def run(self) -> int:
        """Serves until the front says stop or is gone; the exit status."""
        self._line.send({"op": "hello", "rank": self._rank, "pid": os.getpid()})
        while (message := self._line.receive()) is not None and message["op"] != "stop":
            try:
                self._handlers()[message["op"]](message)
            except (RuntimeError, OSError) as error:
                self._fail(error)
                return EXIT_FAILED
        return 0

    def _handlers(self) -> dict[str, Any]:
        return {"start": self._start, "prepare": self._prepare, "switch": self._switch, "step": self._step}

    def _start(self, message: Message) -> None:
        """Makes a fresh engine's share from the seed."""
        settings, owner = self._settings, tuple(message["owner"])
        before = self._evidence.look()
        group = meet(settings, message["meeting"], self._rank, message["width"])
        seen = self._evidence.log(0, before)
        own = [expert for expert, rank in enumerate(owner) if rank == self._rank]
        experts = make_experts(settings.shape, settings.seed, own)
        self._model = Model(settings, make_dense(settings), experts, owner, group)
        self._line.send({"op": "ready", "generation": 0, "transport_seen": seen})

    def _prepare(self, message: Message) -> None:
        """Prepares a resize, beside the serving where this rank serves."""
        change = Change.of(message)
        if self._model is None:
            self._ready(change)
        else:
            threading.Thread(target=self._ready_or_fail, args=(change,), daemon=True).start()

    def _ready_or_fail(self, change: Change) -> None:
        """A failure here costs the resize and not the serving."""
        try:
            self._ready(change)
        except (RuntimeError, OSError) as error:
            traceback.print_exception(error)
            sys.stderr.flush()
            self._line.send({"op": "prepare_failed", "reason": f"rank {self._rank}: {type(error).__name__}: {error}"})

    def _ready(self, change: Change) -> None:
        model = self._model
        dense, experts = (None, {}) if model is None else (model.dense, model.experts)
        self._standby = prepare(self._settings, self._rank, change, dense, experts, self._evidence)
        self._line.send(self._standby.told)

    def _switch(self, message: Message) -> None:
        """Takes the standby group into use."""
        faults = self._settings.faults
        standby = self._standby
        assert standby is not None
        assert standby.change.generation == message["generation"]
        if Fault.DIE_IN_SWITCH in faults and self._rank == standby.change.new_width - 1:
            os._exit(EXIT_FAILED)
        self._standby = None
        change, left = standby.change, None
        if standby.model is not None:
            self._model = standby.model
        elif standby.group is not None:
            assert self._model is not None
            left = self._model.group
            self._model.experts.update(standby.experts)
            self._model.adopt(standby.group, change.new_owner)
        self._generation = change.generation
        held = sorted({expert for _, expert in self._model.experts}) if self._model else []
        self._line.send({"op": "switched", "generation": self._generation, "experts": held})
        if left is not None:
            threading.Thread(target=left.close, daemon=True).start()  # nothing waits for the old sockets to close

    def _step(self, message: Message) -> None:
        """One pass over what this rank serves."""
        model = self._model
        assert model is not None
        began = time.monotonic_ns()
        self._batch.drop(message["drop"])
        self._batch.admit(message["admit"])
        planned = self._batch.plan()
        made = model.step([segment for _, segment in planned])
        tokens = self._batch.take(planned, made)
        self._line.send(
            {
                "op": "done",
                "generation": self._generation,
                "width": model.group.width,
                "tokens": tokens,
                "num_rows": sum(len(segment.tokens) for _, segment in planned),
                "step_us": (time.monotonic_ns() - began) // 1000,
            }
        )

    def _fail(self, error: Exception) -> None:
        traceback.print_exception(error)
        sys.stderr.flush()
        self._line.send({"op": "failed", "rank": self._rank, "reason": f"{type(error).__name__}: {error}"})


def run_rank(settings: Settings, rank: int, line: Line) -> int:
    """Runs one rank; the exit status."""
    torch.set_num_threads(1)
    return Rank(settings, rank, line).run()
