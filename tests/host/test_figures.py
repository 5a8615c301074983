"""Figures: what they are called, that they are whole, legible and reproducible, and that they say what they cannot show."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.font_manager import findfont
from matplotlib.text import Text
from plans import make_plan, profile
from summarised import Campaign, broken, ended, outliers, six_arms, summarise
from synthetic import Attempt

from ep_campaign.figures import FigureId, Kind, figure_ids, figure_names
from ep_campaign.figures.draw import _DRAW, draw_figures
from ep_campaign.figures.style import SMALL_PT, WIDTH_MM, style
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from matplotlib.figure import Figure

SCENARIOS = ("full", "two-rounds", "six-arms", "partial", "outliers", "one-cell", "nothing")
TWO_ROUNDS = [{"ranks": 2, "rounds": 2, "scored": False}]


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Campaign]:
    """Made on demand, each once."""
    folder = tmp_path_factory.mktemp("figures")
    return _Campaigns(folder)


class _Campaigns(dict[str, Campaign]):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> Campaign:
        folder = self.folder / name
        match name:
            case "full":
                made = summarise(folder)
            case "two-rounds":
                made = summarise(folder, ep_sizes=TWO_ROUNDS)
            case "six-arms":
                sizes = [{"ranks": 2, "rounds": 12}, {"ranks": 4, "rounds": 2, "scored": False}]
                made = summarise(
                    folder, arms=six_arms(), ep_sizes=sizes, routes=[{"name": "uniform", "kind": "uniform"}]
                )
            case "partial":
                made = summarise(folder, attempts=broken)
            case "ended":
                made = summarise(folder, attempts=ended)
            case "outliers":
                plain = make_plan(self.folder, name="plain", ep_sizes=[{"ranks": 2, "rounds": 12}])
                made = summarise(folder, outliers(plain))
            case "one-cell":
                one: dict[str, Any] = {"routes": [{"name": "uniform", "kind": "uniform"}], "dtypes": ["bf16"]}
                made = summarise(folder, profiles=[profile("a-profile-with-quite-a-long-name-1.5")], **one)
            case "nothing":
                crash = (Attempt(status=Status.CRASHED, after_series=0),)
                made = summarise(folder, attempts=lambda plan: dict.fromkeys(plan.by_id, crash), ep_sizes=TWO_ROUNDS)
        self[name] = made
        return made


_DRAWN: dict[tuple[str, Kind], Figure] = {}


def drawn(campaign: Campaign, kind: Kind) -> Figure:
    """The first figure of a kind, in memory; each is drawn once."""
    key = (str(campaign.results.root), kind)
    if key not in _DRAWN:
        figure_id = next(item for item in figure_ids(campaign.plan) if item.kind is kind)
        with style():
            _DRAWN[key] = _DRAW[kind](campaign.view, figure_id)
            _DRAWN[key].draw_without_rendering()
    return _DRAWN[key]


def texts(figure: Figure) -> Iterator[Text]:
    """Every text that is shown."""
    for item in figure.findobj(Text):
        assert isinstance(item, Text)
        if item.get_visible() and item.get_text().strip():
            yield item


def words(figure: Figure) -> str:
    """All of a figure's text, lines joined."""
    return " ".join(" ".join(item.get_text().split()) for item in texts(figure))


