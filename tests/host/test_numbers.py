"""Numbers as they are printed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_campaign.numbers import (
    MISSING,
    TimeUnit,
    change_text,
    count,
    level_text,
    listing,
    p_text,
    percent,
    plural,
    ratio_text,
    significant,
    span,
    time_unit,
)


class TestSignificant:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0.0, "0"),
            (212.345, "212.3"),
            (52.5789, "52.58"),
            (1026.4, "1,026"),
            (0.00445123, "0.004451"),
            (1234567.0, "1,235,000"),
            (9.99996, "10.00"),  # rounds up to another power of ten, and still has four digits
            (-3.14159, "-3.142"),
        ],
    )
    def test_has_four_digits(self, value: float, text: str) -> None:
        """Fixed notation, thousands separated."""
        assert text == significant(value)

    @settings(max_examples=100, deadline=None)
    @given(st.floats(1e-6, 1e9))
    def test_is_within_half_a_unit_of_the_last_digit(self, value: float) -> None:
        """Four significant digits: a relative error of at most 5e-4."""
        assert float(significant(value).replace(",", "")) == pytest.approx(value, rel=5.01e-4)

    def test_of_nothing_is_a_dash(self) -> None:
        """The sentence that says why stands elsewhere."""
        assert MISSING == significant(None) == ratio_text(None) == percent(None) == p_text(None) == count(None)


class TestTimeUnit:
    def test_is_one_for_a_column_and_milliseconds_from_ten_on(self) -> None:
        """The largest number decides; a missing one does not."""
        assert TimeUnit.MICROSECONDS is time_unit([None, 9_999.9])
        assert TimeUnit.MILLISECONDS is time_unit([3.0, 10_000.0])
        assert TimeUnit.MICROSECONDS is time_unit([])

    def test_prints_without_its_symbol(self) -> None:
        """12,345 us are 12.35 ms (12.345 rounds to even in binary at .34 or .35; 12.3456 is plain)."""
        assert ("12.35", "ms") == (TimeUnit.MILLISECONDS.text(12_345.6), TimeUnit.MILLISECONDS.symbol)
        assert ("212.3", "µs") == (TimeUnit.MICROSECONDS.text(212.3), TimeUnit.MICROSECONDS.symbol)


class TestP:
    @pytest.mark.parametrize(
        ("p", "text"),
        [
            (1.0, "1"),
            (0.999, "1"),
            (0.43, ".43"),
            (0.0488281, ".049"),
            (0.0039, ".0039"),
            (0.00049, ".00049"),
            (9e-5, "< .0001"),
        ],
    )
    def test_has_two_digits_and_no_leading_zero(self, p: float, text: str) -> None:
        """Below .0001 only that it is."""
        assert text == p_text(p)


class TestWords:
    def test_of_ratios_and_changes(self) -> None:
        """A ratio has three decimals, a change one and its sign; no change has no sign."""
        assert "1.123" == ratio_text(1.1234)
        assert ("+12.3", "\N{MINUS SIGN}2.0", "0.0") == (change_text(1.1234), change_text(0.98), change_text(0.9999))
        assert ("12.3", "2") == (percent(0.1234), percent(0.02, decimals=0))
        assert "97.9 %" == level_text(0.9785)

    def test_of_counts_and_lists(self) -> None:
        """One start, twelve starts; a, b and c; runs of rounds drawn together."""
        assert ("1 start", "12 starts", "2 vetoes") == (
            plural(1, "start"),
            plural(12, "start"),
            plural(2, "veto", "vetoes"),
        )
        assert ("", "a", "a and b", "a, b and c") == (listing([]), listing("a"), listing("ab"), listing("abc"))
        assert ("1-3, 5", "none") == (span([5, 1, 2, 3]), span([]))
