"""Strict JSON: the fast path accepts and refuses what the careful one does."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_campaign.errors import CampaignError
from ep_campaign.jsonfile import MAX_INTEGER, parse_object, shown

BIG = st.one_of(
    st.integers(-(10**40), 10**40), st.floats(allow_nan=True, allow_infinity=True), st.text("0123456789eE+-.")
)


def _code(text: str) -> str:
    with pytest.raises(CampaignError) as refused:
        parse_object(text, "f.json")
    (code,) = refused.value.codes
    return code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a": 9223372036854775808}', "number_too_large"),
        ('{"a":[1,-9223372036854775808]}', "number_too_large"),
        ('{"a": -1E+0999}', "not_finite"),
        ('{"a": [0.5,12.5e400]}', "not_finite"),
        ('{"a": -Infinity}', "not_finite"),
        ("9" * 5000, "not_json"),
        ('{"a": 1, "a": 2}', "duplicate_key"),
        ('{"a": 1', "not_json"),
        ('"a"', "not_an_object"),
    ],
)
def test_what_is_refused(text: str, code: str) -> None:
    """Numbers beyond 64 bits or a float's range, in any place and spelling; keys twice; no whole object."""
    assert _code(text) == code


def test_the_largest_numbers_are_read_exactly() -> None:
    """2^63 - 1, the least and the largest float, and digits inside texts."""
    value = {"a": MAX_INTEGER, "b": -MAX_INTEGER, "c": 1.7976931348623157e308, "d": 5e-324, "e": "1e9999" + "9" * 30}
    assert parse_object(json.dumps(value), "f") == value


@settings(max_examples=200, deadline=None)
@given(value=st.dictionaries(st.text(max_size=3), st.one_of(BIG, st.lists(BIG, max_size=3)), max_size=3))
def test_any_object_is_read_exactly_or_refused(value: dict[str, object]) -> None:
    """It is refused exactly where one of its numbers is not finite or too large."""
    leaves = [leaf for item in value.values() for leaf in (item if isinstance(item, list) else [item])]
    bad = any(
        (isinstance(leaf, float) and not math.isfinite(leaf)) or (isinstance(leaf, int) and abs(leaf) > MAX_INTEGER)
        for leaf in leaves
    )
    text = json.dumps(value, ensure_ascii=True)
    if bad:
        assert _code(text) in ("not_finite", "number_too_large")
    else:
        assert parse_object(text, "f") == value


def test_long_values_are_quoted_short() -> None:
    """A message names what was found without printing a megabyte."""
    assert shown("a") == "'a'"
    assert len(shown("a" * 1000)) == 83
