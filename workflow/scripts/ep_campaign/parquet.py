"""Parquet files written piece by piece, the same bytes for the same rows, whole or not at all.

Compression runs in a thread beside the one that reads, in the order in which pieces were added; at most one piece waits.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from concurrent.futures import Future
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
        self._writing: Future[None] | None = None
        path.parent.mkdir(parents=True, exist_ok=True)
        coded = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
        whole = [field.name for field in table.schema if pa.types.is_integer(field.type)]
        try:
            self._writer = pq.ParquetWriter(
                self._temporary,
                self._schema,
                compression="zstd",
                compression_level=1,
                # Whole numbers are close to their neighbours, times included: differences are shorter than a dictionary.
                use_dictionary=[field.name for field in table.schema if field.name not in whole],
                column_encoding=dict.fromkeys(whole, "DELTA_BINARY_PACKED"),
                # Least and largest of a coded text take longer than writing it.
                write_statistics=[field.name for field in table.schema if field.name not in coded],
            )
        except OSError:
            self._temporary.unlink(missing_ok=True)
            raise
        self._thread = ThreadPoolExecutor(max_workers=1)

    def __enter__(self) -> Self:
        return self

    def add(self, rows: pa.Table) -> None:
        """Adds rows of the table's schema."""
        self._held.append(rows)
        self._num_held_bytes += rows.nbytes
        if self._num_held_bytes >= HELD_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        """Hands what is held to the writing thread, once that has finished with what it was handed before."""
        if self._writing is not None:
            self._writing.result()
        self._writing = (
            self._thread.submit(self._writer.write_table, pa.concat_tables(self._held)) if self._held else None
        )
        self._held, self._num_held_bytes = [], 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            try:
                if kind is None:
                    self._write_held()
                if self._writing is not None:
                    self._writing.result()
            finally:
                self._thread.shutdown()
                self._writer.close()
            if kind is None:
                _settle(self._temporary)
                self._temporary.replace(self._path)
        finally:
            self._temporary.unlink(missing_ok=True)


def _settle(path: Path) -> None:
    with path.open("rb") as stream:
        os.fsync(stream.fileno())
