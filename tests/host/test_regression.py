"""Campaigns of builds: what their files must say, what their family judges, what their report answers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from latency_model import Model
from plans import REPOSITORY, SHAPES, make_plan
from reports import markdown, section
from rows import make_rows
from summarised import summarise
from synthetic import Attempt, make_results

from ep_campaign.analysis.contrasts import make_contrasts
from ep_campaign.analysis.matrix import build_matrix
from ep_campaign.errors import CampaignError
from ep_campaign.expand import load_plan
from ep_campaign.figures import FigureId, Kind
from ep_campaign.figures.names import figure_names
from ep_campaign.figures.style import style
from ep_campaign.figures.tokens import draw_tokens
from ep_campaign.published_series import read_series
from ep_campaign.stats.verdict import Verdict
from ep_campaign.summary import Role
from ep_campaign.validate import validate
from ep_campaign.verdict_table import verdict_table

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan
    from ep_campaign.summary import Contrast

ROUNDS = 12
BUILDS = ("before", "after", "patched")
TOKENS = (32, 128, 512)
QUIET = {"start_sd": 0.01, "round_sd": 0.02, "seed": 4}
UNSCORED = [{"ranks": 2, "rounds": 2, "scored": False}]
PLANTED = {(profile, loop, "after"): 1.3 for profile in ("t128", "t512") for loop in ("dispatch", "roundtrip")}


def builds(**fields: Any) -> dict[str, Any]:
    """A sweep of three token counts over three builds, whose family judges each phase alone as well."""
    return {
        "kind": "regression",
        "arms": [{"name": name, "backend": "torch-a2a-cached"} for name in BUILDS],
        "reference": BUILDS[0],
        "control": BUILDS[2],
        "profiles": [],
        "sweep": {"tokens_per_rank": list(TOKENS), "hidden": 128, "experts": 8, "top_k": 2},
        "routes": [{"name": "uniform", "kind": "uniform"}],
        "dtypes": ["bf16"],
        "ep_sizes": [{"ranks": 2, "rounds": ROUNDS}],
        "family": {"loops": ["roundtrip", "dispatch", "combine"]},
        "measurement": {
            "modes": ["host_start"],
            "boundaries": ["dispatch_ready"],
            "isolated_loops": True,
            "iterations": 20,
            "warmups": 2,
        },
        **fields,
    }


class TestPlan:
    """From the file to the plan."""

    def test_a_sweep_stands_for_profiles_and_the_family_for_phases(self, tmp_path: Path) -> None:
        """Three counts x three loops x two builds are 18 contrasts; a round-trip's row names no loop."""
        plan = make_plan(tmp_path, **builds())

        assert ("t32", "t128", "t512") == plan.sweep
        assert 18 == len(plan.contrasts)
        assert {None, "dispatch", "combine"} == {row.get("loop") for row in plan.contrasts}
        assert 12 == len({(row["cell"], row["arm"]) for row in plan.contrasts if "loop" in row}) * 2
        codes = {note["code"] for note in plan.document["warnings"]}
        assert "arms_alike" in codes

    def test_one_api_mode_serves_the_whole_sweep(self, tmp_path: Path) -> None:
        """The key `sweep` of `api_modes` stands for each of its profiles, and a profile's own key goes before it."""
        arms = [
            {"name": name, "backend": "deepep-v1", "api_modes": {"sweep": "normal", "t32": "low_latency"}}
            for name in BUILDS
        ]
        sweep = {"tokens_per_rank": list(TOKENS), "hidden": 7168, "experts": 256, "top_k": 8}
        plan = make_plan(tmp_path, **builds(device="cuda", arms=arms, sweep=sweep))

        modes = plan.document["arms"]["after"]["api_modes"]
        assert {"t32": "low_latency", "t128": "normal", "t512": "normal"} == modes

    @pytest.mark.parametrize(
        ("fields", "code"),
        [
            (
                {"profiles": [{"name": "x", "tokens_per_rank": 8, "hidden": 128, "experts": 8, "top_k": 2}]},
                "sweep_with_profiles",
            ),
            ({"sweep": None}, "empty_matrix"),
            ({"sweep": {"tokens_per_rank": [128, 32], "hidden": 128, "experts": 8, "top_k": 2}}, "sweep_not_rising"),
            ({"control": None}, "no_control"),
            ({"control": "before"}, "unknown_control"),
            ({"control": "nobody"}, "unknown_control"),
            ({"kind": "comparison"}, "control_outside_regression"),
            ({"family": {"loops": ["dispatch", "dispatch"]}}, "duplicate_loop"),
            ({"measurement": {"modes": ["host_start"], "isolated_loops": False}}, "loops_not_measured"),
            ({"published": "nothing-of-that-name"}, "unknown_published"),
            (
                {
                    "arms": [
                        {"name": n, "backend": b}
                        for n, b in zip(BUILDS, ("torch-a2a", "torch-a2a", "torch-agrs"), strict=True)
                    ]
                },
                "several_backends",
            ),
        ],
    )
    def test_refuses_what_is_no_campaign_of_builds(self, tmp_path: Path, fields: dict[str, Any], code: str) -> None:
        """Each fault has its code."""
        with pytest.raises(CampaignError) as caught:
            make_plan(tmp_path, **builds(**fields))

        assert code in {refusal.code for refusal in caught.value.refusals}

    def test_a_regression_needs_its_sweep(self, tmp_path: Path) -> None:
        """Profiles alone do not say along what to look."""
        shape = {"name": "decode", "tokens_per_rank": 8, "hidden": 128, "experts": 8, "top_k": 2}
        with pytest.raises(CampaignError, match="no_sweep"):
            make_plan(tmp_path, **builds(sweep=None, profiles=[shape]))

    def test_the_published_recipe_asks_what_was_published(self) -> None:
        """Three builds, five counts, two phases and the whole; its series has one value for each count."""
        plan = load_plan(REPOSITORY / "config/campaigns/b300-ep16-tail-signal.yaml", SHAPES)
        series = read_series(REPOSITORY / "config/published/deepep-tail-signal.json")

        assert [1024, 2048, 4096, 8192, 16384] == list(series.tokens_per_rank)
        assert tuple(f"t{count}" for count in series.tokens_per_rank) == plan.sweep
        assert 30 == len(plan.contrasts)
        assert {"num_sms": 32, "allow_hybrid_mode": True} == plan.document["arms"]["regressed"]["knobs"]
        regressed, patched = (series.values(arm, "dispatch", "us") for arm in ("regressed", "patched"))
        slowdown = [regressed[count] / patched[count] for count in series.tokens_per_rank]
        assert [2.18, 2.40, 2.33, 2.66, 2.72] == [round(ratio, 2) for ratio in slowdown]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    """The sweep of `builds`."""
    return make_plan(tmp_path_factory.mktemp("judgement"), **builds())


