"""The paired tests that may carry a verdict; a module of its own, so that campaign files name them without the statistics."""

from __future__ import annotations

from enum import StrEnum


class PairedTest(StrEnum):
    """The paired test that a plan declares; the other one is printed beside it."""

    SIGNED_RANK = "signed_rank"
    SIGN = "sign"
