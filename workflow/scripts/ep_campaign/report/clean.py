"""Text from files and logs as one printable line: no escape sequence, no control, no direction override, no endless line."""

from __future__ import annotations

import re
import unicodedata

MAX_CHARS = 2000
"""Longest text of one cell or quotation."""

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_INVISIBLE = ("Cc", "Cf", "Cs", "Co", "Cn")
"""Unicode categories that are not shown: controls, formats (among them direction overrides), surrogates, unassigned."""
_KEPT = {"\N{SOFT HYPHEN}": "-", "\N{WORD JOINER}": "", "\N{ZERO WIDTH JOINER}": ""}


def clean(text: str) -> str:
    """The text as one line: escape sequences and invisible characters gone, white space collapsed, cut where too long."""
    plain = _ESCAPES.sub("", text)
    shown = "".join(_shown(character) for character in plain)
    line = " ".join(shown.split())
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}... ({len(line):,} characters)"


def _shown(character: str) -> str:
    if character in _KEPT:
        return _KEPT[character]
    if character.isspace():
        return " " if character != "\N{NO-BREAK SPACE}" else character
    return "" if unicodedata.category(character) in _INVISIBLE else character