class TestJudgement:
    """What is found in a family over phases."""

    def test_a_planted_slowdown_is_found_there_and_nowhere_else(self, plan: Plan) -> None:
        """30 % in dispatch at two counts, twice what 12 rounds of 3 % resolve: those contrasts, of that build alone."""
        model = Model(loop_factor=PLANTED, start_sd=0.03, round_sd=0.02)
        records, attempts = make_rows(plan, model)
        found = _directions(make_contrasts(build_matrix(plan, records, attempts)))

        assert {(item.profile, item.loop.value, item.arm) for item in found} == set(PLANTED)
        assert {Verdict.SLOWER} == {item.ruling.verdict for item in found if item.ruling is not None}

    def test_builds_that_are_one_seldom_differ_anywhere(self, plan: Plan) -> None:
        """Of 150 A/A campaigns of 18 contrasts at most 5 % say anything, within the simulation's own error."""
        number, wrong = 150, 0
        records, attempts = make_rows(plan)
        draw = np.random.default_rng(20261201)
        keys = sorted({(record.round, record.cell, record.loop, record.arm) for record in records})
        for _ in range(number):
            level = dict(zip(keys, 0.03 * draw.standard_normal(len(keys)), strict=True))
            drawn = [
                replace(record, median_ns=2e5 * math.exp(level[record.round, record.cell, record.loop, record.arm]))
                for record in records
            ]
            wrong += bool(_directions(make_contrasts(build_matrix(plan, drawn, attempts))))

        # Three standard errors above 5 %: sqrt(.05 x .95 / 150) = .0178.
        assert wrong / number <= 0.05 + 3 * 0.0178


