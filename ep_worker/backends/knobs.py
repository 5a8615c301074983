"""Knobs of an arm: what a campaign may ask for, with the type and value that stand where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ep_worker.backends.protocol import Problem


def take_knobs(problem: Problem, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Every knob with its value: the campaign's, or the default.

    Raises:
        ValueError: The campaign asks for a knob that this arm does not have, or with a value of another type. One that is
            asked for and ignored would name the arm wrongly.
    """
    found = []
    for name, value in sorted(problem.knobs.items()):
        if name not in defaults:
            found.append(f"knob {name!r} is unknown, this arm has {', '.join(sorted(defaults)) or 'none'}")
        elif type(value) is not type(defaults[name]):
            wanted = type(defaults[name]).__name__
            found.append(f"knob {name!r} is {value!r}, expected a value of type {wanted}")
    if found:
        msg = f"{'; '.join(found)}: mend the arm's knobs"
        raise ValueError(msg)
    return {**defaults, **problem.knobs}


def even(name: str, value: int) -> int:
    """A number that must be positive and even: channels take two SMs each.

    Raises:
        ValueError: It is not.
    """
    if value <= 0 or value % 2:
        msg = f"knob {name!r} is {value}, expected a positive even number: a channel takes two SMs"
        raise ValueError(msg)
    return value


def chunk_sizes(name: str, text: str) -> tuple[int, ...] | None:
    """Chunk sizes `send,receive,rdma_send,rdma_receive` [tokens]; None for an empty text, which leaves them to the library.

    Raises:
        ValueError: It is not four positive numbers, each send below its receive.
    """
    if not text:
        return None
    parts = text.split(",")
    sizes = tuple(int(part) for part in parts if part.strip().isdecimal())
    if len(parts) != 4 or len(sizes) != 4 or not (0 < sizes[0] < sizes[1] and 0 < sizes[2] < sizes[3]):
        msg = (
            f"knob {name!r} is {text!r}, expected send,receive,rdma_send,rdma_receive with each send below its receive"
        )
        raise ValueError(msg)
    return sizes
