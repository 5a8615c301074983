"""The breaks: what is done, and which gate must find it with which word."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ep_worker.contract.slow_rank import REASON_CODE as SLOW_RANK
from ep_worker.contract.terms import Status
from ep_worker.reason import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class Break:
    """One way of measuring wrongly.

    Attributes:
        name: Its name.
        what: What is done, in a sentence's part.
        gate: Where it must be found.
        status: What the start must come to.
        codes: Reason codes that name it; empty for the control.
        knobs: Of the broken arm, besides `fault`.
        environment: Of the broken arm's ranks.
    """

    name: str
    what: str
    gate: str
    status: Status
    codes: tuple[str, ...]
    knobs: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


def _wrong(name: str, what: str, *codes: Reason, gate: str = "oracle before timing") -> Break:
    return Break(name, what, gate, Status.INCORRECT, tuple(code.value for code in codes))


def _not_asked(name: str, what: str, gate: str, code: Reason, **fields: Any) -> Break:
    return Break(name, what, gate, Status.INADMISSIBLE, (code.value,), **fields)


BREAKS: tuple[Break, ...] = (
    Break("none", "nothing: the control", "", Status.OK, ()),
    _wrong("swapped_map", "each rank gets the tokens of its neighbour's experts", Reason.WRONG_TOKENS),
    _wrong("swapped_experts", "two experts of a rank are exchanged", Reason.WRONG_EXPERTS),
    _wrong("wrong_weights", "a token's gate weights come in another order", Reason.WRONG_WEIGHTS),
    _wrong("wrong_scales", "FP8 scales are twice what was sent", Reason.WRONG_PAYLOAD),
    _wrong("dropped_rank", "rank 1 contributes zeros to combine", Reason.WRONG_OUTPUT),
    _wrong("zeroed_token", "one combined token is zero", Reason.WRONG_OUTPUT),
    _wrong("stale", "combine returns what it returned before", Reason.WRONG_TIMED_OUTPUT, gate="timed iterations"),
    _not_asked(
        "leaked_num_sms",
        "another arm's SM count is set on the class while this arm is timed",
        "knobs, after each loop",
        Reason.KNOB_NOT_AS_ASKED,
        knobs={"num_sms": 24},
    ),
    _not_asked(
        "two_libraries",
        "two files of the collective library are mapped",
        "libraries, when the arm is made",
        Reason.SEVERAL_COLLECTIVE_LIBRARIES,
    ),
    _not_asked(
        "compiles",
        "a kernel is compiled in the timed loop",
        "kernel caches, after each loop",
        Reason.COMPILED_WHILE_TIMED,
    ),
    _not_asked(
        "debug_printing",
        "NCCL_DEBUG=INFO in a scored start",
        "environment, before any loop",
        Reason.DEBUG_PRINTING,
        environment={"NCCL_DEBUG": "INFO"},
    ),
    Break("slow_rank", "rank 1 is 20 ms late in combine", "spread of ranks (flagged)", Status.OK, (SLOW_RANK,)),
)
