"""What a resize cost, on the clock that the driver and the load share."""

from __future__ import annotations

from typing import Any

import pytest
from elastic.runs import MS, loaded, request, resize_file, start_file

from ep_campaign.elastic.resize_rows import resize_rows


def stream(*stamps_ms: float, **fields: Any) -> dict[str, Any]:
    """A request of the load whose tokens came at some times."""
    return request(sent_ms=stamps_ms[0] - 1, stamps_ms=stamps_ms, phase="load", **fields)


def probe(at_ms: float, status: int | None = 200) -> dict[str, Any]:
    """A probe that was answered at a time."""
    return request(
        phase="probe",
        path="/health",
        stamps_ms=(),
        scheduled_ns=round(at_ms * MS),
        done_ns=None if status is None else round(at_ms * MS),
        status=status,
        success=status == 200,
    )


def row(*requests: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The row of one growth that was asked at 1 s and ended at 3 s, under a load from 0 to 5 s."""
    account = {"began_ns": 0, "stopped_ns": 5000 * MS}
    (found,) = resize_rows(start_file(resizes=[resize_file(**fields)]), loaded(*requests, **account))
    return found


def test_times_from_the_request() -> None:
    """Answered after 1.5 s, every rank answered after 1.6, converged after 2; looks were 1.1 s apart at most."""
    found = row()
    assert (1.5, 1.6, 2.0, 1.1) == tuple(
        found[name] for name in ("answered_s", "forwards_s", "converged_s", "poll_max_s")
    )
    refused = row(verdict="refused")
    assert refused["forwards_s"] is None
    assert refused["converged_s"] is None


def test_tokens_lost() -> None:
    """10 tokens in the second before, 4 in the 2 s of the resize, 16 in the 2 s after: (10 - 2) x 2 = 16 tokens lost."""
    before = [stream(*(100.0 * i + 1 for i in range(10)))]
    during = [stream(1100, 1600, 2100, 2600)]
    after = [stream(*(3000 + 125.0 * i for i in range(16)))]
    found = row(*before, *during, *after)
    assert (10.0, 2.0, 8.0) == (found["rate_before_per_s"], found["rate_during_per_s"], found["rate_after_per_s"])
    assert 16.0 == found["lost_tokens"]


def test_the_largest_gap_that_touches_the_resize() -> None:
    """Gaps of 10 ms before; one of 400 ms across the end of the resize counts, one of 900 ms long after does not."""
    steady = stream(*(500 + 10.0 * i for i in range(21)))
    across = stream(2800, 3200, 3210)
    later = stream(4000, 4900)
    found = row(steady, across, later)
    assert (10.0, 400.0, 40.0) == (found["gap_before_p50_ms"], found["gap_max_ms"], found["gap_max_steps"])


def test_errors_of_clients_and_of_probes_are_apart() -> None:
    """A closed loop that waits sends nothing into a stall: its errors are not the availability."""
    failed = [stream(1500, success=False, status=503), stream(1600, success=False, status=500)]
    probes = [probe(1400), probe(1500, 503), probe(1700, 503), probe(1800), probe(2500, None), probe(2600)]
    found = row(stream(100, 110), *failed, *probes)
    assert (3, 2, 1) == (found["num_load_requests"], found["num_client_errors"], found["num_client_503"])
    assert (6, 3, 2) == (found["num_probes"], found["num_probe_errors"], found["num_probe_503"])
    # 1500 to 1700 certainly, 1400 to 1800 at most; and 2500 alone, between 1800 and 2600
    assert 0.2 == pytest.approx(found["probe_gone_at_least_s"])
    assert 0.4 + 0.8 == pytest.approx(found["probe_gone_at_most_s"])


def test_members() -> None:
    """Identities of before must be there after; restarts are those of the last look."""
    kept = {"name": "rank-0", "uid": "1-1", "num_restarts": None}
    found = row(seen=[{"shown": {"members": [kept]}}, {"shown": {"members": [kept, {**kept, "name": "rank-2"}]}}])
    assert (True, None) == (found["members_retained"], found["num_restarts"])
    other = {**kept, "uid": "2-2", "num_restarts": 1}
    found = row(seen=[{"shown": {"members": [kept]}}, {"shown": {"members": [other]}}])
    assert (False, 1) == (found["members_retained"], found["num_restarts"])
    assert row()["members_retained"] is None


def test_without_load() -> None:
    """A growth on the way to a sweep has its times, and no cost."""
    (found,) = resize_rows(start_file(resizes=[resize_file()]), None)
    assert not found["under_load"]
    assert 2.0 == found["converged_s"]
    assert "lost_tokens" not in found
