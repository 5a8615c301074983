"""The columns of `records` and `attempts` that the analysis reads, as typed rows."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from ep_campaign.errors import refuse

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.table import Table


@dataclass(frozen=True, slots=True)
class Record:
    """What one attempt says of one series; the columns of `tables/records.parquet`, whose schema describes them."""

    start: str
    attempt: int
    late: bool
    scored: bool
    round: int
    arm: str
    cell: str
    boundary: str
    mode: str
    loop: str
    status: str
    reason_code: str
    reason: str
    num_samples: int | None = None
    median_ns: float | None = None
    mean_ns: float | None = None
    p90_ns: float | None = None
    p95_ns: float | None = None
    p99_ns: float | None = None
    iteration_sd_log: float | None = None
    layout_median_ns: float | None = None
    dispatch_median_ns: float | None = None
    combine_median_ns: float | None = None
    first_half_median_ns: float | None = None
    second_half_median_ns: float | None = None
    num_spikes_all_ranks: int | None = None
    num_spikes_one_rank: int | None = None
    slowest_rank_mode: int | None = None
    slowest_rank_share: float | None = None
    input_tokens_per_second: float | None = None
    max_token_error_before: float | None = None
    max_token_error_after: float | None = None
    tolerance: float | None = None
    resolved: str | None = None
    timer_floor_ns: float | None = None
    per_selection_all_bytes: int | None = None
    per_selection_remote_bytes: int | None = None
    per_selection_logical_gb_per_s_per_rank: float | None = None
    rank_deduplicated_all_bytes: int | None = None
    rank_deduplicated_remote_bytes: int | None = None
    rank_deduplicated_logical_gb_per_s_per_rank: float | None = None
    domain_deduplicated_all_bytes: int | None = None
    domain_deduplicated_remote_bytes: int | None = None
    domain_deduplicated_logical_gb_per_s_per_rank: float | None = None

    def payload_bytes(self, convention: str) -> tuple[int | None, int | None]:
        """Bytes of one round-trip in a convention, with what stays local and without."""
        return getattr(self, f"{convention}_all_bytes"), getattr(self, f"{convention}_remote_bytes")

    def logical_gb_per_s_per_rank(self, convention: str) -> float | None:
        """Bytes of an average rank over the median round-trip, in a convention [GB/s]."""
        value: float | None = getattr(self, f"{convention}_logical_gb_per_s_per_rank")
        return value


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a start; the columns of `tables/attempts.parquet`, whose schema describes them."""

    start: str
    attempt: int
    sequence: int | None
    late: bool
    scored: bool
    round: int
    ep_size: int
    profile: str
    arm: str
    status: str
    reason_code: str
    reason: str
    infrastructure: bool
    teardown: str | None
    seconds: float | None
    image: str | None = None
    worker_digest: str | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    provenance: str | None = None
    gang_start_seconds: float | None = None
    gang_end_seconds: float | None = None


Row = TypeVar("Row", Record, Attempt)


def read_rows(path: Path, table: Table, kind: type[Row]) -> list[Row]:
    """The rows of a table's file, with the columns that the analysis reads.

    Raises:
        CampaignError: `missing_file`, or `bad_table`: not a Parquet file of this version's schema.
    """
    names = [field.name for field in fields(kind)]
    try:
        with pq.ParquetFile(path) as file:
            found = (file.schema_arrow.metadata or {}).get(b"schema")
            expected = table.schema.metadata[b"schema"]
            if found != expected:
                message = f"has schema {found!r}, expected {expected!r}: run the aggregation again"
                raise refuse("bad_table", message, path.name)
            return [kind(**row) for batch in file.iter_batches(columns=names) for row in batch.to_pylist()]
    except FileNotFoundError:
        raise refuse("missing_file", "there is no such file: run the aggregation", path.name) from None
    except pa.ArrowInvalid as error:
        raise refuse(
            "bad_table", f"is not a whole Parquet file ({error}): run the aggregation again", path.name
        ) from None
