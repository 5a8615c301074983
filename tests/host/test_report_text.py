"""Report text: what comes from files and logs breaks nothing, in Markdown or HTML; what is said follows from the numbers."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ep_campaign.report.clean import MAX_CHARS, clean
from ep_campaign.report.document import (
    Block,
    Bullets,
    Commands,
    Document,
    Figure,
    Paragraph,
    Quoted,
    Rank,
    Section,
    Strong,
    Table,
)
from ep_campaign.report.html import render_html
from ep_campaign.report.markdown import escape, inline, render_block, render_markdown
from ep_campaign.report.pull_request import render_pull_request, shorten
from ep_campaign.report.svg import inline_svg
from ep_campaign.report.values import value_text

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = [
    "<script>alert(1)</script>",
    "| a | b |",
    "```\nrm -rf\n```",
    "a`b``c",
    "\x1b[31mred\x1b[0m and \x1b]0;title\x07 done",
    "line one\nline two\r\nline three",
    "[click](javascript:alert(1))",
    "![x](http://example.org/x.png)",
    "@everyone see #1 at https://example.org and www.example.org",
    "</td></tr></table>",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "=====",
    "*bold* _it_ ~~no~~ $x$ &lt; \\",
    "\u202eevil\u2066",
    "",
    "a\\|b",
    "[x]: http://example.org",
]
_FENCED = re.compile(r"^(`{3,})console$.*?^\1$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)|<code>.*?</code>")
_BAR = re.compile(r"(?<!\\)(?:\\\\)*\|")


class _Text(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.shown: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.shown.append(data)


def document(*texts: str) -> Document:
    """Every kind of block, filled with the same texts."""
    cells = tuple((text, Quoted(text), Strong(text)) for text in texts)
    blocks: tuple[Block, ...] = (
        *(Paragraph((text, Quoted(text), Strong(text))) for text in texts),
        Bullets(tuple(Quoted(text) for text in texts)),
        Commands(texts),
        Table("\n".join(texts), ("a", "b", "c"), cells),
    )
    return Document(" ".join(texts), "", (Section("one", "One", Rank.ANSWER, blocks),))


class TestClean:
    @settings(max_examples=200, deadline=None)
    @given(st.text())
    def test_gives_one_printable_line(self, text: str) -> None:
        """No control, no line end, no invisible character, no double space; doing it again changes nothing."""
        line = clean(text)
        assert not re.search(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]|  ", line)
        assert line == clean(line)

    def test_takes_escape_sequences_whole(self) -> None:
        """Colour codes and titles of terminals leave no debris."""
        assert "red and done" == clean("\x1b[31mred\x1b[0m and \x1b]0;title\x07 done")

    def test_cuts_what_is_too_long_and_says_so(self) -> None:
        """A log of a megabyte is no table cell."""
        assert f"{'x' * MAX_CHARS}... (1,000,000 characters)" == clean("x" * 1_000_000)


class TestMarkdown:
    @pytest.mark.parametrize("text", HOSTILE)
    def test_keeps_a_table_a_table(self, text: str) -> None:
        """Each row has as many cells as the head, and is one line."""
        lines = render_block(Table("t", ("a", "b"), ((text, Quoted(text)),)), None).splitlines()
        assert 5 == len(lines)
        assert [3, 3, 3] == [len(_BAR.findall(line)) for line in lines[2:]]

    @settings(max_examples=300, deadline=None)
    @given(st.text(), st.text())
    def test_keeps_any_table_a_table(self, plain: str, quoted: str) -> None:
        """The same for whatever a log may hold."""
        lines = render_block(Table("t", ("a", "b"), ((plain, Quoted(quoted)),)), None).split("\n")
        assert [3, 3, 3] == [len(_BAR.findall(line)) for line in lines[2:]]

    @pytest.mark.parametrize("text", HOSTILE)
    def test_opens_no_tag_link_or_fence(self, text: str) -> None:
        """Outside of code spans no angle opens a tag, no bracket a link, no fence a block."""
        rendered = render_markdown(document(text))
        outside = _CODE.sub("", _FENCED.sub("", rendered))
        assert not re.search(r"(?<!\\)<[A-Za-z/!?]", outside)
        assert not re.search(r"(?<!\\)\][\[(]", outside)
        assert not re.search(r"^\s*\[[^]]*\]:", outside, re.MULTILINE)
        assert not re.search(r"[@#](?=[0-9A-Za-z])|https?:(?=//)|www(?=\.)", outside)

    @pytest.mark.parametrize(
        "text", ["# heading", "- item", "+ item", "1. item", "2) item", "> quote", "=====", "[x]: y"]
    )
    def test_begins_no_block(self, text: str) -> None:
        """A paragraph stays one."""
        assert re.match(r"\d*\\", inline(text))

    def test_fences_code_with_more_backticks_than_it_holds(self) -> None:
        """One more than the longest run inside; a space where it begins or ends with one."""
        assert "```a`b``c```" == inline(Quoted("a`b``c"))
        assert "`` `a ``" == inline(Quoted("`a"))
        assert "(empty)" == inline(Quoted(""))

    def test_leaves_plain_words_alone(self) -> None:
        """Names, numbers, brackets and comparisons stay readable in the source."""
        text = "host_start: torch-a2a [1.0, 2.0], p < .0001 (n = 12), 50 %"
        assert text == escape(text)

    def test_says_that_a_table_is_empty(self) -> None:
        """A head without rows looks like a fault."""
        assert "**Losses**: none." == render_block(Table("Losses", ("a",), ()), None)


class TestHtml:
    @pytest.mark.parametrize("text", HOSTILE)
    def test_shows_text_as_text(self, text: str, tmp_path: Path) -> None:
        """No tag of a text becomes one of the page, and the text is still there to read."""
        plain, hostile = (_Text(render_html(document(value), tmp_path)) for value in ("x", text))
        assert plain.tags == hostile.tags
        shown = " ".join(" ".join(hostile.shown).replace("\xa0", " ").split())
        assert clean(text) in shown


class TestSvg:
    SVG = (
        '<?xml version="1.0"?>\n<!DOCTYPE svg PUBLIC "x">\n<svg width="1pt" height="2pt" viewBox="0 0 1 2"><metadata>d</metadata>'
        '<!-- text --><defs><path id="a"/></defs><use xlink:href="#a" clip-path="url(#b)"/></svg>'
    )

    def test_has_ids_of_its_own_and_no_prolog(self) -> None:
        """Two figures of one page must not share glyphs or clip paths."""
        assert (
            '<svg role="img" aria-label="A &quot;title&quot;" viewBox="0 0 1 2"><defs><path id="f-a"/></defs>'
            '<use xlink:href="#f-a" clip-path="url(#f-b)"/></svg>'
        ) == inline_svg(self.SVG, "f", 'A "title"')

    @pytest.mark.parametrize("bad", ["<script>", '<a onclick="x()">', "<foreignObject>", '<a href="javascript:x">'])
    def test_is_refused_where_it_is_more_than_a_drawing(self, bad: str) -> None:
        """A page that opens offline runs nothing."""
        with pytest.raises(ValueError, match="no plain SVG"):
            inline_svg(self.SVG.replace("<defs>", f"<defs>{bad}"), "f", "t")


class TestPullRequest:
    LONG = Table("Rows", ("a",), tuple((f"row {number} {'x' * 100}",) for number in range(2000)))

    def test_shortens_the_answer_before_it_drops_it(self) -> None:
        """2,000 rows of 108 characters do not fit 60,000: 200 do, and how many are missing is said."""
        one = Document("t", "", (Section("one", "One", Rank.ANSWER, (self.LONG,)),))
        text = render_pull_request(one)
        assert 200 == text.count("| row ")
        assert "1,800 further rows in `RESULTS.md`." in text

    def test_drops_detail_first_and_names_it(self) -> None:
        """Sections that do not fit are named with where they are."""
        answer = Section("one", "One", Rank.ANSWER, (Paragraph("yes"),))
        detail = Section("two", "Two", Rank.DETAIL, (self.LONG,))
        text = render_pull_request(Document("t", "", (detail, answer)))
        assert "row" not in text
        assert "Left out here for length, and found in `RESULTS.md` and `report.html`: Two." in text

    def test_is_refused_where_not_even_one_row_fits(self) -> None:
        """Rather than a text that a forge would cut."""
        one = Document("t", "", (Section("one", "One", Rank.ANSWER, (Paragraph("x" * 1000), Paragraph("y" * 1000))),))
        with pytest.raises(ValueError, match="characters"):
            render_pull_request(one, 1600)

    def test_shortens_nothing_that_is_short(self) -> None:
        """A table within the bound stays as it is."""
        section = Section("one", "One", Rank.ANSWER, (replace(self.LONG, rows=self.LONG.rows[:3]),))
        assert section == shorten(section, 3)


class TestDocument:
    def test_refuses_an_empty_section(self) -> None:
        """A section without content says so in a sentence."""
        with pytest.raises(ValueError, match="empty"):
            Section("one", "One", Rank.ANSWER, ())

    def test_refuses_rows_of_another_length(self) -> None:
        """A shifted column is a wrong table."""
        with pytest.raises(ValueError, match="1 rows of another length"):
            Table("t", ("a", "b"), (("1",),))

    def test_names_a_figure_where_it_cannot_be_linked(self) -> None:
        """A pull request has no figures folder."""
        figure = Figure("forest", "Forest", "Read it.")
        assert "![Forest](figures/forest.svg)\n\n**Forest.** Read it." == render_block(figure, "figures")
        assert "**Forest.** Read it. File `figures/forest.svg`." == render_block(figure, None)


def test_values_read_as_text() -> None:
    """Numbers with separators, lists in a line, and a reason where there is none."""
    values = [12_345, [0, 1], "x", True, None, {"b": 1, "a": [2]}, {"not_applicable": "a CPU has none"}]
    texts = ["12,345", "0, 1", "x", "True", "None", '{"a":[2],"b":1}', "not applicable: a CPU has none"]
    assert texts == [value_text(value) for value in values]
