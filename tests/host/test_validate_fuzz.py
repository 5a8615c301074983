"""Validation of anything at all: it finds, and never raises."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest
from forge import edit_start, read
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import make_plan
from synthetic import make_results

from ep_campaign.errors import CampaignError
from ep_campaign.startfile import read_start
from ep_campaign.validate import State, validate
from ep_worker.contract.canonical import canonical_json

if TYPE_CHECKING:
    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "ok", "crashed", "roundtrip", "fp8", "0" * 64, "ep2/decode/uniform/fp8"]),
    st.just([]),
    st.just({}),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Results, dict[str, Any]]:
    """A folder of one round, and the record that is changed in it."""
    folder = tmp_path_factory.mktemp("fuzz")
    plan = make_plan(folder, ep_sizes=[{"ranks": 2, "rounds": 1, "scored": False}])
    results = make_results(folder / "results", plan)
    return plan, results, read(results.attempt(plan.starts[1].id, 1) / "start.json")


def _paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [prefix] if prefix else []
    for key, item in items:
        found.extend(_paths(item, (*prefix, key)))
    return found


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_change_of_any_field_makes_validation_raise(
    made: tuple[Plan, Results, dict[str, Any]], data: st.DataObject
) -> None:
    """Whatever stands in whichever field of a record, and however it is sealed: findings, each kind of them told, no exception."""
    plan, results, original = made
    path = data.draw(st.sampled_from(_paths(original)))
    value = data.draw(VALUES)

    def change(record: dict[str, Any]) -> None:
        record.clear()
        record.update(copy.deepcopy(original))
        place: Any = record
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    edit_start(results, plan.starts[1].id, change)
    found = validate(plan, results)
    path = results.attempt(plan.starts[1].id, 1) / "start.json"
    if canonical_json(read(path)) == canonical_json(original):
        assert found.state is State.COMPLETE
    try:
        read_start(path, "start.json")
    except CampaignError:
        assert found.state is State.REFUSED
    kinds = {(item.severity, item.code) for item in found.violations}
    assert found.text().count("\n") == 1 + len(kinds)
