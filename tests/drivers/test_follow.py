"""A resize is followed to its end; everything distinct is kept, and absences are bounded by the polls."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from drivers.contract_server import Contract, Drift, Stage, contract_server
from drivers.test_gpustack import make_driver

from ep_campaign.drivers.convergence import Verdict
from ep_campaign.drivers.follow import Followed, Patience, follow
from ep_campaign.drivers.withdrawal import Withdrawal, withdrawals
from ep_campaign.errors import CampaignError

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE = Patience(poll_s=0.01, timeout_s=20.0, call_timeout_s=5.0)


def stages(contract: Contract, last: Stage = Stage.SETTLED) -> Callable[[float], None]:
    """A pause in which the resize goes on by one stage."""
    steps = iter([stage for stage in Stage if Stage.ACCEPTED < stage <= last])
    return lambda _: contract.reach(next(steps, last))


def run(contract: Contract, last: Stage = Stage.SETTLED, patience: Patience = PATIENCE) -> Followed:
    """Follows a resize from 2 to 4."""
    driver = make_driver(contract)
    return follow(driver, driver.start(2), 2, 4, patience, stages(contract, last))


def test_to_convergence() -> None:
    """Seven looks after the baseline, each with something new; the commit withdraws endpoint and phase, within its polls."""
    with contract_server() as contract:
        found = run(contract)

    assert (Verdict.CONVERGED, None) == (found.verdict, found.last_words)
    assert 8 == len(found.looks_ns)
    assert sorted(found.looks_ns) == list(found.looks_ns)
    assert 8 == len(found.seen)
    assert found.resize.sent_ns < found.first_held_ns["layers"] <= found.ended_ns
    (withdrawn,) = found.endpoint_withdrawn
    assert (found.looks_ns[4], found.looks_ns[5], found.looks_ns[6]) == (
        withdrawn.after_ns,
        withdrawn.first_ns,
        withdrawn.before_ns,
    )
    assert 1 == len(found.phase_withdrawn)
    assert [False] * 5 + [True] + [False] * 2 == [one.shown["raw"]["withdrawn"] for one in found.seen]
    narrow, wide = [400, 200, 200, 400], [400, 200, 200, 200, 200, 400]
    assert (*narrow * 5, 503, 503, *wide * 2) == found.calls


def test_what_does_not_end() -> None:
    """Out of patience is its own verdict, with the rules that did not hold."""
    with contract_server() as contract:
        found = run(contract, Stage.JOINED, Patience(poll_s=0.01, timeout_s=0.2, call_timeout_s=5.0))
    assert Verdict.TIMED_OUT == found.verdict
    assert "rank_bound not yet, rank_forwards not yet" in found.reason
    assert found.last_words is None


def test_a_refusal_is_a_row() -> None:
    """A refused patch ends the resize at the first look after it."""
    with contract_server() as contract:
        driver = make_driver(contract)
        found = follow(driver, driver.start(2), 2, 1, PATIENCE, time.sleep)
    assert Verdict.REFUSED == found.verdict
    assert "may not decrease" in found.reason
    assert 2 == len(found.looks_ns)
    assert "refused" == found.as_json()["verdict"]


def test_an_unproved_baseline_asks_nothing() -> None:
    """Where the old width cannot be proved, no patch is sent."""
    with contract_server(Drift.NO_FLAG) as contract:
        with pytest.raises(CampaignError):
            run(contract)
        assert [] == contract.patches


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        ([], []),
        ([(1, True), (2, True)], []),
        ([(1, True), (3, False), (6, False), (7, True)], [Withdrawal(1, 3, 6, 7)]),
        ([(2, False), (4, True), (5, False)], [Withdrawal(None, 2, 2, 4), Withdrawal(4, 5, 5, None)]),
    ],
    ids=["no polls", "always there", "once", "open ends"],
)
def test_withdrawals(polls: list[tuple[int, bool]], expected: list[Withdrawal]) -> None:
    """Each run of absent polls is one withdrawal."""
    assert expected == list(withdrawals(polls))


def test_bounds_of_a_withdrawal() -> None:
    """Polls at 3 and 6 found it gone, at 1 and 7 there: gone for at least 3 and less than 6; an open end has no bound."""
    once = Withdrawal(1, 3, 6, 7)
    assert (3, 6) == (once.at_least_ns, once.at_most_ns)
    assert Withdrawal(None, 2, 2, 4).at_most_ns is None
    assert Withdrawal(4, 5, 5, None).at_most_ns is None
