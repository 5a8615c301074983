"""Finished campaigns against each other, cited, and at the gate."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from latency_model import Model
from plans import REPOSITORY
from summarised import summarise
from synthetic import record_all_products

from ep_campaign.cite import LEDGER, cite, read_ledger, supersede
from ep_campaign.compare.judge import Change, compare_sides
from ep_campaign.compare.side import read_side
from ep_campaign.compare.text import as_json, as_markdown
from ep_campaign.completion import complete
from ep_campaign.errors import CampaignError
from ep_campaign.gate import EXIT_INCOMPLETE, EXIT_NOT_RESOLVED, EXIT_REGRESSION, open_gate
from ep_campaign.layout import Results
from ep_campaign.summary import State

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.summary import Summary

QUIET = {"start_sd": 0.004, "round_sd": 0.002}
HOW = {
    "modes": ["host_start"],
    "boundaries": ["dispatch_ready"],
    "isolated_loops": False,
    "iterations": 20,
    "warmups": 2,
}
ONE = {"routes": [{"name": "uniform", "kind": "uniform"}], "dtypes": ["bf16"], "measurement": HOW}
PUBLISHED = REPOSITORY / "config/published"


def sealed(folder: Path, model: Model | None = None, **fields: object) -> Results:
    """A campaign up to its seal."""
    made = summarise(folder, model or Model(**QUIET), **{**ONE, **fields})
    for name in ("RESULTS.md", "report.html", "pr.md"):  # the seal looks at what they are, not at what they say
        (made.results.root / name).write_text(name)
    record_all_products(made.results)
    complete(made.plan, made.results)
    return made.results


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Results]:
    """One campaign, another sitting of it, one in which an arm became 10 % slower, one of too few starts: side by side."""
    root = tmp_path_factory.mktemp("results")
    slower = Model(seed=3, arm_factor={"torch-agrs": 1.1}, **QUIET)
    made = {
        "first": sealed(root / "first", Model(seed=1, **QUIET), name="first"),
        "again": sealed(root / "again", Model(seed=2, **QUIET), name="again"),
        "slower": sealed(root / "slower", slower, name="slower"),
        "few": sealed(root / "few", name="few", ep_sizes=[{"ranks": 2, "rounds": 3, "scored": False}]),
    }
    for name, results in made.items():
        results.root.rename(root / f"{name}-results")
    return {name: Results(root / f"{name}-results") for name in made}


class TestCompare:
    def test_two_sittings_of_one_thing_show_no_change(self, folders: dict[str, Results]) -> None:
        """Nothing is slower or faster; what is recorded as different is the plans' names alone, which is no fact."""
        found = compare_sides(read_side(folders["first"].root), read_side(folders["again"].root))

        assert {pair.change for pair in found.pairs} <= {Change.AGREES, Change.NOT_RESOLVED}
        assert (0, 0) == found.only
        assert () == found.differences.rows

    def test_a_change_is_found_for_its_arm_alone(self, folders: dict[str, Results]) -> None:
        """10 % at 0.4 % between starts: every place of that arm, ratio near 1.1, none of the others."""
        found = compare_sides(read_side(folders["first"].root), read_side(folders["slower"].root))

        changed = {pair.key.arm for pair in found.pairs if pair.change in (Change.SLOWER, Change.FASTER)}
        assert {"torch-agrs"} == changed
        assert [] == [
            pair.ratio for pair in found.pairs if pair.change is Change.SLOWER and not 1.06 < pair.ratio < 1.14
        ]
        contradicted = {item.key.arm for item in found.rankings if item.agreement != "neither resolves it"}
        assert contradicted <= {"torch-agrs"}
        assert "slower slower" not in as_markdown(found)
        assert len(found.pairs) == len(json.loads(json.dumps(as_json(found)))["pairs"])

    def test_few_starts_are_described(self, folders: dict[str, Results]) -> None:
        """Three starts carry neither interval nor verdict, and the row says so."""
        found = compare_sides(read_side(folders["first"].root), read_side(folders["few"].root))

        assert {Change.DESCRIBED} == {pair.change for pair in found.pairs}
        assert {"too few starts: 3, and an interval needs 6"} == {pair.why_not for pair in found.pairs}
        assert {None} == {pair.lo for pair in found.pairs}

    def test_another_machine_is_described(self, folders: dict[str, Results]) -> None:
        """Times of another CPU are no verdict on a build."""
        side = read_side(folders["slower"].root)
        other = replace(side, machine={**side.machine, "cpu_model": '"another"'})
        found = compare_sides(read_side(folders["first"].root), other)

        assert {Change.DESCRIBED} == {pair.change for pair in found.pairs}
        assert all(pair.why_not.startswith("cpu_model differs: ") for pair in found.pairs)
        assert ("cpu_model", side.machine["cpu_model"], '"another"') in found.differences.rows

    def test_a_campaign_is_not_compared_with_itself(self, folders: dict[str, Results]) -> None:
        """Its starts would agree with themselves."""
        side = read_side(folders["first"].root)
        with pytest.raises(CampaignError, match="same_campaign"):
            compare_sides(side, side)

    def test_an_altered_folder_is_refused(self, tmp_path: Path) -> None:
        """The seal is checked before a number is read."""
        results = sealed(tmp_path)
        results.statistics.chmod(0o644)
        results.statistics.write_text(results.statistics.read_text().replace("torch", "tirch", 1))

        with pytest.raises(CampaignError, match="altered_file"):
            read_side(results.root)

    def test_ranks_that_shared_a_gpu_are_described(self, folders: dict[str, Results]) -> None:
        """Their times say nothing, on however many starts."""
        side = read_side(folders["again"].root)
        found = compare_sides(read_side(folders["first"].root), replace(side, shared_sizes=frozenset({2})))

        assert {"ranks shared a GPU: their times say nothing"} == {pair.why_not for pair in found.pairs}

    def test_an_elastic_campaign_is_no_side(self, folders: dict[str, Results], monkeypatch: pytest.MonkeyPatch) -> None:
        """It times requests, not dispatch and combine."""
        elastic = replace(cite(folders["first"]), kind="elastic")
        monkeypatch.setattr("ep_campaign.compare.side.cite", lambda _: elastic)
        with pytest.raises(CampaignError, match="not_comparable"):
            read_side(folders["first"].root)

    def test_published_campaigns_are_described(self) -> None:
        """Six places are the same work; FP8 is not, for one casts before its boundary and the other after it."""
        names = ("b200-us-east-1-2026-09-01-ep16-n16.json", "b200-ap-south-1-2026-08-25.json")
        found = compare_sides(*(read_side(PUBLISHED / name) for name in names))

        assert 6 == len(found.pairs)
        assert {"bf16"} == {pair.key.dtype for pair in found.pairs}
        assert {Change.DESCRIBED} == {pair.change for pair in found.pairs}
        decode_v2 = next(p for p in found.pairs if (p.key.arm, p.key.tokens_per_rank) == ("deepep-v2", 128))
        assert ("483.9", "492.1") == tuple(f"{value:.1f}" for value in decode_v2.medians_us)


