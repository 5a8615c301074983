"""A resize, from the request to the proof: prepare beside the serving, switch between two steps, prove with a step."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_serve.fleet import EngineDeadError, PrepareFailedError
from ep_serve.observation import AGREE
from ep_serve.placement import first_placement, next_placement
from ep_serve.settings import Fault

if TYPE_CHECKING:
    from collections.abc import Callable

    from ep_serve.fleet import Fleet
    from ep_serve.observation import Observation
    from ep_serve.settings import Settings
    from ep_serve.stepper import Stepper

_SETTLE_S = 0.5
"""How long the document says `Completed` before it gives the standing reason."""


@dataclass(frozen=True)
class Answer:
    """What the HTTP call is told."""

    status: int
    message: str


class Resizer:
    """Carries out resizes, one at a time.

    Attributes:
        scaling: Whether the front answers 503 to everything.
    """

    def __init__(
        self,
        settings: Settings,
        fleet: Fleet,
        stepper: Stepper,
        observation: Observation,
        meeting: str,
        note: Callable[[dict[str, Any]], None],
    ) -> None:
        """Starts nothing yet.

        Args:
            settings: The engine's.
            fleet: Its ranks.
            stepper: What drives their steps.
            observation: What is said of the width.
            meeting: Where groups meet: an absolute path, to which each adds its own end.
            note: Gets the stamps of each resize that was carried out.
        """
        self.scaling = False
        self._settings, self._fleet, self._stepper = settings, fleet, stepper
        self._observation, self._meeting, self._note = observation, meeting, note
        self._stamps_ns: dict[str, int] = {}
        self._owner = first_placement(settings.shape.num_experts, settings.width)
        self._generation = 0
        self._active = False
        self._settling: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Brings up the first group."""
        width = self._settings.width
        self._observation.update(desired=width, admitted=width)
        await self._fleet.start(range(width), 0)
        self._fleet.serve_with(width)
        await self._fleet.all_joined(range(width))
        order = {"op": "start", "meeting": f"{self._meeting}.0", "width": width, "owner": self._owner}
        await self._fleet.ask(dict.fromkeys(range(width), order), "ready")
        await self._prove()
        self._observation.update(effective=width, stable_width=width, reason=AGREE)

    async def resize(self, width: int, drain_timeout_s: float) -> Answer:
        """Changes the width; answers when it is done or will not be."""
        refusal = self._refusal(width)
        if refusal is not None:
            return refusal
        if width == self._stepper.width:
            return Answer(200, f"Already at data parallel size {width}")
        self._active = True
        self._generation += 1
        self._stamps_ns = {}
        self._stamp("asked")
        told = self._observation
        told.update(
            generation=told.now.generation + 1,
            desired=width,
            admitted=width,
            effective=None,
            state="Resizing",
            reason="",
        )
        try:
            owner = await self._prepare(width)
            await self._drain(width, drain_timeout_s)
            await self._commit(width, owner)
        except PrepareFailedError as error:
            return await self._undo(width, Answer(500, f"Scaling failed in its preparation: {error}"))
        except asyncio.TimeoutError:  # noqa: UP041 - another class on Python 3.10
            return await self._undo(width, Answer(408, f"Requests did not drain within {drain_timeout_s} s"))
        except EngineDeadError as error:
            self.scaling = False  # nothing is scaling any more: what is asked now is told that the engine is dead
            told.update(state="Failed", reason=str(error))
            return Answer(500, f"EngineDeadError: {error}")
        self._active = False
        return Answer(200, f"Scaled to {width} data parallel engines")

    def _refusal(self, width: int) -> Answer | None:
        settings, now = self._settings, self._stepper.width
        if self._fleet.died is not None:
            return Answer(500, f"EngineDeadError: {self._fleet.died}")
        if self._active:
            return Answer(409, "A resize is already active")
        if width > settings.max_width:
            return self._refuse(f"new_data_parallel_size {width} is above the maximum {settings.max_width}")
        if width < now and not settings.allow_shrink:
            return self._refuse(f"new_data_parallel_size {width} is below the current {now}: this engine only grows")
        if Fault.REFUSE_SCALE in settings.faults and width != now:
            return self._refuse("scaling is refused by a fault that was asked for")
        return None

    def _refuse(self, reason: str) -> Answer:
        self._observation.update(state="Refused", reason=reason)
        return Answer(400, reason)

    async def _prepare(self, width: int) -> tuple[int, ...]:
        """Starts what is missing, meets the new group and moves weights, while the old group serves.

        Returns:
            Rank of each expert in the new group.
        """
        old_width, faults = self._stepper.width, self._settings.faults
        new_ranks = range(old_width, width)
        started = new_ranks[:-1] if Fault.MISSING_RANK in faults else new_ranks
        await self._fleet.start(started, self._generation, self._settings.join_delay_s)
        await self._fleet.all_joined(new_ranks)
        self._stamp("joined")
        if Fault.STUCK_PREPARE in faults:
            await asyncio.Event().wait()
        owner = next_placement(self._owner, width)
        order = {
            "op": "prepare",
            "generation": self._generation,
            "meeting": f"{self._meeting}.{self._generation}",
            "old_width": old_width,
            "new_width": width,
            "old_owner": self._owner,
            "new_owner": owner,
        }
        await self._fleet.ask(dict.fromkeys(range(max(old_width, width)), order), "ready")
        self._stamp("prepared")
        return owner

    async def _drain(self, width: int, timeout_s: float) -> None:
        """Waits until ranks that will go serve nothing."""
        self._stepper.accepting = min(self._stepper.accepting, width)
        await asyncio.wait_for(self._stepper.emptied(width), timeout_s)

    async def _commit(self, width: int, owner: tuple[int, ...]) -> None:
        """Switches between two steps, and proves the new group with a step before anything else uses it."""
        old_width = self._stepper.width
        self.scaling = True
        async with self._stepper.boundary:
            self._stamp("switch_began")
            self._fleet.serve_with(max(old_width, width))
            order = {"op": "switch", "generation": self._generation}
            await self._fleet.ask(dict.fromkeys(range(max(old_width, width)), order), "switched")
            self._owner = owner
            self._stepper.change_width(width)
            await self._prove()
            self._fleet.serve_with(width)
            self._stamp("switched")
        if Fault.STUCK_503 in self._settings.faults:
            await asyncio.Event().wait()
        self.scaling = False
        self._stamp("open")
        await self._fleet.remove(range(width, old_width))
        self._observation.update(effective=width, stable_width=width, state="Completed", reason="")
        self._stamp("observed")
        self._note(
            {
                "generation": self._generation,
                "old_width": old_width,
                "new_width": width,
                "step": self._stepper.num_steps,
                **self._stamps_ns,
            }
        )
        self._settling = asyncio.create_task(self._settle())

    def _stamp(self, name: str) -> None:
        """Stamps on the monotonic clock, which all processes of the machine share."""
        self._stamps_ns[f"{name}_ns"] = time.monotonic_ns()

    async def _prove(self) -> None:
        """One step of the group that serves; every rank must say the generation and the width that it computed with.

        Raises:
            EngineDeadError: They do not agree.
        """
        answers = await self._stepper.step()
        said = {(answer["generation"], answer["width"]) for answer in answers.values()}
        if said != {(self._generation, self._stepper.width)}:
            reason = f"ranks computed as {sorted(said)}, expected {(self._generation, self._stepper.width)}"
            raise EngineDeadError(reason)

    async def _undo(self, width: int, answer: Answer) -> Answer:
        """Goes back to what served before; ranks that had come are ended."""
        self._stepper.accepting = self._stepper.width
        await self._fleet.remove(range(self._stepper.width, width))
        self._observation.update(effective=self._stepper.width, state="Failed", reason=answer.message)
        self._active = False
        return answer

    async def _settle(self) -> None:
        await asyncio.sleep(_SETTLE_S)
        self._observation.update(state="", reason=AGREE)

    def describe(self) -> dict[str, Any]:
        """For the file of ranks: which expert lies where, in which generation."""
        return {"generation": self._generation, "width": self._stepper.width, "owner": list(self._owner)}