class TestNames:
    def test_follow_from_the_plan_in_the_order_of_the_report(self, tmp_path: Path) -> None:
        """The forest first, then four figures for each EP size and profile, then EP sizes where there are several."""
        sizes = [{"ranks": 2, "rounds": 3, "scored": False}, {"ranks": 4, "rounds": 3, "scored": False}]
        plan = make_plan(tmp_path, profiles=[profile("decode")], ep_sizes=sizes)

        of_2 = ["levels-ep2-decode", "rounds-ep2-decode", "boundaries-ep2-decode", "diagnostics-ep2-decode"]
        of_4 = [name.replace("ep2", "ep4") for name in of_2]
        assert ["forest", *of_2, *of_4, "ep-sizes"] == figure_names(plan)

    def test_of_one_ep_size_have_no_axis_over_ep_sizes(self, tmp_path: Path) -> None:
        """One EP size has nothing to stand beside."""
        assert "ep-sizes" not in figure_names(make_plan(tmp_path))

    def test_cost_no_plotting_library(self) -> None:
        """A Snakefile asks for names at every invocation: neither matplotlib nor numpy is imported for them."""
        code = "import sys, ep_campaign.figures; sys.exit(bool({'matplotlib', 'numpy', 'pydantic'} & set(sys.modules)))"
        assert 0 == subprocess.run([sys.executable, "-c", code], check=False).returncode

    def test_of_a_figure_say_what_it_covers(self) -> None:
        """Name for files, words for titles."""
        assert ("levels-ep16-prefill", "EP 16, prefill") == (
            FigureId(Kind.LEVELS, 16, "prefill").name,
            FigureId(Kind.LEVELS, 16, "prefill").of,
        )


