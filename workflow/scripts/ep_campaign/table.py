"""What a Parquet table is: columns with type, unit and meaning, and the rows that it takes.

A table's version rises when a column changes its name, type, unit or meaning; readers find the version in the file's metadata.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

BOOL, INT16, INT32, INT64, FLOAT, TEXT = pa.bool_(), pa.int16(), pa.int32(), pa.int64(), pa.float64(), pa.string()
CODED = pa.dictionary(pa.int32(), pa.string())
"""Text of few distinct values: each stands once, rows hold its number."""


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: Name; ends in its unit where it has one.
        type: Arrow type.
        meaning: What a value says, and when it is null.
        unit: Unit; empty for counts, names and flags.
        nullable: Whether a row may have none.
    """

    name: str
    type: pa.DataType
    meaning: str
    unit: str = ""
    nullable: bool = False

    @property
    def field(self) -> pa.Field:
        """The Arrow field, with meaning and unit in its metadata."""
        metadata = {"description": self.meaning, **({"unit": self.unit} if self.unit else {})}
        return pa.field(self.name, self.type, self.nullable, metadata)


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        name: Name, also of its file.
        version: Version of its schema.
        meaning: What a row is.
        columns: Columns, in order.
    """

    name: str
    version: int
    meaning: str
    columns: tuple[Column, ...]

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema, with the table's version and meaning in its metadata."""
        identity = {"schema": f"ep-campaign/table/{self.name}/{self.version}", "description": self.meaning}
        return pa.schema([column.field for column in self.columns], identity)

    def batch(self, columns: Mapping[str, Any]) -> pa.Table:
        """Columns as an Arrow table of this schema.

        Raises:
            ValueError: A column is missing, unknown, of another type, or null where it may not be.
        """
        if set(columns) != set(self.schema.names):
            differing = sorted(set(columns) ^ set(self.schema.names))
            msg = f"table {self.name}: columns {', '.join(differing)} are missing or unknown"
            raise ValueError(msg)
        made = pa.table([columns[name] for name in self.schema.names], schema=self.schema)
        blank = [column.name for column in self.columns if not column.nullable and made[column.name].null_count]
        if blank:
            msg = f"table {self.name}: columns {', '.join(blank)} have nulls"
            raise ValueError(msg)
        return made

    def rows(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Rows as an Arrow table of this schema; a nullable column that a row leaves out is null there."""
        unknown = sorted({name for row in rows for name in row} - set(self.schema.names))
        if unknown:
            msg = f"table {self.name}: columns {', '.join(unknown)} are unknown"
            raise ValueError(msg)
        return self.batch({c.name: pa.array([row.get(c.name) for row in rows], c.type) for c in self.columns})
