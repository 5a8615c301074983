"""Documents lead where they say: every link to a file of the project, and every anchor in one, exists."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from plans import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

PLACES = ("*.md", "docs/**/*.md", "config/**/*.md", "benchmarks/**/*.md", "workflow/**/*.md")
DOCUMENTS = sorted(path for place in PLACES for path in REPOSITORY.glob(place))
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    """What headings are linked by: lower case, spaces to hyphens, punctuation dropped."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(path: Path) -> list[str]:
    """Links of a document that lead to no file of the project, or to no heading in it."""
    broken = []
    for link in _LINK.findall(_FENCED.sub("", path.read_text(encoding="utf-8"))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            broken.append(link)
    return broken


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_every_local_link_resolves(path: Path) -> None:
    """A renamed file or heading takes its links along."""
    assert [] == broken_links(path)


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    """A missing file, a missing picture, a missing heading; what is fenced, whole or elsewhere is none."""
    (tmp_path / "other.md").write_text("# One thing: `a`\n")
    document = tmp_path / "document.md"
    document.write_text(
        "# Here\n[a](gone.md) ![b](gone.png) [c](other.md#two) [d](other.md#one-thing-a) [e](#here) [f](#there)\n"
        "[g](https://example.org/gone.md)\n```\n[h](fenced.md)\n```\n"
    )
    assert ["gone.md", "gone.png", "other.md#two", "#there"] == broken_links(document)
