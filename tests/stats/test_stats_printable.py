"""What may be printed at n rounds, and the sentence instead."""

from __future__ import annotations

import pytest

from ep_campaign.stats.printable import printable

SHOWS = ("values", "summary", "intervals", "verdicts", "bootstrap")


@pytest.mark.parametrize(
    ("n", "family_size", "shown", "sentence"),
    [
        (0, 24, 0, "no complete round"),
        (1, 24, 1, "too few starts (n = 1: values only; a median and a range need 3)"),
        (2, 24, 1, "too few starts (n = 2: values only; a median and a range need 3)"),
        (3, 24, 2, "too few starts (n = 3; an exact 95% interval needs 6; best possible p = 0.25)"),
        (4, 24, 2, "too few starts (n = 4; an exact 95% interval needs 6; best possible p = 0.125)"),
        (5, 1, 2, "too few starts (n = 5; an exact 95% interval needs 6; best possible p = 0.0625)"),
        (6, 24, 3, "too few starts for the family (n = 6 can decide 1 contrast; a family of 24 needs 10 starts)"),
        (8, 24, 3, "too few starts for the family (n = 8 can decide 6 contrasts; a family of 24 needs 10 starts)"),
        (6, 1, 4, ""),
        (9, 12, 4, ""),
        (9, 13, 3, "too few starts for the family (n = 9 can decide 12 contrasts; a family of 13 needs 10 starts)"),
        (10, 24, 5, ""),
        (11, 48, 5, ""),
        (12, 48, 5, ""),
    ],
)
def test_table(n: int, family_size: int, shown: int, sentence: str) -> None:
    """Each step of n adds one thing; where something is withheld the sentence says what it needs."""
    found = printable(n, family_size)

    assert [getattr(found, name) for name in SHOWS] == [i < shown for i in range(len(SHOWS))]
    assert found.sentence == sentence


def test_bootstrap_without_verdicts() -> None:
    """Ten rounds of a family of 48 may bootstrap and may not judge: 48 needs 11."""
    found = printable(10, 48)

    assert (found.bootstrap, found.verdicts) == (True, False)
    assert found.sentence.endswith("(n = 10 can decide 25 contrasts; a family of 48 needs 11 starts)")


def test_negative_rounds_are_refused() -> None:
    """A count below zero is refused."""
    with pytest.raises(ValueError, match="-1 complete rounds"):
        printable(-1, 1)
