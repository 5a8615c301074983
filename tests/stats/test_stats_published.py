"""The published summaries: read strictly, reproduced to the last digit, judged by exact statistics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ep_campaign.errors import CampaignError
from ep_campaign.published import (
    SideBySide,
    logical_payload_bytes,
    mismatches,
    recompute_arm,
    recompute_contrast,
    side_by_side,
)
from ep_campaign.published_schema import PublishedCampaign, comparison_key, load_published, parse_published
from ep_campaign.stats.published_compat import (
    BASELINES,
    PublishedArm,
    PublishedDtype,
    PublishedProfile,
    arm_seed,
    bootstrap_median_interval,
    direction_supported,
    order_position,
    paired_improvements_percent,
    paired_seed,
    percentile,
)

if TYPE_CHECKING:
    from collections.abc import Callable

FOLDER = Path(__file__).parents[2] / "config" / "published"
N16 = FOLDER / "b200-us-east-1-2026-09-01-ep16-n16.json"
N3 = FOLDER / "b200-ap-south-1-2026-08-25.json"


@pytest.fixture(scope="module")
def n16() -> PublishedCampaign:
    return load_published(N16)


@pytest.fixture(scope="module")
def n16_rows(n16: PublishedCampaign) -> tuple[SideBySide, ...]:
    return side_by_side(n16)


class TestSeeds:
    def test_arms(self) -> None:
        """20260824 + 1000 x profile + EP size + letters of the dtype + arm: prefill, 16, fp8, V2 = ... + 1000 + 16 + 3 + 2."""
        found = arm_seed(PublishedProfile.PREFILL, 16, PublishedDtype.FP8, PublishedArm.DEEPEP_V2)

        assert found == 20_260_824 + 1000 + 16 + 3 + 2

    def test_collision(self) -> None:
        """As published, the fp8 seed of an arm is the bf16 seed of the arm before it."""
        fp8 = arm_seed(PublishedProfile.DECODE, 16, PublishedDtype.FP8, PublishedArm.DEEPEP_V1)

        assert fp8 == arm_seed(PublishedProfile.DECODE, 16, PublishedDtype.BF16, PublishedArm.UCCL)

    def test_pairs(self) -> None:
        """20260900 + 1000 x profile + EP size + baseline."""
        assert paired_seed(PublishedProfile.PREFILL, 32, PublishedArm.DEEPEP_V1) == 20_260_900 + 1000 + 32 + 1


class TestStatistics:
    def test_percentile(self) -> None:
        """1, 2, 4 at 75 %: halfway between 2 and 4; the ends are the extremes."""
        assert [percentile([1, 2, 4], q) for q in (0, 0.75, 1)] == [1, 3, 4]

    def test_improvement(self) -> None:
        """Latency 8 against 10 is 20 % better, throughput 12 against 10 as well."""
        assert paired_improvements_percent([8.0], [10.0], higher_is_better=False) == (20.0,)
        assert paired_improvements_percent([12.0], [10.0], higher_is_better=True) == (20.0,)

    def test_three_starts_give_their_extremes(self) -> None:
        """P*(median = minimum) = 7/27 > .025, so at 3 starts the interval is [minimum, maximum] for any seed."""
        assert bootstrap_median_interval([3.0, 1.0, 2.0], seed=1, resamples=2000) == (1.0, 3.0)

    @pytest.mark.parametrize(
        ("cvs", "interval", "expected"),
        [
            ((1, 5), (0.1, 2), True),
            ((1, 5.01), (0.1, 2), False),
            ((1, 1), (-1, 2), False),
            ((1, 1), (-2, -1), True),
            ((1, 1), (0.0, 2), False),
        ],
    )
    def test_direction(self, cvs: tuple[float, float], interval: tuple[float, float], expected: bool) -> None:
        """Both CVs within 5 % and an interval that excludes 0."""
        assert direction_supported(cvs, interval, 5.0) is expected

    def test_order(self) -> None:
        """Three orders in turn: V2 comes third, first, second in starts 1, 2, 3, and third again in start 4."""
        assert [order_position(start, PublishedArm.DEEPEP_V2) for start in (1, 2, 3, 4)] == [2, 0, 1, 2]


@pytest.mark.parametrize(
    ("tokens", "dtype", "expected"),
    # 8 selections x tokens x (7168 + 56 x 4 + 14336 = 21,728 or 28,672) bytes.
    [(128, "fp8", 22_249_472), (128, "bf16", 29_360_128), (4096, "fp8", 711_983_104), (4096, "bf16", 939_524_096)],
)
def test_logical_payload(tokens: int, dtype: str, expected: int) -> None:
    """The published byte numerators."""
    assert logical_payload_bytes(tokens, 8, 7168, PublishedDtype(dtype)) == expected


class TestReproduction:
    @pytest.mark.parametrize("path", [N16, N3], ids=["n16", "n3"])
    def test_every_stated_number(self, path: Path) -> None:
        """Every number that a file states follows from its own starts (relative 1e-12)."""
        assert mismatches(load_published(path)) == ()

    def test_to_the_last_digit(self, n16_rows: tuple[SideBySide, ...], n16: PublishedCampaign) -> None:
        """Intervals, medians, CVs and improvements of the 16-start file are equal, not only close, in every cell."""
        cells = {cell.name: cell for cell in n16.cells}
        compared = 0
        for row in n16_rows:
            stated = cells[row.cell].arms[row.arm]
            assert row.arm_numbers.bootstrap_95_percent_ci_primary_value == stated.bootstrap_95_percent_ci_primary_value
            assert row.arm_numbers.run_to_run_cv_percent == stated.run_to_run_cv_percent
            assert row.arm_numbers.median_latency_ms == stated.median_latency_ms
            if row.published is not None:
                pair = cells[row.cell].comparisons[comparison_key(row.reference)]
                assert row.published.bootstrap_95_percent_ci_improvement_percent == (
                    pair.bootstrap_95_percent_ci_improvement_percent
                )
                assert row.published.median_paired_improvement_percent == pair.median_paired_improvement_percent
                assert row.published.direction_supported is pair.direction_supported is True
                compared += 1
        assert (len(n16_rows), compared) == (8, 4)

    def test_to_the_last_digit_for_gigabytes(self) -> None:
        """The 3-start file ranks prefill by GB/s; its interval keeps a digit that only the published form gives."""
        campaign = load_published(N3)
        cell = next(cell for cell in campaign.cells if cell.name == "ep32-prefill-affine-fp8")
        arm = PublishedArm.DEEPEP_V2
        found = recompute_arm(campaign, cell, arm)

        # The minimum is 105.1060154003731; interpolating between two copies of it gives ...0308, as published.
        assert found.bootstrap_95_percent_ci_primary_value[0] == 105.10601540037308
        assert found.bootstrap_95_percent_ci_primary_value == cell.arms[arm].bootstrap_95_percent_ci_primary_value
        for baseline in BASELINES:
            stated = cell.comparisons[comparison_key(baseline)]
            contrast = recompute_contrast(campaign, cell, baseline)
            assert contrast.bootstrap_95_percent_ci_improvement_percent == (
                stated.bootstrap_95_percent_ci_improvement_percent
            )

    def test_an_edited_number_is_named(self) -> None:
        """A CV and a start that were changed by hand come back as mismatches that name cell, arm and field."""
        document = json.loads(N3.read_text())
        document["bootstrap_samples_dimensionless"] = 500  # 3 starts give their extremes at any number
        document["cells"] = [cell for cell in document["cells"] if cell["world_size_ranks"] == 16]
        document["configuration"]["world_sizes_ranks"] = [16]
        document["cells"][0]["arms"]["uccl"]["run_to_run_cv_percent"] = 1.0
        found = mismatches(parse_published(json.dumps(document), "edited.json"))

        assert [(m.where, m.field, m.stated) for m in found] == [
            ("ep16-decode-affine-fp8: uccl", "run_to_run_cv_percent", 1.0)
        ]
        assert found[0].recomputed == pytest.approx(1.8911904515714288)


class TestVerdicts:
    def test_sixteen_starts(self, n16_rows: tuple[SideBySide, ...]) -> None:
        """All 16 rounds of every contrast agree: p = 2^-15, 8 contrasts, adjusted 2^-12; V2 leads UCCL in every cell."""
        assert {row.judgement.adjusted_p for row in n16_rows} == {2.0**-12}
        verdicts = {(row.cell, row.arm): str(row.judgement.decision) for row in n16_rows}
        v1, v2 = PublishedArm.DEEPEP_V1, PublishedArm.DEEPEP_V2
        assert [verdicts[cell, v2] for cell in sorted({c for c, _ in verdicts})] == ["faster"] * 4
        assert verdicts["ep16-decode-affine-fp8", v1] == "slower"
        assert verdicts["ep16-prefill-affine-fp8", v1] == "faster"
        assert n16_rows[0].coverage_note == "true coverage about 94.6%"

    def test_effect_agrees_with_the_published_improvement(self, n16_rows: tuple[SideBySide, ...]) -> None:
        """1 - ratio is the paired improvement within a point, except in the bimodal bf16 decode cell (16.3 % v 18.8 %)."""
        for row in n16_rows:
            if row.published is not None and row.cell != "ep16-decode-affine-bf16":
                assert row.judgement.comparison is not None
                improvement = 100 * (1 - row.judgement.comparison.ratio)
                assert improvement == pytest.approx(row.published.median_paired_improvement_percent, abs=1.0)

    def test_three_starts_decide_nothing(self) -> None:
        """The 3-start file calls all 16 directions supported; 16 contrasts need 10 starts, so none is a verdict."""
        campaign = load_published(N3)
        rows = side_by_side(campaign, reference=PublishedArm.DEEPEP_V2)

        assert {str(row.judgement.decision) for row in rows} == {"too few starts"}
        assert [row.published.direction_supported for row in rows if row.published] == [True] * 16
        assert {row.coverage_note for row in rows} == {"true coverage 75.0%"}


def _edit_cell(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    return lambda document: change(document["cells"][0])


class TestRefusals:
    @pytest.mark.parametrize(
        ("edit", "code", "where"),
        [
            (lambda d: d.pop("images"), "published_malformed", "file.json: images"),
            (lambda d: d.update(surprise=1), "published_malformed", "file.json: surprise"),
            (lambda d: d.update(schema_version_dimensionless=3), "published_malformed", "schema_version_dimensionless"),
            (lambda d: d.update(status="FAIL"), "published_malformed", "file.json: status"),
            (
                _edit_cell(lambda c: c["arms"]["uccl"]["per_start_median_latency_ms"].__setitem__(0, -1.0)),
                "published_malformed",
                "cells.0.arms.uccl.per_start_median_latency_ms.0",
            ),
            (
                _edit_cell(lambda c: c["arms"]["uccl"]["per_start_median_latency_ms"].__setitem__(0, "0.5")),
                "published_malformed",
                "cells.0.arms.uccl.per_start_median_latency_ms.0",
            ),
            (lambda d: d["cells"].pop(), "published_matrix", "file.json: cells"),
            (lambda d: d["cells"].append(d["cells"][0]), "published_matrix", "file.json: cells"),
            (_edit_cell(lambda c: c["arms"].pop("uccl")), "published_arms", "ep16-decode-affine-fp8"),
            (_edit_cell(lambda c: c["comparisons"].clear()), "published_arms", "ep16-decode-affine-fp8"),
            (_edit_cell(lambda c: c.update(tokens_per_rank=64)), "published_tokens", "ep16-decode-affine-fp8"),
            (
                _edit_cell(lambda c: c.update(primary_metric="effective logical gigabytes per second per rank")),
                "published_metric",
                "ep16-decode-affine-fp8",
            ),
            (
                _edit_cell(lambda c: c["arms"]["uccl"]["per_start_primary_values"].pop()),
                "published_starts",
                "ep16-decode-affine-fp8: uccl",
            ),
            (
                _edit_cell(lambda c: c["arms"]["uccl"]["run_indices_dimensionless"].reverse()),
                "published_starts",
                "ep16-decode-affine-fp8: uccl",
            ),
            (
                _edit_cell(lambda c: c["comparisons"].popitem()[1]["paired_improvement_percent_per_start"].pop()),
                "published_arms",
                "ep16-decode-affine-fp8",
            ),
            (
                _edit_cell(
                    lambda c: c["comparisons"]["deepep-v2-gin-gda_vs_uccl"][
                        "paired_improvement_percent_per_start"
                    ].pop()
                ),
                "published_starts",
                "deepep-v2-gin-gda_vs_uccl",
            ),
        ],
    )
    def test_reason_codes(self, edit: Callable[[dict[str, Any]], object], code: str, where: str) -> None:
        """Each fault is refused with its code and the place it is in."""
        document = json.loads(N3.read_text())
        edit(document)

        with pytest.raises(CampaignError) as caught:
            parse_published(json.dumps(document), "file.json")

        assert code in caught.value.codes
        assert any(refusal.code == code and where in refusal.where for refusal in caught.value.refusals)

    def test_all_faults_are_collected(self) -> None:
        """Three faults of a file are three refusals, so that it is mended once."""
        document = json.loads(N3.read_text())
        document["cells"][0]["tokens_per_rank"] = 64
        document["cells"][1]["arms"]["uccl"]["starts"] = 4
        document["cells"].pop()

        with pytest.raises(CampaignError) as caught:
            parse_published(json.dumps(document), "file.json")

        assert sorted(caught.value.codes) == ["published_matrix", "published_starts", "published_tokens"]

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"status": NaN}'])
    def test_not_a_summary(self, text: str) -> None:
        """Text that is no JSON object is refused, never half read."""
        with pytest.raises(CampaignError) as caught:
            parse_published(text, "file.json")

        assert set(caught.value.codes) == {"published_malformed"}

    def test_missing_file(self, tmp_path: Path) -> None:
        """A path that is not there is refused with the system's reason."""
        with pytest.raises(CampaignError, match=r"No such file or directory.*published_unreadable"):
            load_published(tmp_path / "none.json")
