"""The forms of a report: a page that stands alone, a text for a pull request, equal bytes; and what is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from plans import REPOSITORY
from reports import Page, markdown, report, section
from summarised import Campaign, summarise
from synthetic import Attempt

from ep_campaign.errors import CampaignError
from ep_campaign.figures import figure_names
from ep_campaign.figures.draw import draw_figures
from ep_campaign.report.pull_request import MAX_CHARS
from ep_campaign.report.write import write_report
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ep_campaign.layout import Results

ONE_CELL: dict[str, Any] = {"routes": [{"name": "uniform", "kind": "uniform"}], "dtypes": ["bf16"]}
NAMES = ("RESULTS.md", "report.html", "pr.md")


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> tuple[Campaign, dict[str, str]]:
    """A complete campaign with a slower arm, and its report."""
    campaign = summarise(tmp_path_factory.mktemp("full"))
    return campaign, report(campaign)


class TestPage:
    def test_is_whole_and_stands_alone(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """Tags close, ids are unique, links lead somewhere inside, nothing is loaded from elsewhere, nothing runs."""
        text = full[1]["report.html"]
        page = Page(text)
        assert [] == page.open
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(set(ids)) == len(ids)
        for _, attributes in page.tags:
            for name in ("href", "xlink:href", "src"):
                target = attributes.get(name)
                assert target is None or (target.startswith("#") and target[1:] in ids), target
            for value in attributes.values():
                for used in re.findall(r"url\(([^)]*)\)", value or ""):
                    assert used.startswith("#"), used
                    assert used[1:] in ids
        assert not page.all("script")
        assert not re.search(r"@import|https?://(?!www\.w3\.org)", text)

    def test_is_accessible(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """A language, a title, one main heading, captions and scopes of tables, a label for each drawing."""
        campaign, texts = full
        page = Page(texts["report.html"])
        assert "en" == page.all("html")[0]["lang"]
        assert 1 == len(page.all("h1")) == len(page.all("title")) == len(page.all("main"))
        assert len(page.all("table")) == len(page.all("caption"))
        assert all("col" == attributes.get("scope") for attributes in page.all("th"))
        drawings = page.all("svg")
        assert len(figure_names(campaign.plan)) == len(drawings)
        assert all("img" == attributes["role"] and attributes["aria-label"] for attributes in drawings)


class TestPullRequest:
    def test_is_short_enough_and_links_no_file(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """Local images would be broken in a pull request: figures are named."""
        text = full[1]["pr.md"]
        assert len(text) < MAX_CHARS
        assert "](" not in text
        assert "`figures/forest.svg`" in text

    def test_folds_all_but_the_answer(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """Every fold is closed; the verdict and the limits are open."""
        text = full[1]["pr.md"]
        assert text.count("<details>") == text.count("</details>") >= 10
        for title in ("Verdict", "How to read it", "Limits", "Reproduce it"):
            assert f"### {title}\n" in text


class TestFiles:
    def test_are_equal_byte_by_byte_and_name_no_place(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """Written again they are what they were; neither the folder nor the clock is in them."""
        campaign, texts = full
        again = {path.name: path.read_text(encoding="utf-8") for path in write_report(campaign.results)}
        assert texts == again
        for text in again.values():
            assert str(campaign.results.root.parent) not in text

    def test_link_figures_that_exist(self, full: tuple[Campaign, dict[str, str]]) -> None:
        """Relative to the results folder."""
        campaign, texts = full
        linked = re.findall(r"!\[[^]]*\]\(([^)]*)\)", texts["RESULTS.md"])
        assert [f"figures/{name}.svg" for name in figure_names(campaign.plan)] == linked
        assert all((campaign.results.root / path).is_file() for path in linked)


class TestRefusals:
    @pytest.fixture
    def campaign(self, tmp_path: Path) -> Campaign:
        """One that a test may damage."""
        made = summarise(tmp_path, ep_sizes=[{"ranks": 2, "rounds": 2, "scored": False}], **ONE_CELL)
        draw_figures(made.plan, made.summary, made.results.figures)
        return made

    @pytest.mark.parametrize(
        ("damage", "code"),
        [
            (lambda results: results.statistics.unlink(), "missing_file"),
            (lambda results: results.validation.unlink(), "missing_file"),
            (lambda results: results.table("records").write_bytes(b"PAR1"), "bad_table"),
            (lambda results: (results.figures / "forest.svg").unlink(), "bad_figure"),
            (
                lambda results: (results.figures / "forest.svg").write_text("<svg><script>1</script></svg>"),
                "bad_figure",
            ),
        ],
        ids=["no statistics", "no validation", "cut table", "no figure", "active figure"],
    )
    def test_name_what_is_missing_and_write_nothing(
        self, campaign: Campaign, damage: Callable[[Results], object], code: str
    ) -> None:
        """A report of half its inputs would be a report with silent gaps."""
        damage(campaign.results)
        with pytest.raises(CampaignError) as caught:
            write_report(campaign.results)
        assert (code,) == caught.value.codes
        assert not any((campaign.results.root / name).exists() for name in NAMES)

    def test_of_a_summary_of_another_plan(self, campaign: Campaign) -> None:
        """Statistics that were copied into this folder are not its statistics."""
        value = json.loads(campaign.results.statistics.read_text(encoding="ascii"))
        value["head"]["plan_digest"] = "0" * 64
        campaign.results.statistics.write_text(json.dumps(value), encoding="ascii")
        with pytest.raises(CampaignError) as caught:
            write_report(campaign.results)
        assert ("mixed_plans",) == caught.value.codes

    @pytest.mark.parametrize("script", ["plots", "report"])
    def test_by_a_script_are_one_line_and_status_2(self, tmp_path: Path, script: str) -> None:
        """An empty folder: no traceback."""
        command = [sys.executable, str(REPOSITORY / f"workflow/scripts/{script}.py"), "--results", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (2, "plan.json: there is no such file [missing_file]\n") == (done.returncode, done.stderr)


def test_a_campaign_in_which_everything_failed_still_has_its_report(tmp_path: Path) -> None:
    """Each section says what it lacks; nothing is blank."""
    crash = (Attempt(status=Status.CRASHED, after_series=0),)
    sizes = [{"ranks": 2, "rounds": 2, "scored": False}]
    campaign = summarise(tmp_path, attempts=lambda plan: dict.fromkeys(plan.by_id, crash), ep_sizes=sizes, **ONE_CELL)
    text = markdown(campaign)
    verdict = section(text, "Verdict")
    assert "- **torch-agrs**: CRASHED in 2 of 2 starts (" in verdict
    assert re.search(r"\| torch-agrs: CRASHED in 2 of 2 rounds \(\w+\), torch-a2a CRASHED in 2 of 2 rounds", verdict)
    assert "No start has an ok record: nothing was observed." in section(text, "Provenance")
    assert "No start has a value at the primary boundary and mode" in section(text, "Bytes and throughput")
    assert "No round-trip was split" in section(text, "Phases")