def _directions(contrasts: tuple[Contrast, ...]) -> list[Contrast]:
    found = (Verdict.FASTER, Verdict.SLOWER)
    return [item for item in contrasts if item.role is Role.FAMILY and item.ruling and item.ruling.verdict in found]


class TestReport:
    """What a reader is told."""

    def test_says_where_in_which_phase_and_what_the_control_shows(self, tmp_path: Path) -> None:
        """First count, phase, ratio; a control that is not resolved is not called restored."""
        made = summarise(tmp_path, Model(loop_factor=PLANTED, **QUIET), **builds())
        text = section(markdown(made), "Where builds differ")

        assert (
            "**after**, dispatch alone: slower than before at 128 and 512 tokens/rank (first at 128), ratio 1." in text
        )
        assert "**after**, combine alone: " in text
        assert "(the control)**: restores it in " in text
        table = verdict_table(made.summary, tmp_path)
        assert "ep2/t128/uniform/bf16, dispatch alone" in table
        assert 6 == table.count(" alone\n")

    def test_a_slower_control_restores_nothing(self, tmp_path: Path) -> None:
        """The control's own slowdown is said in its sentence."""
        made = summarise(tmp_path, Model(arm_factor={"patched": 1.3}, **QUIET), **builds())

        assert "does not restore the old behaviour; it is slower at 32, 128 and 512" in section(
            markdown(made), "Where builds differ"
        )

    def test_a_published_series_stands_beside_and_is_labelled(self, tmp_path: Path) -> None:
        """Where token counts agree; never in a column that could be taken for ours."""
        arms = [{"name": name, "backend": "torch-a2a-cached"} for name in ("before", "regressed", "patched")]
        sweep = {"tokens_per_rank": [1024, 2048], "hidden": 128, "experts": 8, "top_k": 2}
        fields = builds(
            arms=arms,
            sweep=sweep,
            published="deepep-tail-signal",
            ep_sizes=[{"ranks": 2, "rounds": 2, "scored": False}],
        )
        text = section(markdown(summarise(tmp_path, **fields)), "Where builds differ")

        assert "published [us], not comparable" in text
        assert "| 718.0 |" in text
        assert "shown beside ours, never joined" in text

    def test_a_comparison_has_no_such_section(self, tmp_path: Path) -> None:
        """Nothing is swept there."""
        made = summarise(
            tmp_path,
            routes=[{"name": "uniform", "kind": "uniform"}],
            dtypes=["bf16"],
            ep_sizes=[{"ranks": 2, "rounds": 2, "scored": False}],
        )

        assert "Where builds differ" not in markdown(made)

    def test_the_curves_ring_what_is_judged(self, tmp_path: Path) -> None:
        """One figure an EP size, four panels of it for each row: latency above, ratios below, one ring a direction."""
        made = summarise(tmp_path, Model(loop_factor=PLANTED, **QUIET), **builds())

        assert ["forest", "tokens-ep2"] == figure_names(made.plan)
        with style():
            figure = draw_tokens(made.view, FigureId(Kind.TOKENS, 2))
        assert 6 == len(figure.axes)
        rings = [
            line
            for axes in figure.axes[3:]
            for line in axes.lines
            if line.get_marker() == "o" and line.get_markerfacecolor() == "none"
        ]
        assert len(_directions(made.summary.contrasts)) == len(rings) >= 4


