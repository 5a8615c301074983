"""Plain-text tables for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    """Aligned columns; a column of numbers is set flush right."""
    columns = list(zip(head, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    right = [all(_is_number(value) for value in column[1:]) and len(column) > 1 for column in columns]
    lines = []
    for row in (head, *rows):
        cells = [v.rjust(w) if r else v.ljust(w) for v, w, r in zip(row, widths, right, strict=True)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _is_number(value: str) -> bool:
    return value.replace(".", "", 1).replace("-", "", 1).isdigit()
