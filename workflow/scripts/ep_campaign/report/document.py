"""The document that every form of the report is rendered from: sections of paragraphs, lists, tables, figures and commands.

Text is plain; whoever renders it escapes it. What comes from files and logs is `Quoted`, so that no renderer has to guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True)
class Quoted:
    """Text as a file, a log or a command has it."""

    text: str


@dataclass(frozen=True)
class Strong:
    """Emphasised text."""

    text: str


Piece = str | Quoted | Strong
Text = Piece | tuple[Piece, ...]


def pieces(text: Text) -> tuple[Piece, ...]:
    """A text as its pieces."""
    return text if isinstance(text, tuple) else (text,)


@dataclass(frozen=True)
class Paragraph:
    """One paragraph."""

    text: Text


@dataclass(frozen=True)
class Bullets:
    """A list."""

    items: tuple[Text, ...]


@dataclass(frozen=True)
class Commands:
    """Commands to type, one a line."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table.

    Attributes:
        caption: What its rows are.
        head: Names of the columns, with units.
        rows: Cells; each row as long as the head.
        numbers: Names of the columns that hold numbers, set flush right.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[Text, ...], ...]
    numbers: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.head)]
        unknown = self.numbers - set(self.head)
        if wrong or unknown:
            msg = (
                f"table {self.caption!r}: {len(wrong)} rows of another length than its head, unknown columns {unknown}"
            )
            raise ValueError(msg)


@dataclass(frozen=True)
class Figure:
    """A figure of the figures folder.

    Attributes:
        name: Name of its files, without suffix.
        title: What it shows.
        reading: How to read it.
    """

    name: str
    title: str
    reading: str


Block = Paragraph | Bullets | Commands | Table | Figure


class Rank(IntEnum):
    """How much a section matters where not all of them fit: the lowest number stays longest.

    ANSWER: the verdicts and how to read them. CAVEAT: what limits them. EVIDENCE: what they rest on. DETAIL: the same by
    boundary, mode and phase. RECORD: what stands in the records anyway.
    """

    ANSWER = 0
    CAVEAT = 1
    EVIDENCE = 2
    DETAIL = 3
    RECORD = 4


@dataclass(frozen=True)
class Section:
    """One section.

    Attributes:
        anchor: Its id in a page, lower-case words with hyphens.
        title: Its heading.
        rank: How much it matters.
        blocks: What it says; never empty.
    """

    anchor: str
    title: str
    rank: Rank
    blocks: tuple[Block, ...]

    def __post_init__(self) -> None:
        if not self.blocks:
            msg = f"section {self.anchor!r} is empty; a section without content says so in a sentence"
            raise ValueError(msg)


@dataclass(frozen=True)
class Document:
    """The whole report.

    Attributes:
        title: Its title.
        stamp: What an unfinished campaign says at the top; empty for a complete one.
        sections: In order.
    """

    title: str
    stamp: str
    sections: tuple[Section, ...]
