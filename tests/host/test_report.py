"""The report as a whole: what it says of a campaign, in which order, in all three forms, reproducibly and without a gap."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from reports import Page, markdown, report, section
from summarised import Campaign, broken, ended, six_arms, summarise
from synthetic import WORKER_DIGEST, Attempt

from ep_campaign.numbers import significant
from ep_campaign.report.compose import SECTIONS, compose
from ep_campaign.report.levels import heavy_tails
from ep_campaign.report.source import read_source
from ep_campaign.verdict_table import verdict_table
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan

ONE_CELL: dict[str, Any] = {"routes": [{"name": "uniform", "kind": "uniform"}], "dtypes": ["bf16"]}
NAMES = ("RESULTS.md", "report.html", "pr.md")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, dict[str, str]]:
    """A complete campaign with a slower arm, and its report."""
    campaign = summarise(tmp_path_factory.mktemp("full"))
    return campaign, report(campaign)


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, dict[str, str]]:
    """A campaign with one of every misfortune, and its report."""
    campaign = summarise(tmp_path_factory.mktemp("partial"), attempts=broken, dtypes=["bf16"])
    return campaign, report(campaign)


class TestOrder:
    def test_begins_with_the_verdict_and_ends_with_how_to_repeat_it(
        self, full: tuple[Campaign, dict[str, str]]
    ) -> None:
        """A reader finds the answer first."""
        titles = re.findall(r"^## (.*)$", full[1]["RESULTS.md"], re.MULTILINE)
        assert ["Verdict", "How to read it", "Figures", "Levels"] == titles[:4]
        assert ["Limits", "Notes", "Reproduce it"] == titles[-3:]
        # All but what only a sweep has, and what only a plan that asks for kernel times has.
        assert len(SECTIONS) - 2 == len(titles) == len(set(titles))

    def test_puts_every_section_into_every_form_or_names_it_as_left_out(
        self, full: tuple[Campaign, dict[str, str]]
    ) -> None:
        """Nothing is silently absent."""
        campaign, texts = full
        for item in compose(read_source(campaign.results)).sections:
            assert f'<section id="{item.anchor}"' in texts["report.html"]
            assert item.title in texts["pr.md"]


class TestVerdict:
    def test_says_in_words_what_was_found(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """The sentence of a table row follows from its contrast: percentages of ratio and interval, one decimal."""
        campaign, texts = full
        contrast = next(item for item in campaign.summary.family if item.arm == "torch-agrs")
        assert contrast.ratio is not None
        assert contrast.interval is not None
        numbers = [f"{100 * (value - 1):.1f}" for value in (contrast.ratio, contrast.interval.lo, contrast.interval.hi)]
        sentence = f"torch-agrs is {numbers[0]} % slower than torch-a2a [{numbers[1]}, {numbers[2]}]"
        assert sentence in section(texts["RESULTS.md"], "Verdict")
        assert sentence in texts["report.html"].replace("\xa0", " ")
        assert sentence in texts["pr.md"]

    def test_answers_for_each_arm_in_one_line(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """How often, by how much, and against what."""
        verdict = section(full[1]["RESULTS.md"], "Verdict")
        assert re.search(
            r"- \*\*torch-agrs\*\*: slower than torch-a2a in 4 of 4 cells \(by 1\d\.\d % to 1\d\.\d %\)\.", verdict
        )
        assert "- **torch-a2a-cached**: not resolved in 4 of 4 cells" in verdict

    def test_of_a_campaign_without_family_claims_nothing(self, tmp_path: Path) -> None:
        """Two rounds: values, the sentence, and not one spread, interval or p."""
        campaign = summarise(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 2, "scored": False}], **ONE_CELL)
        text = markdown(campaign)
        verdict = section(text, "Verdict")
        assert "The campaign declares no family: every ratio is described, none is judged." in verdict
        assert "Every row of this table: too few starts (n = 2: values only; a median and a range need 3)." in verdict
        assert 2 == verdict.count("| too few starts |")
        level = next(item for item in campaign.summary.levels if item.primary)
        row = next(line for line in section(text, "Levels").splitlines() if "| torch-a2a |" in line)
        values = ", ".join(f"{value:.1f}" for value in level.values_us)
        assert f"| uniform/bf16 | torch-a2a | 2 of 2 | values {values} | - | - | - | - | - | - | - | - |" == row
        assert "| ep2/decode/uniform/bf16 | torch-a2a | 2 | - | too few starts | none | not testable |" in section(
            text, "Diagnostics and vetoes"
        )


class TestPartial:
    def test_is_stamped_in_every_form(self, partial: tuple[Campaign, dict[str, str]]) -> None:
        """The stamp stands before the first section."""
        for name, text in partial[1].items():
            assert "PARTIAL" in text[: text.index("Verdict</h2>" if name.endswith("html") else "# Verdict")]

    def test_lists_excluded_rounds_with_their_reasons(self, partial: tuple[Campaign, dict[str, str]]) -> None:
        """Round 3: torch-agrs crashed; 9: torch-a2a-cached was wrong; 10: it was never tried."""
        excluded = section(partial[1]["RESULTS.md"], "Exclusions")
        # It crashed after its first series, so that one of the two cells has its record.
        row = r"\| torch-agrs \| round 3 \| ep2/decode/\w+/bf16 \| torch-agrs \| crashed \| `rank_died` \| `rank 1: planted` \|"
        assert re.search(row, excluded)
        assert re.search(
            r"\| torch-a2a-cached \| round 9 \| all cells \| torch-a2a-cached \| incorrect \| `wrong_value`", excluded
        )
        assert "| torch-a2a-cached | round 10 | all cells | torch-a2a-cached | none | `no_attempt` |" in excluded
        assert "| ep2/decode/round-07/torch-a2a | 2 |" in excluded

    def test_counts_failed_launches(self, partial: tuple[Campaign, dict[str, str]]) -> None:
        """torch-agrs: 2 of 13 attempts; torch-a2a: 1 of 13; torch-a2a-cached: 1 of 11, one start having none."""
        launches = section(partial[1]["RESULTS.md"], "Failed launches")
        assert "| torch-agrs | 2 of 13 | 11 of 12 | 0 |" in launches
        assert "| torch-a2a | 1 of 13 | 12 of 12 | 0 |" in launches
        assert "| torch-a2a-cached | 1 of 11 | 10 of 12 | 0 |" in launches

    def test_counts_custody(self, partial: tuple[Campaign, dict[str, str]]) -> None:
        """37 attempts, two starts tried twice, one late; checks: 33 starts x 2 cells x 2 boundaries x 2 = 264 and their like."""
        campaign, texts = partial
        custody = section(texts["RESULTS.md"], "Custody")
        assert "Attempts launched: 37; interrupted, their controller having died: 0." in custody
        assert "Starts with more than one attempt: 2. Late starts: 1." in custody
        # Measured cells and boundaries: dispatch_ready and gemm_ready of two routes, in 33 whole starts; the crashed and the
        # incorrect start that count add what they finished: one series of one cell, and nothing.
        evidence = read_source(campaign.results).evidence
        assert 2 * (33 * 4 + 1) == evidence.num_checks_passed
        assert 4 == evidence.num_checks_failed

    def test_gives_verdicts_without_late_starts(self, partial: tuple[Campaign, dict[str, str]]) -> None:
        """Beside the verdict, in its reservation."""
        assert "without late starts: the same" in section(partial[1]["RESULTS.md"], "Verdict")

    def test_tells_failures_before_verdicts(self, partial: tuple[Campaign, dict[str, str]]) -> None:
        """One start of 12 crashed; the other 11 rounds still decide."""
        verdict = section(partial[1]["RESULTS.md"], "Verdict")
        assert (
            "- **torch-agrs**: CRASHED in 1 of 12 starts (rank_died); slower than torch-a2a in 2 of 2 cells" in verdict
        )

    def test_calls_an_arm_that_always_failed_nothing_to_compare(self, tmp_path: Path) -> None:
        """Not too few starts: more rounds would not help it."""
        wrong = Attempt(status=Status.INCORRECT)
        text = markdown(
            summarise(
                tmp_path,
                attempts=lambda plan: {start.id: (wrong,) for start in plan.starts if start.arm == "torch-agrs"},
                **ONE_CELL,
            )
        )
        answer = "- **torch-agrs**: INCORRECT in 12 of 12 starts (wrong_value); nothing to compare in 1 of 1 cell."
        assert answer in section(text, "Verdict")

    def test_says_that_a_budget_ended_it(self, tmp_path: Path) -> None:
        """Not PARTIAL: a declared rule closed the rest."""
        campaign = summarise(tmp_path, attempts=ended, budget_hours=0.5, **ONE_CELL)
        text = markdown(campaign)
        assert "declare a larger budget_hours under a new campaign name" in section(text, "Exclusions")
        assert "10 of 12 starts ok (2 not run)" in verdict_table(campaign.summary, campaign.results.root)
        assert "**ENDED BY ITS BUDGET**" in text
        costs = section(text, "Time and cost")
        assert "Of a budget of 0.5 h " in costs
        assert "Rounds that it closed: EP 2: rounds 11-12. To measure more, declare a larger budget" in costs


class TestHostility:
    def test_of_a_failed_arms_account_breaks_nothing(self, tmp_path: Path) -> None:
        """What a crashed rank says of itself is evidence: shown as it is, in a code span, and nothing more."""
        said = "<script>alert(1)</script> | a | ```\n# b \x1b[31m@all"
        crash = (Attempt(status=Status.CRASHED, reason_code=said, after_series=0),)

        def attempts(plan: Plan) -> dict[str, tuple[Attempt, ...]]:
            return {start.id: crash for start in plan.starts if (start.round, start.arm) == (1, "torch-agrs")}

        texts = report(
            summarise(tmp_path, attempts=attempts, ep_sizes=[{"ranks": 2, "rounds": 6, "scored": False}], **ONE_CELL)
        )
        page = Page(texts["report.html"])
        assert not page.open
        assert not page.all("script")
        assert "<script>alert(1)</script> | a | ``` # b @all" in page.shown
        launches = section(texts["RESULTS.md"], "Failed launches")
        row = next(line for line in launches.splitlines() if line.startswith("| torch-agrs | crashed | <code>"))
        assert 6 == len(re.findall(r"(?<!\\)\|", row))
        assert "<script>" not in texts["RESULTS.md"]
        assert "<script>" not in texts["pr.md"]


class TestEvidence:
    def test_controls_have_the_published_rows(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """A reviewer of a published comparison finds each control again."""
        controls = section(full[1]["RESULTS.md"], "Controls")
        rows = re.findall(r"^\| ([A-Z][\w ,-]+) \|", controls, re.MULTILINE)
        expected = (
            "Input,Routing,Model shape,Operations,Timing boundary,Rank reduction,SM count,Warm-up,Measurement,Replication,"
            "Order,Hardware,Runtime,Correctness"
        )
        assert expected.split(",") == rows

    def test_provenance_has_every_field_with_a_value_or_a_reason(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """A field that the platform lacks says why."""
        provenance = section(full[1]["RESULTS.md"], "Provenance")
        assert "| torch_version | all | `2.13.0` |" in provenance
        assert "| gpu_model | all | `not applicable: synthetic` |" in provenance
        assert f"Worker digest: `{WORKER_DIGEST}`." in provenance
        assert "| EP 2, decode | buffer_bytes | torch-a2a, torch-a2a-cached, torch-agrs | `4,096` |" in provenance

    def test_provenance_shows_what_differs(self, tmp_path: Path) -> None:
        """A number as a range over ranks and starts, a variable with its declared reason, a dirty checkout by its name."""

        def attempts(plan: Plan) -> dict[str, tuple[Attempt, ...]]:
            def seen(number: int) -> Attempt:
                load = {"before": number, "after": number + 0.5}
                return Attempt(provenance={"peak_rss_bytes": 1000 * number, "load_average": load})

            return {start.id: (seen(start.round),) for start in plan.starts}

        campaign = summarise(tmp_path, attempts=attempts, arms=six_arms(), **ONE_CELL)
        provenance = section(markdown(campaign), "Provenance")
        assert "| peak_rss_bytes | all | `1,000 to 12,000 over ranks and starts` |" in provenance
        assert "| load_average | all | `after 1.5 to 12.5; before 1 to 12 over ranks and starts` |" in provenance
        assert "| EP_BUILD | torch-a2a | `(not set)` | - |" in provenance
        assert "| EP_BUILD | torch-a2a-under-test | `1` | the build under test |" in provenance

    def test_says_that_workers_are_mixed(self, tmp_path: Path) -> None:
        """Two accepted workers, with the reason of the second."""
        other = "6" * 64

        def attempts(plan: Plan) -> dict[str, tuple[Attempt, ...]]:
            return {start.id: (Attempt(worker_digest=other),) for start in plan.starts if start.round == 12}

        campaign = summarise(tmp_path, attempts=attempts, workers=(WORKER_DIGEST, other), **ONE_CELL)
        provenance = section(markdown(campaign), "Provenance")
        assert f"Worker digest: `{other}`, accepted later because: `planted`." in provenance
        assert "a mixed campaign" in provenance

    def test_unsupported_modes_are_rows_with_a_source(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """Arms, cells and reason; never a blank."""
        row = (
            "| torch-a2a, torch-a2a-cached, torch-agrs | graph | all | all cells | a CPU has no device graph to capture | cpu_mode "
            "| this project |"
        )
        assert row in section(full[1]["RESULTS.md"], "Not supported")

    def test_limits_follow_from_the_plan(self, full: tuple[Campaign, dict[str, str]], tmp_path: Path) -> None:
        """One machine, CPUs, EP 2; and one kind of route only where there is only one."""
        limits = section(full[1]["RESULTS.md"], "Limits")
        assert "EP sizes measured: 2." in limits
        assert "One machine, synthetic:" in limits
        assert "Ranks computed on CPUs" in limits
        assert "One kind of route" not in limits
        assert "One kind of route, uniform" in section(markdown(summarise(tmp_path, **ONE_CELL)), "Limits")
        assert "shared each GPU" not in limits

    def test_the_overlapped_mode_is_claimed_only_where_it_was_measured(self, tmp_path: Path) -> None:
        """A campaign that asks for it on CPUs is refused it, and its report says nothing of it."""
        asked = {"modes": ["host_start", "overlapped"], "isolated_loops": False, "iterations": 20, "warmups": 2}
        limits = section(markdown(summarise(tmp_path, **{**ONE_CELL, "measurement": asked})), "Limits")

        assert "no overlap with a model's own compute is in it." in limits

    def test_times_of_ranks_that_shared_a_gpu_say_nothing(self, tmp_path: Path) -> None:
        """A size whose ranks took turns on a GPU is about correctness alone, and its report says so."""
        sizes = [{"ranks": 2, "rounds": 2, "ranks_per_device": 2, "scored": False}]
        shared = summarise(tmp_path, device="cuda", ep_sizes=sizes, **ONE_CELL)

        limits = section(markdown(shared), "Limits")
        assert "At EP 2, 2 ranks shared each GPU and took turns on it" in limits

    def test_arms_over_ep_sizes_stand_side_by_side(self, tmp_path: Path) -> None:
        """A median from three starts on; below that the values, and so in the phases. 4 x 8 tokens / value = rate."""
        sizes = [{"ranks": 2, "rounds": 3, "scored": False}, {"ranks": 4, "rounds": 2, "scored": False}]
        campaign = summarise(tmp_path, ep_sizes=sizes, **ONE_CELL)
        whole = markdown(campaign)
        text = section(whole, "EP sizes")
        assert re.search(r"\| decode \| uniform \| bf16 \| torch-a2a \| 2 \| 3 \| [\d.]+ \| - \| [\d,]+ \|", text)
        level = next(item for item in campaign.summary.levels if item.primary and item.ep_size == 4)
        cell = next(item for item in campaign.summary.head.cells if item.id == level.cell)
        values = ", ".join(f"{value:.1f}" for value in level.values_us)
        rates = ", ".join(significant(cell.num_input_tokens / value * 1e6) for value in level.values_us)
        assert f"| decode | uniform | bf16 | torch-a2a | 4 | 2 | values {values} | - | values {rates} |" in text
        dispatch = ", ".join(f"{value:.1f}" for value in level.phase_values_us["dispatch"])
        assert 2 == len(level.phase_values_us["dispatch"])
        assert re.search(
            rf"uniform/bf16 \| dispatch_ready \| host_start \| torch-a2a \| [^|]* \| values {dispatch} \|",
            section(whole, "Phases"),
        )

    def test_a_heavy_tail_is_a_caution(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """A p90 of twice the median is none, a nanosecond more is one."""
        first, second = [level for level in full[0].summary.levels if level.primary][:2]
        assert first.median_us is not None
        twice = first.model_copy(update={"p90_us": 2 * first.median_us})
        more = first.model_copy(update={"p90_us": 2 * first.median_us + 0.001})
        assert "" == heavy_tails([twice, second])
        assert f"more than 2 x the median with {first.arm} in {first.cell}. " in heavy_tails([more, second])

    def test_chained_is_explained_where_it_was_measured(
        self, full: tuple[Campaign, dict[str, str]], tmp_path: Path
    ) -> None:
        """A reader meets chained latencies above host_start and asks."""
        assert "Chained may exceed host_start" in section(full[1]["RESULTS.md"], "Boundaries and modes")
        sizes = [{"ranks": 2, "rounds": 1, "scored": False}]
        other = summarise(tmp_path, ep_sizes=sizes, measurement={"modes": ["host_start"], "iterations": 20}, **ONE_CELL)
        assert "Chained" not in section(markdown(other), "Boundaries and modes")
