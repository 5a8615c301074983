"""The preview of a plan says what a person asks before starting it."""

from __future__ import annotations

from plans import make_plan, profile

from ep_campaign.preview import complete_rounds, preview

MEASURED = {"modes": ["host_start", "graph"], "iterations": 20}


def test_preview_names_matrix_order_time_and_limits(tmp_path):
    """Cells, arms in turn, duration, what cannot run and why, and the smallest effect are all there."""
    text = preview(
        make_plan(
            tmp_path,
            profiles=[profile("decode", expected_start_s=30)],
            ep_sizes=[{"ranks": 2, "rounds": 12}],
            measurement=MEASURED,
        )
    )

    assert "36 starts, about 18 min of measuring (0.30 h)" in text  # 36 x 30 s
    assert "2 contrasts, family-wise alpha 0.05 (Holm), test signed_rank, practical threshold 2 %; at least 7" in text
    assert "EP 2: 12 rounds resolve a difference of" in text
    assert " > " in text
    assert "a CPU has no device graph to capture" in text


def test_preview_of_a_campaign_that_judges_nothing_says_so(tmp_path):
    """Unscored EP sizes are described only, and unbalanced orders are a note."""
    text = preview(make_plan(tmp_path))

    assert "none: every EP size is described, none is judged" in text
    assert "no multiple of the 6 balanced orders [order_unbalanced]" in text


def test_preview_prices_node_hours(tmp_path):
    """9 starts of 400 s on one node are one node-hour: 32.77 at that price."""
    plan = make_plan(tmp_path, profiles=[profile("decode", expected_start_s=400)], price_per_node_hour=32.77)

    assert "1.00 node-hours, about 32.77 USD" in preview(plan)


def test_budget_counts_complete_rounds_only(tmp_path):
    """3 starts of 60 s a round: 0.1 h = 360 s hold two rounds, 359 s one; the family of 2 needs 7."""
    plan = make_plan(
        tmp_path,
        profiles=[profile("decode", expected_start_s=60)],
        ep_sizes=[{"ranks": 2, "rounds": 12}],
        budget_hours=0.1,
    )

    assert {2: 2} == complete_rounds(plan, 360)
    assert {2: 1} == complete_rounds(plan, 359)
    assert "EP 2: 2 of 12 rounds fit; its family stays undecided" in preview(plan)
    enough = make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 12}], budget_hours=10)
    assert "EP 2: 12 of 12 rounds fit; its verdicts are reached" in preview(enough)


def test_one_of_a_thing_is_singular(tmp_path):
    """One contrast, decided by 6 rounds (2 x 2^-6 = .031), and one round in which nothing is judged."""
    two = [{"name": arm, "backend": arm} for arm in ("torch-a2a", "torch-agrs")]
    text = preview(make_plan(tmp_path, arms=two, ep_sizes=[{"ranks": 2, "rounds": 6}]))
    assert "Family    1 contrast, " in text
    assert " 1 contrasts" not in text

    once = preview(make_plan(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 1, "scored": False}], budget_hours=1))
    assert "1 of 1 round fit; described only" in once
