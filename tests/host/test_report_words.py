"""A contrast in words: exact texts of made-up numbers."""

from __future__ import annotations

from typing import Any

import pytest

from ep_campaign.report.words import lost_rounds, outcome, reservations, true_levels
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.printable import printable
from ep_campaign.stats.verdict import Qualifier, Verdict
from ep_campaign.summary import Contrast, ExcludedRound, Family, Interval, Role, Ruling
from ep_worker.contract.terms import Boundary, Dtype, Loop, Mode, Status

FAMILY = Family(
    num_contrasts=4,
    alpha=0.05,
    practical_threshold=0.02,
    test=PairedTest.SIGNED_RANK,
    min_rounds=6,
    assumed_start_cv=0.02,
)
NOTHING = dict.fromkeys(
    (
        "arm_median_us",
        "reference_median_us",
        "ratio_of_medians",
        "ratio",
        "interval",
        "ratio_sd_log",
        "resolvable_percent",
        "p",
        "adjusted_p",
        "sign_p",
        "best_p",
        "ruling",
        "ruling_without_late",
    )
)


def contrast(n: int = 12, **fields: Any) -> Contrast:
    """Arm b against a over n rounds."""
    given: dict[str, Any] = {
        **NOTHING,
        "cell": "ep2/decode/uniform/bf16",
        "ep_size": 2,
        "profile": "decode",
        "route": "uniform",
        "dtype": Dtype.BF16,
        "boundary": Boundary.DISPATCH_READY,
        "mode": Mode.HOST_START,
        "loop": Loop.ROUNDTRIP,
        "arm": "b",
        "reference": "a",
        "role": Role.FAMILY,
        "num_rounds": 12,
        "rounds": tuple(range(1, n + 1)),
        "excluded": (),
        "ratios": (1.05,) * n,
        "num_faster": 0,
        "num_slower": n,
        "num_equal": 0,
        "printable": printable(n, 4),
        "warnings": (),
    }
    return Contrast(**(given | fields))


def lost(number: int, arm: str, status: Status | None, code: str) -> ExcludedRound:
    """A round that an arm has no record in."""
    return ExcludedRound(round=number, arm=arm, status=status, reason_code=code, reason="why")


def test_lost_rounds_are_told_status_first_the_most_frequent_first() -> None:
    """Another arm than the contrast's is named; a start that never ended says so."""
    excluded = (
        lost(1, "b", Status.TIMED_OUT, "watchdog"),
        lost(1, "a", None, ""),
        lost(2, "b", Status.INCORRECT, "wrong_output"),
        lost(3, "b", Status.INCORRECT, "wrong_output"),
    )
    expected = (
        "INCORRECT in 2 of 12 rounds (wrong_output), TIMED OUT in 1 of 12 rounds (watchdog), "
        "a not measured in 1 of 12 rounds"
    )
    assert expected == lost_rounds(contrast(9, excluded=excluded))
    assert "" == lost_rounds(contrast(0))
    hostile = (lost(1, "b", Status.CRASHED, "<b>x</b>"),)
    assert "CRASHED in 1 of 12 rounds" == lost_rounds(contrast(11, excluded=hostile))


def interval(lo: float, hi: float) -> Interval:
    """Of true level .9575."""
    return Interval(lo=lo, hi=hi, level=0.9575)


def ruling(verdict: Verdict, *qualifiers: Qualifier) -> Ruling:
    """A verdict with its qualifiers."""
    return Ruling(verdict=verdict, qualifiers=qualifiers)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        # 1.123 is 12.3 % more time, 1.101 is 10.1 %, 1.149 is 14.9 %
        (
            {"ratio": 1.123, "interval": interval(1.101, 1.149), "ruling": ruling(Verdict.SLOWER)},
            "b is 12.3 % slower than a [10.1, 14.9]",
        ),
        # .89 is 11 % less time; .92 is 8 % and .87 is 13 %, the smaller one first
        (
            {"ratio": 0.89, "interval": interval(0.87, 0.92), "ruling": ruling(Verdict.FASTER)},
            "b is 11.0 % faster than a [8.0, 13.0]",
        ),
        (
            {"ratio": 1.004, "interval": interval(0.991, 1.017), "ruling": ruling(Verdict.NOT_RESOLVED)},
            "b against a: +0.4 % [\N{MINUS SIGN}0.9, +1.7]",
        ),
        ({"n": 0}, "b: no complete round"),
        ({"n": 2, "ratios": (1.05, 0.98)}, "b: ratio by round 1.050, 0.980"),
        (
            {"n": 4, "ratio_of_medians": 1.094, "num_faster": 1},
            "b: ratio of medians 1.094; faster in 1 of 4 rounds",
        ),
    ],
)
def test_an_outcome_is_one_clause(fields: dict[str, Any], text: str) -> None:
    """Percentages of time, one decimal, the exact interval in brackets."""
    assert text == outcome(contrast(**fields))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"ruling": ruling(Verdict.SLOWER)}, ""),
        (
            {"ruling": ruling(Verdict.SLOWER, Qualifier.BELOW_THRESHOLD)},
            "real, but below the practical threshold of 2 %",
        ),
        (
            {"ruling": ruling(Verdict.NOT_RESOLVED, Qualifier.EQUIVALENT)},
            "equivalent: the whole interval lies within 2 % of 1",
        ),
        (
            {
                "ruling": ruling(Verdict.NOT_RESOLVED, Qualifier.ORDER_EFFECT, Qualifier.DEPENDS_ON_TEST),
                "adjusted_p": 0.05,
                "num_faster": 11,
                "num_slower": 1,
            },
            "faster in 11 of 12 rounds, vetoed: order effect, depends on test",
        ),
        # no direction at .051: the veto took nothing away
        (
            {"ruling": ruling(Verdict.NOT_RESOLVED, Qualifier.DRIFT), "adjusted_p": 0.051, "num_slower": 7},
            "no direction, and drift",
        ),
        (
            {
                "n": 0,
                "ruling": ruling(Verdict.TOO_FEW_STARTS),
                "excluded": (lost(1, "b", Status.INCORRECT, "wrong_output"),),
            },
            "nothing to compare: mend what failed, then run the same command",
        ),
        (
            {
                "ruling": ruling(Verdict.SLOWER, Qualifier.LATE_STARTS),
                "ruling_without_late": ruling(Verdict.NOT_RESOLVED),
            },
            "late starts decide it; without late starts: not resolved",
        ),
        # 5 rounds: best p = 2^-4 = .0625
        (
            {"n": 5, "ruling": ruling(Verdict.TOO_FEW_STARTS)},
            "too few starts (n = 5; an exact 95% interval needs 6; best possible p = 0.0625)",
        ),
    ],
)
def test_a_reservation_says_why_a_verdict_is_not_more(fields: dict[str, Any], text: str) -> None:
    """Qualifiers in words, vetoes by name, and what the number of rounds withholds."""
    assert text == reservations(contrast(**fields), FAMILY)


def test_true_levels_are_given_by_number_of_rounds() -> None:
    """Most rounds first; nothing where nothing has an interval."""
    found = [
        contrast(12, ratio=1.0, interval=interval(0.9, 1.1)),
        contrast(9, ratio=1.0, interval=Interval(lo=0.9, hi=1.1, level=0.9609)),
    ]
    assert (
        "Intervals of ratios are exact; their true level is 95.8 % (12 rounds) and 96.1 % (9 rounds)."
        == true_levels(found)
    )
    assert "" == true_levels([contrast(2)])
