"""A family of cells: complete rounds, Holm, vetoes, late starts, from start values to verdicts."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ep_campaign.stats.judge import CellRounds, diagnose, judge
from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.stats.verdict import Qualifier, Rules, Verdict

ARMS = ("a", "b", "c")
POSITIONS_NA = np.argsort(np.array(list(itertools.permutations(range(3))) * 2), axis=1)


def _cell(
    name: str = "ep16-decode-uniform-fp8", *, seed: int = 1, scale: tuple[float, ...] = (1, 0.9, 1)
) -> CellRounds:
    """12 rounds of three arms at 500 us with 1 % noise; b is 10 % faster than the reference a, c is the same."""
    logs_NA = np.random.default_rng(seed).normal(0, 0.01, (12, 3)) + np.log(scale)
    return CellRounds(name, ARMS, "a", 500 * np.exp(logs_NA), POSITIONS_NA)


class TestJudge:
    def test_clean_family(self) -> None:
        """b is faster with p = 2^-11 times Holm's 4, c is not resolved; contrasts come cell by cell, arm by arm."""
        found = judge([_cell(), _cell("other", seed=2)])

        assert [(j.cell[:5], j.arm, str(j.decision)) for j in found] == [
            ("ep16-", "b", "faster"),
            ("ep16-", "c", "not resolved (equivalent)"),
            ("other", "b", "faster"),
            ("other", "c", "not resolved (equivalent)"),
        ]
        assert found[0].adjusted_p == 4 * 2.0**-11
        assert found[2].adjusted_p == 4 * 2.0**-11  # the second step (x 3) may not fall below the first
        assert found[0].rounds == tuple(range(12))
        assert found[0].decision_without_late is None

    def test_family_may_be_larger_than_what_ran(self) -> None:
        """A declared family of 200 makes 12 rounds too few (13 are needed), also where only one cell has data."""
        found = judge([_cell()], family_size=200)

        assert [j.decision.verdict for j in found] == [Verdict.TOO_FEW_STARTS] * 2

    def test_incomplete_rounds_are_left_out_of_their_contrast_only(self) -> None:
        """A start missing for c costs its contrast a round and b's none; one missing for the reference costs both."""
        cell = _cell()
        cell.values[3, 2] = np.nan
        cell.values[5, 0] = np.nan
        of_b, of_c = judge([cell])

        assert (of_b.excluded_rounds, of_c.excluded_rounds) == ((5,), (3, 5))
        assert of_b.comparison is not None
        assert (of_b.comparison.n, len(of_c.rounds)) == (11, 10)

    def test_an_arm_that_never_ran(self) -> None:
        """Without a complete round a contrast is `too few starts` and still counts in Holm."""
        cell = _cell()
        cell.values[:, 2] = np.nan
        of_b, of_c = judge([cell])

        assert (of_c.comparison, of_c.adjusted_p, of_c.decision.verdict) == (None, None, Verdict.TOO_FEW_STARTS)
        assert of_b.adjusted_p == 2 * 2.0**-11
        assert set(of_b.diagnostics.drift) == {"a", "b"}
        assert of_b.diagnostics.order is None  # no round is complete over all arms

    def test_drift_of_the_reference_vetoes_both(self) -> None:
        """A reference that drifts by 20 % takes the verdict of every contrast; an arm's own drift only its own."""
        drifting = _cell()
        drifting.values[:, 0] *= np.linspace(1, 1.2, 12)
        assert [Qualifier.DRIFT in j.decision.qualifiers for j in judge([drifting])] == [True, True]

        drifting = _cell()
        drifting.values[:, 1] *= np.linspace(1, 1.2, 12)
        of_b, of_c = judge([drifting])
        assert (of_b.decision.verdict, of_b.decision.qualifiers[0]) == (Verdict.NOT_RESOLVED, Qualifier.DRIFT)
        assert Qualifier.DRIFT not in of_c.decision.qualifiers

    def test_order_effect_vetoes_the_cell(self) -> None:
        """Starts 8 % slower in the last position take every verdict of the cell."""
        cell = _cell()
        cell.values[POSITIONS_NA == 2] *= 1.08

        assert all(Qualifier.ORDER_EFFECT in j.decision.qualifiers for j in judge([cell]))

    def test_unstable_starts_are_listed_by_round(self) -> None:
        """Two of 12 starts of b at 1.6 x are listed with their rounds and veto b alone."""
        cell = _cell()
        cell.values[1, 1] = np.nan
        cell.values[[4, 9], 1] *= 1.6
        of_b, of_c = judge([cell])

        assert of_b.diagnostics.unstable["b"].starts == (4, 9)
        assert Qualifier.UNSTABLE_STARTS in of_b.decision.qualifiers
        assert Qualifier.UNSTABLE_STARTS not in of_c.decision.qualifiers

    def test_late_starts_that_decide_are_marked(self) -> None:
        """Nine timely rounds decide a family of two; a tenth and eleventh, late, turn it: the verdict says so."""
        cell = _cell(scale=(1, 0.97, 1))
        late_NA = np.zeros((12, 3), dtype=bool)
        late_NA[5:, 1] = True  # five timely rounds are too few for any verdict
        found = judge([CellRounds(cell.name, ARMS, "a", cell.values, POSITIONS_NA, late_NA)])

        assert str(found[0].decision) == "faster (late starts)"
        assert found[0].decision_without_late is not None
        assert found[0].decision_without_late.verdict is Verdict.TOO_FEW_STARTS
        assert found[1].decision_without_late == found[1].decision

    def test_late_flags_of_missing_starts_do_not_matter(self) -> None:
        """A start marked late that never gave a value is only missing."""
        cell = _cell()
        cell.values[0, 1] = np.nan
        late_NA = np.zeros((12, 3), dtype=bool)
        late_NA[0, 1] = True

        assert (
            judge([CellRounds(cell.name, ARMS, "a", cell.values, POSITIONS_NA, late_NA)])[0].decision_without_late
            is None
        )

    def test_rules_and_test_reach_the_comparison(self) -> None:
        """alpha = .01 asks for a 99 % interval; the sign test may be declared."""
        found = judge([_cell()], test=PairedTest.SIGN, rules=Rules(alpha=0.01))[0]

        assert found.comparison is not None
        assert found.comparison.test is PairedTest.SIGN
        assert found.comparison.level is not None
        assert found.comparison.level >= 0.99


