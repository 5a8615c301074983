"""Figures by their definitions, each with its n, and none where n cannot carry it."""

from __future__ import annotations

import pytest
from elastic.runs import MS, loaded, make_plan, request

from ep_campaign.elastic.metrics import lateness_fault, quantile, run_figures, tpot_ms, window_s

PLAN = make_plan()


def test_figures_of_two_requests() -> None:
    """Sent at 0 and 5; tokens at 10, 15, 20 and 25, 35, 55: TTFT 10 and 20, TPOT 5 and 15, gaps 5, 5, 10, 20, E2E 20 and 50."""
    run = loaded(request(0), request(1, sent_ms=5, stamps_ms=(25, 35, 55), scheduled_ns=3 * MS))
    found = run_figures(PLAN, "narrow", run)
    assert (2, 2, 2, 2, 4, 2) == tuple(
        found[f"num_{name}"] for name in ("requests", "ok", "ttft", "tpot", "itl", "e2e")
    )
    assert (15.0, 10.0, 7.5, 35.0) == tuple(found[f"{name}_p50_ms"] for name in ("ttft", "tpot", "itl", "e2e"))
    assert 1.0 == found["client_wait_p50_ms"]
    assert found["ttft_p95_ms"] is None
    assert found["itl_p99_ms"] is None
    # 6 tokens from 0 to 55 ms, on 2 ranks of 2 GPUs
    assert (0.055, 6) == (found["window_s"], found["output_tokens"])
    assert 6 / 0.055 == pytest.approx(found["output_tokens_per_s"])
    assert 6 / 0.055 / 4 == pytest.approx(found["output_tokens_per_s_per_gpu"])
    assert 55 / 6 == pytest.approx(found["ms_per_output_token"])


def test_goodput_counts_requests_within_both_targets() -> None:
    """First token within 100 ms and 99 % of the own gaps within 20: the second is late to begin, the third stalls once in 2."""
    requests = [
        request(0, stamps_ms=(100, 120, 140)),
        request(1, stamps_ms=(101, 102, 103)),
        request(2, stamps_ms=(10, 31, 32)),
    ]
    found = run_figures(PLAN, "narrow", loaded(*requests))
    assert 1 == found["num_within_targets"]
    assert 1 / 0.140 * 3600 / 4 == pytest.approx(found["goodput_per_gpu_hour"])


def test_warm_ups_probes_and_failures_are_no_figures() -> None:
    """They are counted where they are requests, and never timed."""
    failed = request(2, stamps_ms=(), success=False, status=503, done_ns=900 * MS, completion_tokens=None)
    others = [request(0, phase="warmup"), request(1, phase="probe"), failed, request(3)]
    found = run_figures(PLAN, "narrow", loaded(*others))
    assert (2, 1, 1) == (found["num_requests"], found["num_ok"], found["num_ttft"])
    assert 0.020 == found["window_s"]


def test_nothing_that_succeeded() -> None:
    """No window, no rate, no figure; and not 0."""
    found = run_figures(PLAN, "narrow", loaded(request(0, success=False, sent_ns=None)))
    for name in ("window_s", "output_tokens_per_s", "goodput_per_gpu_hour", "ttft_p50_ms", "prompt_tokens_min"):
        assert found[name] is None
    assert window_s([]) is None


@pytest.mark.parametrize(
    ("share", "count", "printed"), [(0.95, 19, False), (0.95, 20, True), (0.99, 99, False), (0.99, 100, True)]
)
def test_percentiles_need_their_n(share: float, count: int, printed: bool) -> None:
    """A p95 of 19 values and a p99 of 99 are their largest, or nearly, and are not printed."""
    assert printed == (quantile([float(i) for i in range(count)], share) is not None)


def test_one_token_has_no_time_per_token() -> None:
    """TPOT divides by the tokens after the first, by the server's own count."""
    assert tpot_ms(request(stamps_ms=(10,))) is None
    assert 1.0 == tpot_ms(request(stamps_ms=(10, 20), completion_tokens=11))


@pytest.mark.parametrize(("late_ms", "fault"), [(0.5, False), (0.51, True), (None, True)])
def test_a_late_client_invalidates_its_run(late_ms: float | None, fault: bool) -> None:
    """Above a tenth of the median gap (5 ms) the figures are the client's; without a measurement nothing vouches for it."""
    run = loaded(request(0), lateness_p99_ms=late_ms)
    assert fault == (lateness_fault(PLAN, run) is not None)
    assert fault != run_figures(PLAN, "narrow", run)["valid"]


def test_shapes() -> None:
    """Ranges of lengths, reasons to end, and the share of prompt tokens that a cache answered where the server says it."""
    run = loaded(request(0, cached_tokens=48), request(1, finish_reason="stop", prompt_tokens=32, cached_tokens=0))
    found = run_figures(PLAN, "narrow", run)
    assert (32, 96, 3, 3) == tuple(
        found[f"{name}_tokens_{end}"] for name in ("prompt", "output") for end in ("min", "max")
    )
    assert "length 1, stop 1" == found["finish_reasons"]
    assert 48 / 128 == found["prefix_cache_hit_share"]
    assert run_figures(PLAN, "narrow", loaded(request(0)))["prefix_cache_hit_share"] is None
