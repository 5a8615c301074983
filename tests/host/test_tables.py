"""The table schemas: frozen, documented, with units; what they refuse."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from plans import REPOSITORY

from ep_campaign.table import Column, Table
from ep_campaign.tables import ATTEMPTS, RECORDS, SAMPLES, TABLES, markdown
from ep_worker.contract.canonical import canonical_json, sha256_text

FROZEN = {
    "attempts": "33a5646c6b74b9f21645dfaa981e1db06558648cd738ca0bcff75d7f3917f3eb",
    "samples": "177f3bfa3c6a5282dd42ce05534963d2612866563216de1dba55b622d3d167fd",
    "records": "d2ae99895a4ed8a57c341b54bb8e976d1b311c61d3748cf2d46d5110cfa122d5",
    "cells": "fadcd95ed8aa54431cf3ae863a06e19e60cc77174c89505e879969ef321caaed",
    "contrasts": "7680dd4f3d36bee530d47d8b22657dc0e6e74b6c12b230f31be4de8f7c9a54f7",
}
"""SHA-256 of (name, type, unit, nullable) of every column, by table: a change needs a new version and a look at its readers."""

UNIT_SUFFIXES = {
    "_ns": "ns",
    "_us": "us",
    "_bytes": "B",
    "_per_second": "1/s",
    "seconds": "s",
    "_percent": "%",
    "_gb_per_s_per_rank": "GB/s (1e9)",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_schema_does_not_change_silently(name: str) -> None:
    """Names, types, units and nullability of version 1."""
    table = TABLES[name]
    told = [[column.name, str(column.type), column.unit, column.nullable] for column in table.columns]
    assert table.version == 1
    assert sha256_text(canonical_json(told)) == FROZEN[name]


@pytest.mark.parametrize("name", TABLES)
def test_every_column_says_its_unit_and_meaning(name: str) -> None:
    """A name that ends in a unit has that unit in its metadata, and no other name has one; every column has a meaning."""
    for field in TABLES[name].schema:
        suffix = next((suffix for suffix in UNIT_SUFFIXES if field.name.endswith(suffix)), None)
        unit = field.metadata.get(b"unit", b"").decode()
        assert unit == (UNIT_SUFFIXES[suffix] if suffix else ""), field.name
        assert len(field.metadata[b"description"]) > 2


def test_a_file_says_which_table_it_is() -> None:
    """The version stands in the schema's metadata."""
    assert RECORDS.schema.metadata[b"schema"] == b"ep-campaign/table/records/1"


def test_the_documentation_is_the_schemas() -> None:
    """docs/tables.md is what `make documents` writes."""
    assert (REPOSITORY / "docs" / "tables.md").read_text(encoding="utf-8") == markdown()
    for table in TABLES.values():
        assert all(f"| `{column.name}` |" in markdown() for column in table.columns)


def test_every_row_of_the_documentation_has_five_cells() -> None:
    """No meaning breaks the Markdown table."""
    rows = [line for line in markdown().splitlines() if re.match(r"\| `", line)]
    assert len(rows) == sum(len(table.columns) for table in TABLES.values())
    assert {line.count("|") for line in rows} == {6}


SMALL = Table(
    "small", 1, "A row.", (Column("name", pa.string(), "a name"), Column("x_ns", pa.int64(), "x", "ns", True))
)


def test_a_table_refuses_what_is_not_its_own() -> None:
    """Unknown and missing columns, nulls where none may be, another type."""
    assert SMALL.rows([{"name": "a"}, {"name": "b", "x_ns": 3}]).to_pylist() == [
        {"name": "a", "x_ns": None},
        {"name": "b", "x_ns": 3},
    ]
    with pytest.raises(ValueError, match="columns y are unknown"):
        SMALL.rows([{"name": "a", "y": 1}])
    with pytest.raises(ValueError, match="columns x_ns are missing or unknown"):
        SMALL.batch({"name": ["a"]})
    with pytest.raises(ValueError, match="columns name have nulls"):
        SMALL.rows([{"x_ns": 1}])
    with pytest.raises((pa.ArrowInvalid, pa.ArrowTypeError)):
        SMALL.rows([{"name": "a", "x_ns": "much"}])


def test_tables_share_their_keys() -> None:
    """attempts, records and samples join on start and attempt."""
    for table in (ATTEMPTS, RECORDS, SAMPLES):
        assert {"start", "attempt"} <= set(table.schema.names)
