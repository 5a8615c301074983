"""Reports of results folders, and what pages and sections hold."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from ep_campaign.figures.draw import draw_figures
from ep_campaign.report.compose import compose
from ep_campaign.report.markdown import render_markdown
from ep_campaign.report.source import read_source
from ep_campaign.report.write import write_report

if TYPE_CHECKING:
    from summarised import Campaign


def report(campaign: Campaign) -> dict[str, str]:
    """The three texts, by name."""
    draw_figures(campaign.plan, campaign.summary, campaign.results.figures)
    return {path.name: path.read_text(encoding="utf-8") for path in write_report(campaign.results)}


def markdown(campaign: Campaign) -> str:
    """The text of RESULTS.md alone, which needs no figure drawn."""
    return render_markdown(compose(read_source(campaign.results)))


class Page(HTMLParser):
    """What a page is made of; fails on a tag that closes none that is open."""

    VOID = frozenset({"meta", "path", "use", "rect", "image", "br", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.shown: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        self.shown.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Attributes of every tag of a name."""
        return [attributes for name, attributes in self.tags if name == tag]


def section(markdown: str, title: str) -> str:
    """The text of one section."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", markdown, re.MULTILINE | re.DOTALL)
    assert found, title
    return found[1]