class TestFiles:
    def test_are_those_of_the_plan_and_no_others(self, campaigns: dict[str, Campaign], tmp_path: Path) -> None:
        """Each name gives an SVG and a PNG."""
        campaign = campaigns["one-cell"]

        draw_figures(campaign.plan, campaign.summary, tmp_path)

        expected = {f"{name}{suffix}" for name in figure_names(campaign.plan) for suffix in (".svg", ".png")}
        assert expected == {path.name for path in tmp_path.iterdir()}

    def test_are_equal_byte_by_byte_whatever_the_machine_is_set_to(
        self, campaigns: dict[str, Campaign], tmp_path: Path
    ) -> None:
        """Settings of the user, and an earlier drawing, leave no trace; and the user's settings stay as they were."""
        campaign = campaigns["one-cell"]
        draw_figures(campaign.plan, campaign.summary, tmp_path / "a")

        with mpl.rc_context({"font.size": 30, "savefig.dpi": 10, "svg.hashsalt": "other", "axes.facecolor": "red"}):
            draw_figures(campaign.plan, campaign.summary, tmp_path / "b")
            assert 30 == mpl.rcParams["font.size"]

        first, second = ({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in "ab")
        assert first == second

    def test_name_no_date_and_no_version(self, campaigns: dict[str, Campaign], tmp_path: Path) -> None:
        """Metadata that changes from day to day, or from machine to machine, would change the checksums."""
        campaign = campaigns["one-cell"]

        draw_figures(campaign.plan, campaign.summary, tmp_path)

        for path in tmp_path.iterdir():
            data = path.read_bytes()
            assert not re.search(rb"dc:date|Software|tEXt|Matplotlib v", data), path.name

    def test_use_the_font_that_comes_with_the_plotting_library(self) -> None:
        """A system's own copy may differ in its widths."""
        with style():
            assert findfont("DejaVu Sans").startswith(mpl.get_data_path())


@pytest.mark.parametrize("name", SCENARIOS)
class TestLegibility:
    def test_is_as_wide_as_a_page_and_no_text_is_small_or_cut(self, campaigns: dict[str, Campaign], name: str) -> None:
        """180 mm wide, text of 7 pt at least, every text inside the picture."""
        for kind in {figure.kind for figure in figure_ids(campaigns[name].plan)}:
            figure = drawn(campaigns[name], kind)
            page = figure.bbox
            assert pytest.approx(WIDTH_MM) == figure.get_figwidth() * 25.4
            for item in texts(figure):
                assert float(item.get_fontsize()) >= SMALL_PT, item.get_text()
                box = item.get_window_extent()
                inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= page.x1 + 1 and box.y1 <= page.y1 + 1
                assert inside, f"{kind}: {item.get_text()!r} at {box} of {page}"

    def test_lets_no_tick_label_run_into_the_next(self, campaigns: dict[str, Campaign], name: str) -> None:
        """Names below columns are wrapped to their column."""
        for kind in {figure.kind for figure in figure_ids(campaigns[name].plan)}:
            figure = drawn(campaigns[name], kind)
            for axes in figure.axes:
                labels = [label for label in axes.get_xticklabels() if label.get_text() and label.get_visible()]
                boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
                for left, right in pairwise(boxes):
                    assert left.x1 <= right.x0 + 1, f"{kind}: {[label.get_text() for label in labels]}"


class TestStamp:
    @pytest.mark.parametrize(("name", "stamp"), [("partial", "PARTIAL"), ("ended", "ENDED BY ITS BUDGET")])
    def test_is_on_every_figure_of_an_unfinished_campaign(
        self, campaigns: dict[str, Campaign], name: str, stamp: str
    ) -> None:
        """A figure travels without its report."""
        for kind in {figure.kind for figure in figure_ids(campaigns[name].plan)}:
            assert stamp in [text.get_text() for text in drawn(campaigns[name], kind).texts]

    def test_is_on_no_figure_of_a_complete_one(self, campaigns: dict[str, Campaign]) -> None:
        """Nothing is missing, nothing is stamped."""
        assert not campaigns["full"].view.stamp


class TestLevels:
    def test_shows_every_start_as_one_mark(self, campaigns: dict[str, Campaign]) -> None:
        """12 starts of each of 3 arms, a mark each, and for each arm a median bar and an interval."""
        panel = drawn(campaigns["full"], Kind.LEVELS).axes[0]

        marks = [line for line in panel.lines if line.get_marker() not in ("None", None, "")]
        assert (36, 6) == (len(marks), len(panel.lines) - len(marks))

    def test_begins_at_zero(self, campaigns: dict[str, Campaign]) -> None:
        """Latencies are lengths: a cut axis would make a small difference look large."""
        assert {0.0} == {axes.get_ylim()[0] for axes in drawn(campaigns["full"], Kind.LEVELS).axes}

    def test_names_the_true_level_of_intervals(self, campaigns: dict[str, Campaign]) -> None:
        """12 starts: the interval of ranks 3 and 10 has level 1 - 2 x 79 / 4096 = .9614."""
        assert "true level is 96.1 % with 12 starts" in words(drawn(campaigns["full"], Kind.LEVELS)).replace(
            "\xa0", " "
        )

    def test_draws_far_starts_as_arrows_with_their_value(self, campaigns: dict[str, Campaign]) -> None:
        """Starts at 5 and 7.5 times the others are named, not left to squash the others; the axis says so."""
        campaign = campaigns["outliers"]
        figure = drawn(campaign, Kind.LEVELS)

        level = campaign.view.primary("ep2/decode/uniform/bf16", "torch-agrs")
        assert level is not None
        largest = f"{max(level.values_us):,.0f}"
        assert largest in words(figure)
        assert "8 starts above the axis" in words(figure)
        assert max(axes.get_ylim()[1] for axes in figure.axes) < max(level.values_us) / 2

    def test_marks_late_and_missing_starts(self, campaigns: dict[str, Campaign]) -> None:
        """A hollow mark, a cross on the axis, and how many starts there are."""
        shown = words(drawn(campaigns["partial"], Kind.LEVELS))
        assert "hollow: late start" in shown
        assert "planned start without an ok record" in shown
        assert "10 of 12" in shown

    def test_prints_no_median_of_two_starts(self, campaigns: dict[str, Campaign]) -> None:
        """Two starts are two values."""
        campaign = campaigns["two-rounds"]
        panel = drawn(campaign, Kind.LEVELS).axes[0]
        assert not panel.texts
        assert "Too few starts (n = 2" in words(drawn(campaign, Kind.LEVELS))


class TestForest:
    def test_has_a_row_for_each_contrast_with_its_verdict(self, campaigns: dict[str, Campaign]) -> None:
        """Four cells, two arms each; the slower arm says so in each."""
        shown = [text.get_text() for text in drawn(campaigns["full"], Kind.FOREST).axes[0].texts]
        assert 4 == shown.count("torch-agrs") == shown.count("torch-a2a-cached") == shown.count("slower")

    def test_shows_each_round_where_rounds_are_too_few(self, campaigns: dict[str, Campaign]) -> None:
        """Two rounds: two dots a contrast, their ratios, and the words."""
        campaign = campaigns["two-rounds"]
        panel = drawn(campaign, Kind.FOREST).axes[0]
        shown = [text.get_text() for text in panel.texts]
        dots = [line for line in panel.lines if line.get_markersize() == 2.5]
        assert (8, 16) == (shown.count("too few starts"), len(dots))

    def test_says_that_a_cell_is_not_judged(self, campaigns: dict[str, Campaign]) -> None:
        """EP 4 is described beside the judged EP 2."""
        shown = words(drawn(campaigns["six-arms"], Kind.FOREST))
        assert 2 == shown.count("(described, not judged)")


class TestRounds:
    def test_leaves_a_gap_where_nothing_was_measured(self, campaigns: dict[str, Campaign]) -> None:
        """A line across a missing round would show a value that nobody measured: torch-agrs has runs 1-2 and 4-12."""
        panel = drawn(campaigns["partial"], Kind.ROUNDS).axes[0]
        runs = [
            list(np.asarray(line.get_xdata()))
            for line in panel.lines
            if line.get_linestyle() == "-" and line.get_marker() == "None"
        ]
        assert [1, 2] in runs
        assert list(range(4, 13)) in runs

    def test_shades_excluded_rounds(self, campaigns: dict[str, Campaign]) -> None:
        """Rounds 3 (crashed), 9 (incorrect) and 10 (never tried) are out of some contrast."""
        panel = drawn(campaigns["partial"], Kind.ROUNDS).axes[0]
        to_data = panel.transData.inverted()
        lefts = [patch.get_extents().transformed(to_data).x0 for patch in panel.patches]
        assert [3, 9, 10] == sorted(round(left + 0.4) for left in lefts)


class TestDiagnostics:
    def test_names_a_veto(self, campaigns: dict[str, Campaign]) -> None:
        """Two starts of twelve far above the median are unstable starts."""
        assert "UNSTABLE STARTS: torch-agrs" in words(drawn(campaigns["outliers"], Kind.DIAGNOSTICS))

    def test_names_none_where_none_fired(self, campaigns: dict[str, Campaign]) -> None:
        """A clean campaign has no red line."""
        shown = words(drawn(campaigns["full"], Kind.DIAGNOSTICS))
        assert "no unstable start" in shown
        assert not re.search("ORDER EFFECT|DRIFT|UNSTABLE", shown)


class TestBoundaries:
    def test_names_modes_that_cannot_run(self, campaigns: dict[str, Campaign]) -> None:
        """Not a blank panel but a sentence."""
        shown = words(drawn(campaigns["full"], Kind.BOUNDARIES))
        assert "graph not measured, all arms: a CPU has no device graph to capture." in shown

    def test_stacks_the_phases(self, campaigns: dict[str, Campaign]) -> None:
        """torch-a2a has layout, dispatch and combine, the others two phases: 7 bars at each of two boundaries."""
        assert 14 == len(drawn(campaigns["full"], Kind.BOUNDARIES).axes[0].patches)


@pytest.mark.parametrize("kind", list(Kind)[:5])
def test_a_figure_without_data_says_why_in_words(campaigns: dict[str, Campaign], kind: Kind) -> None:
    """Every start crashed: no empty panel, a sentence."""
    figure = drawn(campaigns["nothing"], kind)
    shown = words(figure)
    assert (
        ("no complete round" in shown)
        if kind is Kind.FOREST
        else ("of its starts 6 crashed" in shown and not figure.axes)
    )


def test_an_arm_that_cannot_run_a_cell_is_named(tmp_path: Path) -> None:
    """deepep-v2 takes no rank without tokens: a column that says so, and the reason below."""
    routes = [{"name": "uniform", "kind": "uniform"}, {"name": "ragged", "kind": "ragged", "empty_ranks": 1}]
    arms = [{"name": "torch-a2a", "backend": "torch-a2a"}, {"name": "deepep", "backend": "deepep-v2"}]
    campaign = summarise(
        tmp_path, device="cuda", arms=arms, reference="torch-a2a", routes=routes, dtypes=["bf16"], ep_sizes=TWO_ROUNDS
    )
    shown = words(drawn(campaign, Kind.LEVELS))
    assert "cannot run" in shown
    assert "deepep cannot run in ragged/bf16: a rank without tokens; it takes at least one token a rank." in shown
