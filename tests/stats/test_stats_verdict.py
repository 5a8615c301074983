"""Verdicts and qualifiers, in the order in which they are decided."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ep_campaign.stats.contrast import PairedComparison
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.verdict import Decision, Qualifier, Rules, Verdict, decide, mark_late

CLEAR = PairedComparison(
    n=12,
    test=PairedTest.SIGNED_RANK,
    ratio=0.90,
    lo=0.88,
    hi=0.92,
    level=0.957,
    signed_rank_p=2.0**-11,
    sign_p=2.0**-11,
    num_faster=12,
    num_slower=0,
    num_equal=0,
    best_p=2.0**-11,
)
SLOW = replace(CLEAR, ratio=1.10, lo=1.08, hi=1.12, num_faster=0, num_slower=12)
NULL = replace(CLEAR, ratio=1.01, lo=0.95, hi=1.07, signed_rank_p=0.6, sign_p=0.77, num_faster=5, num_slower=7)


class TestDecide:
    @pytest.mark.parametrize(
        ("comparison", "adjusted_p", "expected"),
        [
            (CLEAR, 0.01, Decision(Verdict.FASTER)),
            (SLOW, 0.01, Decision(Verdict.SLOWER)),
            (CLEAR, 0.05, Decision(Verdict.FASTER)),  # alpha itself suffices
            (CLEAR, 0.051, Decision(Verdict.NOT_RESOLVED)),
            (
                replace(CLEAR, ratio=0.981, lo=0.975, hi=0.99),
                0.01,
                Decision(Verdict.FASTER, (Qualifier.BELOW_THRESHOLD,)),
            ),
            (
                replace(SLOW, ratio=1.019, lo=1.01, hi=1.03),
                0.01,
                Decision(Verdict.SLOWER, (Qualifier.BELOW_THRESHOLD,)),
            ),
            (replace(SLOW, ratio=1.021, lo=1.01, hi=1.03), 0.01, Decision(Verdict.SLOWER)),
            (NULL, 1.0, Decision(Verdict.NOT_RESOLVED)),
            (replace(NULL, lo=0.985, hi=1.015), 1.0, Decision(Verdict.NOT_RESOLVED, (Qualifier.EQUIVALENT,))),
            (replace(NULL, lo=0.985, hi=1.02), 1.0, Decision(Verdict.NOT_RESOLVED)),
            (replace(NULL, lo=0.975, hi=1.015), 1.0, Decision(Verdict.NOT_RESOLVED)),
        ],
    )
    def test_without_vetoes(self, comparison: PairedComparison, adjusted_p: float, expected: Decision) -> None:
        """A ratio below 1 is faster; below 2 % it says so; an interval within 2 % of 1 is equivalent."""
        assert decide(comparison, adjusted_p, family_size=8) == expected

    def test_too_few_starts_comes_first(self) -> None:
        """A family of 24 needs 10 rounds: with 9 nothing else is said, whatever the data and the vetoes."""
        nine = replace(CLEAR, n=9, num_faster=9)

        assert decide(nine, 0.01, 24, [Qualifier.DRIFT]) == Decision(Verdict.TOO_FEW_STARTS)
        assert decide(replace(nine, n=10), 0.01, 24).verdict is Verdict.FASTER

    @pytest.mark.parametrize("veto", [Qualifier.ORDER_EFFECT, Qualifier.DRIFT, Qualifier.UNSTABLE_STARTS])
    def test_a_veto_takes_the_direction(self, veto: Qualifier) -> None:
        """A direction with a veto is not resolved, with the reason; so is an equivalence."""
        assert decide(CLEAR, 0.01, 8, [veto]) == Decision(Verdict.NOT_RESOLVED, (veto,))
        assert decide(replace(NULL, lo=0.99, hi=1.01), 1.0, 8, [veto]).qualifiers == (veto,)

    def test_depends_on_test(self) -> None:
        """A claim that the sign test does not bear out is not resolved."""
        found = decide(replace(CLEAR, sign_p=0.146, num_faster=9, num_slower=3), 0.01, 8, [Qualifier.DRIFT])

        assert found == Decision(Verdict.NOT_RESOLVED, (Qualifier.DRIFT, Qualifier.DEPENDS_ON_TEST))
        assert str(found) == "not resolved (drift, depends on test)"

    def test_rules_are_the_plans(self) -> None:
        """Another threshold and alpha decide otherwise: 10 % is below a threshold of 15 %, .04 above an alpha of .01."""
        assert decide(CLEAR, 0.01, 8, (), Rules(practical_threshold=0.15)).qualifiers == (Qualifier.BELOW_THRESHOLD,)
        assert decide(replace(CLEAR, n=14), 0.04, 8, (), Rules(alpha=0.01)).verdict is Verdict.NOT_RESOLVED

    def test_bounds(self) -> None:
        """A ratio at the threshold is useful, an interval that touches it is not equivalent, a ratio of 1 no direction."""
        quarter = Rules(practical_threshold=0.25)  # exact in binary, as are .75 and 1.25

        assert decide(replace(SLOW, ratio=1.25), 0.01, 8, (), quarter) == Decision(Verdict.SLOWER)
        assert decide(replace(NULL, lo=0.75, hi=1.2), 1.0, 8, (), quarter).qualifiers == ()
        assert decide(replace(NULL, lo=0.8, hi=1.25), 1.0, 8, (), quarter).qualifiers == ()
        assert decide(replace(NULL, lo=0.8, hi=1.2), 1.0, 8, (), quarter).qualifiers == (Qualifier.EQUIVALENT,)
        assert decide(replace(CLEAR, ratio=1.0), 0.01, 8).verdict is Verdict.NOT_RESOLVED

    def test_a_family_of_one(self) -> None:
        """A single contrast's adjusted p is its p, and a threshold of 0 makes every direction useful."""
        found = decide(replace(CLEAR, ratio=0.999), CLEAR.p, 1, (), Rules(practical_threshold=0))

        assert found == Decision(Verdict.FASTER)

    def test_no_interval_is_never_equivalent(self) -> None:
        """Without an interval (a lenient alpha at few rounds) nothing is equivalent."""
        found = decide(replace(NULL, n=5, lo=None, hi=None, level=None), 1.0, 1, (), Rules(alpha=0.2))

        assert found == Decision(Verdict.NOT_RESOLVED)

    @pytest.mark.parametrize(
        ("vetoes", "adjusted_p", "message"),
        [
            ([Qualifier.EQUIVALENT], 0.5, "vetoes hold equivalent"),
            ([Qualifier.DEPENDS_ON_TEST], 0.5, "vetoes hold depends on test"),
            ([], 1e-6, "adjusted p is 1e-06; expected between the raw p"),
            ([], 1.5, "adjusted p is 1.5"),
        ],
    )
    def test_refusals(self, vetoes: list[Qualifier], adjusted_p: float, message: str) -> None:
        """A qualifier that is no veto of the starts, and an adjusted p that cannot be one, are refused."""
        with pytest.raises(ValueError, match=message):
            decide(CLEAR, adjusted_p, 8, vetoes)