class TestCite:
    def test_names_plan_and_seal(self, folders: dict[str, Results]) -> None:
        """A citation is checkable: the seal is the digest of the file that holds all others."""
        found = cite(folders["first"])

        assert ("first", "comparison", "complete", None) == (
            found.campaign,
            found.kind,
            found.state,
            found.superseded_by,
        )
        assert found.plan_digest[:12] in found.text()

    def test_says_what_took_its_place(self, folders: dict[str, Results]) -> None:
        """The ledger lies beside the folders; the last entry counts; circles and itself are refused."""
        supersede(folders["few"], folders["first"], "three rounds decide nothing")
        try:
            assert "SUPERSEDED by first (" in cite(folders["few"]).text()
            assert "first: three rounds decide nothing" == read_side(folders["few"].root).identity["superseded by"]
            shown = subprocess.run(
                [sys.executable, "workflow/scripts/show.py", "--results", str(folders["few"].root)],
                cwd=REPOSITORY,
                capture_output=True,
                text=True,
                check=True,
                timeout=60,
            )
            assert shown.stdout.endswith("SUPERSEDED by first: three rounds decide nothing\n")
            supersede(folders["few"], folders["again"], "the first ran beside another job")
            assert ["again"] == [entry.by_campaign for entry in read_ledger(folders["few"].root.parent).entries]
            with pytest.raises(CampaignError, match="superseded_in_a_circle"):
                supersede(folders["again"], folders["few"], "no")
            with pytest.raises(CampaignError, match="supersedes_itself"):
                supersede(folders["again"], folders["again"], "no")
            with pytest.raises(CampaignError, match="no_reason"):
                supersede(folders["again"], folders["first"], " ")
        finally:
            (folders["few"].root.parent / LEDGER).unlink()

    def test_one_ledger_serves_one_folder(self, folders: dict[str, Results], tmp_path: Path) -> None:
        """What lies elsewhere cannot be found from here."""
        with pytest.raises(CampaignError, match="ledger_elsewhere"):
            supersede(folders["first"], sealed(tmp_path), "elsewhere")

    def test_a_broken_ledger_is_refused(self, folders: dict[str, Results]) -> None:
        """A citation that may be superseded is not given as if it were not."""
        path = folders["first"].root.parent / LEDGER
        path.write_text('{"schema": "ep-campaign/superseded/1", "entries": [{}]}')
        try:
            with pytest.raises(CampaignError, match="bad_ledger"):
                cite(folders["first"])
        finally:
            path.unlink()