class TestDiagnose:
    def test_late_starts_stay_out_of_order_and_drift(self) -> None:
        """A late start's round is not when it ran: 11 rounds remain for order, 11 starts of b for drift, 12 to list."""
        cell = _cell()
        late_NA = np.zeros((12, 3), dtype=bool)
        late_NA[0, 1] = True
        early = CellRounds(cell.name, ARMS, "a", cell.values[1:], POSITIONS_NA[1:])
        found = diagnose(CellRounds(cell.name, ARMS, "a", cell.values, POSITIONS_NA, late_NA))

        assert found.order == diagnose(early).order
        assert found.drift["b"] == diagnose(early).drift["b"]
        assert found.unstable["b"].n == 12

    def test_unknown_positions(self) -> None:
        """Imported results without positions have no order test."""
        cell = _cell()

        assert diagnose(CellRounds(cell.name, ARMS, "a", cell.values)).order is None


@pytest.mark.parametrize(
    ("arms", "reference", "shape", "message"),
    [
        (("a", "b"), "c", (12, 2), "expected distinct arms, one of them it"),
        (("a", "a"), "a", (12, 2), "expected distinct arms"),
        (("a",), "a", (12, 1), "expected distinct arms"),
        (("a", "b"), "a", (12, 3), r"values have shape \(12, 3\)"),
    ],
)
def test_refusals(arms: tuple[str, ...], reference: str, shape: tuple[int, int], message: str) -> None:
    """A reference that is no arm, arms twice or alone, and a table of another width are refused."""
    with pytest.raises(ValueError, match=message):
        CellRounds("cell", arms, reference, np.ones(shape))
