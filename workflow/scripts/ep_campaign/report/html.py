"""The document as one page: every text escaped, every figure inside it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ep_campaign.errors import refuse
from ep_campaign.report.clean import clean
from ep_campaign.report.document import Bullets, Commands, Figure, Paragraph, Quoted, Strong, Table, pieces
from ep_campaign.report.page import TEMPLATE
from ep_campaign.report.svg import inline_svg

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.report.document import Block, Document, Text


_KEPT_TOGETHER = re.compile(r"\d of \d|\d %")


def render_html(document: Document, figures: Path) -> str:
    """The whole document as a self-contained page.

    Args:
        document: Document.
        figures: Folder of the SVG files that it shows.

    Raises:
        CampaignError: A figure's file is missing or is no plain drawing (`bad_figure`).
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True)
    sections = [
        {
            "anchor": section.anchor,
            "title": clean(section.title),
            "blocks": [_block(block, figures) for block in section.blocks],
        }
        for section in document.sections
    ]
    page = environment.from_string(TEMPLATE)
    return page.render(title=clean(document.title), stamp=clean(document.stamp), sections=sections)


def _block(block: Block, figures: Path) -> dict[str, Any]:
    match block:
        case Paragraph():
            return {"kind": "paragraph", "text": _inline(block.text)}
        case Bullets():
            return {"kind": "bullets", "items_": [_inline(item) for item in block.items]}
        case Commands():
            return {"kind": "commands", "lines": [clean(line) for line in block.lines]}
        case Table():
            return _table(block)
        case Figure():
            return _figure(block, figures)


def _table(table: Table) -> dict[str, Any]:
    return {
        "kind": "table",
        "caption": clean(table.caption),
        "head": table.head,
        "numbers": table.numbers,
        "rows": [list(zip(table.head, map(_inline, row), strict=True)) for row in table.rows],
    }


def _figure(figure: Figure, folder: Path) -> dict[str, Any]:
    path = folder / f"{figure.name}.svg"
    try:
        # The one text that is not escaped: this project's own drawing, checked to be nothing but one.
        svg = Markup(inline_svg(path.read_text(encoding="utf-8"), figure.name, figure.title))  # noqa: S704
    except (OSError, ValueError) as error:
        raise refuse("bad_figure", f"{error}; draw the figures again (plots.py)", f"figures/{path.name}") from None
    return {"kind": "figure", "svg": svg, "title": clean(figure.title), "reading": clean(figure.reading)}


def _inline(text: Text) -> list[tuple[str, str]]:
    kinds = {Quoted: "quoted", Strong: "strong"}
    return [
        ("plain", _spaced(piece)) if isinstance(piece, str) else (kinds[type(piece)], clean(piece.text))
        for piece in pieces(text)
    ]


def _spaced(text: str) -> str:
    """Cleaned, but for the space that parts it from the next piece; a number keeps its unit and its total."""
    line = _KEPT_TOGETHER.sub(lambda match: match[0].replace(" ", "\N{NO-BREAK SPACE}"), clean(text))
    return f"{' ' * text.startswith(' ')}{line}{' ' * text.endswith(' ')}" if line else text[:1]