SOME, OTHER = [{"path": "/opt/a/lib.so", "sha256": "a" * 64}], [{"path": "/opt/b/lib.so", "sha256": "b" * 64}]


class TestBuilds:
    """That each arm was the build which it was declared to be."""

    def made(self, tmp_path: Path, seen: dict[str, dict[str, Any]], declared: dict[str, dict[str, Any]]) -> set[str]:
        """Codes of a folder whose arms declared and showed so."""
        arms = [{"name": name, "backend": "torch-a2a-cached", **declared.get(name, {})} for name in BUILDS]
        plan = make_plan(tmp_path, **builds(arms=arms, ep_sizes=[{"ranks": 2, "rounds": 1, "scored": False}]))
        attempts = {start.id: (Attempt(provenance=seen.get(start.arm, {})),) for start in plan.starts}
        return {
            item.code for item in validate(plan, make_results(tmp_path / "results", plan, attempts=attempts)).violations
        }

    def test_an_undeclared_build_is_no_violation(self, tmp_path: Path) -> None:
        """Nothing said, nothing held against it."""
        assert not self.made(tmp_path, {name: {"backend_files": SOME} for name in BUILDS}, {}) & {
            "wrong_build",
            "same_build",
        }

    @pytest.mark.parametrize(("commit", "code"), [("def8651", "wrong_build"), ("f04a242", None)])
    def test_a_commit_is_held_against_what_the_build_says(self, tmp_path: Path, commit: str, code: str | None) -> None:
        """A shortened commit agrees with its whole."""
        found = self.made(tmp_path, {"after": {"backend_commit": "f04a24252c92d6ba"}}, {"after": {"commit": commit}})

        assert (code in found) if code else ("wrong_build" not in found)

    def test_a_build_that_says_no_commit_is_not_taken_for_one(self, tmp_path: Path) -> None:
        """Unknown is not equal."""
        assert "wrong_build" in self.made(tmp_path, {}, {"after": {"commit": "f04a242"}})

    def test_files_from_elsewhere_are_another_build(self, tmp_path: Path) -> None:
        """A library that was declared and not loaded."""
        assert "wrong_build" in self.made(
            tmp_path, {"after": {"backend_files": SOME}}, {"after": {"build": ["/opt/b"]}}
        )

    def test_a_folder_from_which_nothing_was_loaded_is_no_build(self, tmp_path: Path) -> None:
        """No shared object at all proves nothing."""
        assert "wrong_build" in self.made(tmp_path, {}, {"after": {"build": ["/opt/b"]}})

    def test_two_declared_builds_with_one_object_are_one_build(self, tmp_path: Path) -> None:
        """The same shared object under two names compares nothing."""
        seen = {name: {"backend_files": [{"path": f"/opt/{name}/lib.so", "sha256": "a" * 64}]} for name in BUILDS}
        declared = {name: {"build": [f"/opt/{name}"]} for name in BUILDS}

        assert "same_build" in self.made(tmp_path, seen, declared)

    def test_two_builds_must_not_share_a_jit_cache(self, tmp_path: Path) -> None:
        """A kernel of the one could run in the other."""
        one = {"jit_cache": {"directory": "/cache/one", "warm": True}}
        two = {"jit_cache": {"directory": "/cache/two", "warm": True}}
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        before = {"backend_files": SOME, **one}
        shared = self.made(tmp_path / "a", {"before": before, "after": {"backend_files": OTHER, **one}}, {})
        apart = self.made(tmp_path / "b", {"before": before, "after": {"backend_files": OTHER, **two}}, {})

        assert "jit_cache_shared" in shared
        assert "jit_cache_shared" not in apart
