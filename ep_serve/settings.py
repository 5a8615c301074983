"""What one engine is asked to be."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from enum import Enum
from typing import Any

NUM_BYTE_TOKENS = 256
EOS_TOKEN = 256
VOCABULARY = 257
"""The bytes and an end mark."""


class Transport(str, Enum):
    """What carries tokens between ranks: gloo over TCP on the loopback interface, or memory that two processes share."""

    TCP = "tcp"
    SHARED_MEMORY = "shm"


class Fault(str, Enum):
    """What can be made to go wrong.

    REFUSE_SCALE: a resize is refused. STUCK_PREPARE: a resize never leaves its preparation. STUCK_503: the scaling answer
    never clears after the switch. RENAMED_FIELD: the observation calls `effective` by another name. MISSING_RANK: the last
    new rank never joins. DIE_IN_SWITCH: the last rank dies when told to switch.
    """

    REFUSE_SCALE = "refuse_scale"
    STUCK_PREPARE = "stuck_prepare"
    STUCK_503 = "stuck_503"
    RENAMED_FIELD = "renamed_field"
    MISSING_RANK = "missing_rank"
    DIE_IN_SWITCH = "die_in_switch"


@dataclass(frozen=True)
class Shape:
    """Sizes of the model.

    Attributes:
        hidden: Width of a token's row; a multiple of `num_heads`.
        ffn: Inner width of an expert.
        num_heads: Attention heads.
        num_layers: Layers, each an attention and a Mixture-of-Experts block.
        num_experts: Experts a layer.
        top_k: Experts a token goes to.
    """

    hidden: int = 128
    ffn: int = 256
    num_heads: int = 4
    num_layers: int = 2
    num_experts: int = 16
    top_k: int = 2


@dataclass(frozen=True)
class Settings:
    """One engine.

    Attributes:
        width: Ranks at the start.
        max_width: Ranks at most.
        max_num_seqs: Sequences that a rank serves at a time; more wait.
        max_len: Tokens of a sequence at most, prompt and output.
        max_step_tokens: Rows that a rank computes in a step at most; longer prompts are cut into chunks.
        transport: What carries tokens between ranks.
        shape: Sizes of the model.
        seed: All weights follow from it.
        model_name: What requests call the model.
        allow_shrink: Whether a smaller width is carried out; otherwise it is refused.
        join_delay_s: How long a rank of a resize waits before it joins: it stands for the loading and compiling that real
            engines do then, and that this one does not need.
        timeout_s: Bound of every wait of a rank for another.
        faults: What goes wrong.
    """

    width: int = 2
    max_width: int = 4
    max_num_seqs: int = 16
    max_len: int = 512
    max_step_tokens: int = 128
    transport: Transport = Transport.TCP
    shape: Shape = field(default_factory=Shape)
    seed: int = 1
    model_name: str = "ep-serve-moe"
    allow_shrink: bool = False
    join_delay_s: float = 0.0
    timeout_s: float = 30.0
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        """Refuses what cannot be served, everything that is wrong at once.

        Raises:
            ValueError: With one sentence for each thing.
        """
        wrong = _whole_numbers(self) + _whole_numbers(self.shape)
        if not wrong:
            wrong = _misfits(self)
        if wrong:
            raise ValueError("; ".join(wrong))

    def dumps(self) -> str:
        """As JSON text, which `loads` reads."""
        return json.dumps(asdict(self), sort_keys=True)


def loads(text: str) -> Settings:
    """Reads what `Settings.dumps` wrote.

    Raises:
        ValueError: It is not complete and exact.
    """
    value: dict[str, Any] = json.loads(text)
    expected = {item.name for item in fields(Settings)}
    if set(value) != expected:
        msg = f"settings hold {sorted(value)}, expected {sorted(expected)}"
        raise ValueError(msg)
    return Settings(
        **{
            **value,
            "transport": Transport(value["transport"]),
            "shape": Shape(**value["shape"]),
            "faults": tuple(Fault(name) for name in value["faults"]),
        }
    )


def _whole_numbers(part: Settings | Shape) -> list[str]:
    values = {item.name: getattr(part, item.name) for item in fields(part) if item.type == "int"}
    return [f"{name} is {value}, expected at least 1" for name, value in values.items() if value < 1]


def _misfits(settings: Settings) -> list[str]:
    shape = settings.shape
    rules = [
        (settings.width <= settings.max_width, f"width {settings.width} is above max_width {settings.max_width}"),
        (
            settings.max_width <= shape.num_experts,
            f"{settings.max_width} ranks cannot share {shape.num_experts} experts",
        ),
        (shape.top_k <= shape.num_experts, f"top_k {shape.top_k} is above {shape.num_experts} experts"),
        (shape.hidden % shape.num_heads == 0, f"hidden {shape.hidden} is no multiple of {shape.num_heads} heads"),
        (
            settings.max_num_seqs <= settings.max_step_tokens,
            f"max_step_tokens {settings.max_step_tokens} is below max_num_seqs {settings.max_num_seqs}",
        ),
        (settings.join_delay_s >= 0, f"join_delay_s is {settings.join_delay_s}, expected 0 or more"),
        (settings.timeout_s > 0, f"timeout_s is {settings.timeout_s}, expected above 0"),
    ]
    return [message for holds, message in rules if not holds]