class TestGate:
    @pytest.fixture(scope="class")
    @classmethod
    def summaries(cls, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Summary]:
        """Arms alike, one 10 % slower, and so much noise that nothing is shown."""
        root = tmp_path_factory.mktemp("gate")
        models = {
            "alike": Model(seed=6, **QUIET),
            "slower": Model(arm_factor={"torch-agrs": 1.1}, **QUIET),
            "noisy": Model(start_sd=0.2),
        }
        return {name: summarise(root / name, model, **ONE).summary for name, model in models.items()}

    def test_opens_only_for_what_is_shown(self, summaries: dict[str, Summary]) -> None:
        """0 needs every interval below 1.05; noise that shows nothing is 11, a slower arm 10."""
        statuses = {name: open_gate(summary, threshold=0.05).exit_status for name, summary in summaries.items()}

        assert {"alike": 0, "slower": EXIT_REGRESSION, "noisy": EXIT_NOT_RESOLVED} == statuses

    def test_a_threshold_above_the_slowdown_lets_it_pass(self, summaries: dict[str, Summary]) -> None:
        """10 % against 20 %."""
        assert 0 == open_gate(summaries["slower"], threshold=0.2).exit_status

    def test_may_look_at_some_arms(self, summaries: dict[str, Summary]) -> None:
        """The other arm is no worse."""
        assert 0 == open_gate(summaries["slower"], threshold=0.05, arms=["torch-a2a-cached"]).exit_status

    def test_an_unfinished_campaign_does_not_pass(self, summaries: dict[str, Summary]) -> None:
        """Clean rows of a PARTIAL campaign are 12; a regression in it is still 10."""
        partial = {
            name: summary.model_copy(update={"head": summary.head.model_copy(update={"state": State.PARTIAL})})
            for name, summary in summaries.items()
        }

        assert EXIT_INCOMPLETE == open_gate(partial["alike"], threshold=0.05).exit_status
        assert EXIT_REGRESSION == open_gate(partial["slower"], threshold=0.05).exit_status

    @pytest.mark.parametrize(
        ("options", "code"),
        [
            ({"threshold": -0.1}, "bad_threshold"),
            ({"threshold": float("nan")}, "bad_threshold"),
            ({"arms": ["nobody"]}, "unknown_name"),
            ({"loops": ["dispatch"]}, "unknown_name"),
            ({"profiles": ["prefill"]}, "unknown_name"),
        ],
    )
    def test_refuses_what_it_cannot_answer(
        self, summaries: dict[str, Summary], options: dict[str, object], code: str
    ) -> None:
        """A typing error must not open a gate."""
        with pytest.raises(CampaignError, match=code):
            open_gate(summaries["alike"], **options)  # type: ignore[arg-type]

    def test_needs_a_family(self, tmp_path: Path) -> None:
        """What judges nothing passes nothing."""
        few = summarise(tmp_path, **{**ONE, "ep_sizes": [{"ranks": 2, "rounds": 2, "scored": False}]})
        with pytest.raises(CampaignError, match="nothing_to_gate"):
            open_gate(few.summary)

    def test_the_command_ends_with_its_status(self, folders: dict[str, Results], tmp_path: Path) -> None:
        """As a CI job sees it: status, and the answer as JSON."""
        answer = tmp_path / "gate.json"
        command = [sys.executable, "workflow/scripts/gate.py", "--results", str(folders["slower"].root)]
        done = subprocess.run(
            [*command, "--threshold", "0.05", "--json", str(answer)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

        assert EXIT_REGRESSION == done.returncode, done.stderr
        assert "REGRESSION" in done.stdout
        assert EXIT_REGRESSION == json.loads(answer.read_text())["exit_status"]
