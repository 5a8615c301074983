"""A figure's SVG as part of a page: without prolog, metadata and comments, and with ids that are its own."""

from __future__ import annotations

import re
from html import escape

_OUTSIDE = re.compile(r"<\?xml.*?\?>|<!DOCTYPE[^>]*>|<metadata>.*?</metadata>|<!--.*?-->", re.DOTALL)
_ID = re.compile(r'\bid="([^"]*)"')
_HREF = re.compile(r'(?<=href=")#([^"]*)(?=")')
_URL = re.compile(r"url\(#([^)]*)\)")
_SIZE = re.compile(r'(<svg\b[^>]*?)\s+width="[^"]*"\s+height="[^"]*"|(<svg\b[^>]*?)\s+height="[^"]*"\s+width="[^"]*"')
_ACTIVE = re.compile(r"<script|<foreignObject|\bon[a-z]+\s*=|javascript:", re.IGNORECASE)


def inline_svg(text: str, name: str, title: str) -> str:
    """An SVG file's text as an element to put into a page.

    Args:
        text: What the file holds.
        name: Name of the figure; prefixes its ids, so that figures of one page do not share clip paths or glyphs.
        title: What a screen reader says of it.

    Raises:
        ValueError: It holds something active; a figure of this project never does.
    """
    bare = _OUTSIDE.sub("", text).strip()
    if _ACTIVE.search(bare) or not bare.startswith("<svg"):
        msg = f"figure {name}: is no plain SVG drawing; draw the figures again"
        raise ValueError(msg)
    bare = _ID.sub(lambda match: f'id="{name}-{match[1]}"', bare)
    bare = _HREF.sub(lambda match: f"#{name}-{match[1]}", bare)
    bare = _URL.sub(lambda match: f"url(#{name}-{match[1]})", bare)
    bare = _SIZE.sub(lambda match: match[1] or match[2], bare, count=1)
    label = escape(title, quote=True)
    return bare.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)
