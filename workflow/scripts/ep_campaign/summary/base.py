"""What every part of `statistics.json` is: frozen, closed, and without a number that is none."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

CLOSED = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
"""Configuration of every part: an unknown field, a NaN or an infinity is an error."""


class Note(BaseModel):
    """A warning as data.

    Attributes:
        code: Stable, lower_snake_case.
        text: One sentence for a reader.
    """

    model_config = CLOSED

    code: str
    text: str


class Interval(BaseModel):
    """An exact interval, in the unit of what it is about.

    Attributes:
        lo: Lower end.
        hi: Upper end.
        level: True level; at least 1 - alpha, rarely equal to it (.9785 is 97.9 %).
    """

    model_config = CLOSED

    lo: float
    hi: float
    level: float
