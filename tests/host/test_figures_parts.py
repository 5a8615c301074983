"""The parts of figures: axes, looks, names over several lines."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_campaign.figures.forest_rows import wrap_words
from ep_campaign.figures.ratios import ratio_axis
from ep_campaign.figures.scale import value_axis
from ep_campaign.figures.sheet import wrap_name
from ep_campaign.figures.style import lighter, looks
from ep_campaign.numbers import TimeUnit

RATIOS = st.lists(st.floats(0.01, 100.0), max_size=20)


class TestValueAxis:
    def test_ends_a_fifth_above_the_largest_value(self) -> None:
        """Nothing is far: top = 1.2 x 250 = 300."""
        axis = value_axis([(100.0, 110.0), (250.0, 240.0)])
        assert (TimeUnit.MICROSECONDS, 100.0, None, 300.0) == (axis.unit, axis.lowest_us, axis.cut_us, axis.top_us)

    def test_cuts_values_beyond_two_and_a_half_times_the_largest_median(self) -> None:
        """Medians 100 and 200: 500 is kept, 501 is cut."""
        axis = value_axis([(100.0, 100.0, 501.0), (200.0, 200.0, 500.0)])
        assert 500.0 == axis.cut_us
        assert (True, False) == (axis.cuts(501.0), axis.cuts(500.0))

    def test_takes_milliseconds_from_ten_on(self) -> None:
        """One unit for the axis: the largest value that is drawn decides."""
        assert TimeUnit.MILLISECONDS is value_axis([(9_999.0, 10_000.0)]).unit

    def test_of_nothing_is_an_axis(self) -> None:
        """A row of panels without a value still has one."""
        assert 1.0 == value_axis([]).top_us


class TestRatioAxis:
    @settings(max_examples=100, deadline=None)
    @given(RATIOS)
    def test_is_symmetric_never_narrower_than_5_percent_nor_wider_than_4(self, ratios: list[float]) -> None:
        """Every position lies on the axis, 1 is in its middle, at least three ticks are on it."""
        axis = ratio_axis(ratios)
        assert math.log(1.05) <= axis.limit <= math.log(4)
        assert all(-axis.limit <= axis.at(ratio) <= axis.limit for ratio in ratios)
        assert 0.0 == axis.at(1.0)
        assert 1.0 in axis.ticks
        assert len(axis.ticks) >= 3

    def test_is_not_widened_by_a_few_far_ratios(self) -> None:
        """Nine ratios within 3 % and one of 5: 2 % stays visible, 5 is beyond."""
        axis = ratio_axis([1.03] * 9 + [5.0])
        assert pytest.approx(math.log(1.25)) == axis.limit
        assert axis.beyond(5.0)

    def test_is_wide_where_most_ratios_are(self) -> None:
        """Where arms differ twofold, twofold is on the axis: log 2.2 x ... ends at 1.1 x log 2."""
        assert pytest.approx(1.1 * math.log(2)) == ratio_axis([2.0] * 5).limit


class TestLooks:
    def test_differ_for_56_arms(self) -> None:
        """7 colours and 8 markers have no common divisor."""
        found = looks([str(number) for number in range(56)])
        assert 56 == len({(look.colour, look.marker) for look in found.values()})

    def test_differ_in_more_than_colour_for_six_arms(self) -> None:
        """In grey print the marker alone tells arms apart."""
        assert 6 == len({look.marker for look in looks(list("abcdef")).values()})

    def test_lighter_mixes_with_white(self) -> None:
        """Half of black and white is grey; all of white is white."""
        assert (0.5, 0.5, 0.5) == lighter("#000000", 0.5)
        assert (1.0, 1.0, 1.0) == lighter("#123456", 1.0)


class TestWrapping:
    @pytest.mark.parametrize(
        ("max_chars", "lines"),
        [
            (20, "torch-a2a-cached"),
            (10, "torch-a2a-\ncached"),
            (6, "torch-\na2a-\ncached"),
        ],
    )
    def test_breaks_names_after_hyphens(self, max_chars: int, lines: str) -> None:
        """Nothing is added to a name and nothing lost."""
        assert lines == wrap_name("torch-a2a-cached", max_chars)

    @settings(max_examples=100, deadline=None)
    @given(st.from_regex(r"[a-z0-9][a-z0-9.-]{0,62}", fullmatch=True), st.integers(4, 40))
    def test_keeps_every_line_short_and_every_character(self, name: str, max_chars: int) -> None:
        """Also a long name without a hyphen."""
        lines = wrap_name(name, max_chars).split("\n")
        assert name == "".join(lines)
        assert all(len(line) <= max_chars for line in lines)

    def test_breaks_words_at_spaces(self) -> None:
        """A verdict with its qualifiers."""
        assert "not resolved\n(order effect)" == wrap_words("not resolved (order effect)", 15)