def test_both_tests_answer_to_the_declared_alpha() -> None:
    """At alpha .01 a sign p of .02 bears nothing out, though it would at .05."""
    comparison = replace(CLEAR, sign_p=0.02)
    assert Decision(Verdict.FASTER) == decide(comparison, 0.005, 1)
    expected = Decision(Verdict.NOT_RESOLVED, (Qualifier.DEPENDS_ON_TEST,))
    assert expected == decide(comparison, 0.005, 1, rules=Rules(alpha=0.01))


@pytest.mark.parametrize(
    "rules", [{"alpha": 5.0}, {"practical_threshold": 1.0}, {"practical_threshold": 2.0}, {"practical_threshold": -0.1}]
)
def test_rules_refuse_percents(rules: dict[str, float]) -> None:
    """An alpha of 5 and a threshold of 2 were meant as percent and are refused."""
    with pytest.raises(ValueError, match="expected"):
        Rules(**rules)


class TestMarkLate:
    def test_a_different_verdict_is_marked(self) -> None:
        """Where late starts decide the verdict it says so."""
        found = mark_late(Decision(Verdict.FASTER, (Qualifier.BELOW_THRESHOLD,)), Decision(Verdict.NOT_RESOLVED))

        assert found == Decision(Verdict.FASTER, (Qualifier.BELOW_THRESHOLD, Qualifier.LATE_STARTS))

    def test_the_same_verdict_is_not(self) -> None:
        """Another qualifier alone is no other verdict."""
        decision = Decision(Verdict.NOT_RESOLVED)

        assert mark_late(decision, Decision(Verdict.NOT_RESOLVED, (Qualifier.EQUIVALENT,))) == decision


def test_words() -> None:
    """The words of verdicts and qualifiers are fixed: reports and tables use them."""
    assert [str(v) for v in Verdict] == ["faster", "slower", "not resolved", "too few starts"]
    assert [str(q) for q in Qualifier] == [
        "below threshold",
        "equivalent",
        "order effect",
        "drift",
        "unstable starts",
        "depends on test",
        "late starts",
    ]
