"""Parquet files written piece by piece, the same bytes for the same rows, whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from ep_campaign.table import Table

HELD_BYTES = 16 << 20
"""Rows in memory at which a row group is written."""


class ParquetFile:
    """A context in which rows are added to a file; it appears under its name when the context ends well."""

    def __init__(self, path: Path, table: Table) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._schema = table.schema
        self._held: list[pa.Table] = []
        self._num_held_bytes = 0
        path.parent.mkdir(parents=True, exist_ok=True)
        # Times hardly repeat: a dictionary of them costs more than it saves. Text and small numbers repeat a lot.
        times = (pa.int64(), pa.float64())
        repeated = [field.name for field in table.schema if field.type not in times]
        try:
            self._writer = pq.ParquetWriter(
                self._temporary, self._schema, compression="zstd", compression_level=1, use_dictionary=repeated
            )
        except OSError:
            self._temporary.unlink(missing_ok=True)
            raise

    def __enter__(self) -> Self:
        return self

    def add(self, rows: pa.Table) -> None:
        """Adds rows of the table's schema."""
        self._held.append(rows)
        self._num_held_bytes += rows.nbytes
        if self._num_held_bytes >= HELD_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        if self._held:
            self._writer.write_table(pa.concat_tables(self._held))
        self._held, self._num_held_bytes = [], 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._write_held()
            self._writer.close()
            if kind is None:
                _settle(self._temporary)
                self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)


def _settle(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
