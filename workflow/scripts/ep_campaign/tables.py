"""The Parquet tables: every column with its type, unit and meaning, frozen. `docs/tables.md` is generated from here.

What measuring and aggregation leave stands here; what the analysis makes of it, in `result_tables`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ep_campaign.result_tables import CELLS, CONTRASTS
from ep_campaign.table import BOOL, CODED, FLOAT, INT16, INT32, INT64, TEXT, Column, Table
from ep_worker.contract.accounting import CONVENTIONS

if TYPE_CHECKING:
    import pyarrow as pa

_ATTEMPT_KEY = (
    Column("start", TEXT, "start, `ep<N>/<profile>/round-<RR>/<arm>`: one planned process launch of all ranks"),
    Column("attempt", INT32, "number of the try at it, from 1"),
)
_WHERE = (
    Column("round", INT32, "round of its EP size, from 1"),
    Column("ep_size", INT32, "ranks of the expert-parallel group"),
    Column("profile", TEXT, "workload shape"),
    Column("arm", TEXT, "what is compared"),
)
_PLACE = (
    Column(
        "sequence", INT32, "place of its beginning in the campaign, from 1; null where it began nothing", nullable=True
    ),
    Column("late", BOOL, "whether it counts and began after its round had closed"),
    Column("scored", BOOL, "whether it counts: the last attempt of its start's last job"),
    Column("position", INT32, "place of its start in the plan's order, from 0"),
    Column("order_position", INT32, "place of its arm in its round and profile, from 1"),
)
_OUTCOME = (
    Column("status", TEXT, "`ok`, `unsupported`, `not_run`, `inadmissible`, `timed_out`, `crashed` or `incorrect`"),
    Column("reason_code", TEXT, "why it is not ok, as a stable word; empty if ok"),
    Column("reason", TEXT, "why it is not ok, as a sentence; empty if ok"),
)

ATTEMPTS = Table(
    "attempts",
    1,
    "One try at a start, also of a start that failed or began nothing.",
    (
        *_ATTEMPT_KEY,
        *_PLACE,
        *_WHERE,
        *_OUTCOME,
        Column(
            "infrastructure", BOOL, "whether the controller takes a failure for one of the machine, and tried again"
        ),
        Column("teardown", TEXT, "`ok`, `failed` or `not_reached`; null where it began nothing", nullable=True),
        Column("began_utc", TEXT, "controller's clock when it began; null where it did not", nullable=True),
        Column("ended_utc", TEXT, "controller's clock when it ended; null where it did not begin", nullable=True),
        Column("seconds", FLOAT, "duration on the controller's clock; null where it did not begin", "s", nullable=True),
        Column(
            "gang_start_seconds",
            FLOAT,
            "controller's clock: from asking for its gang until all pods ran; null without one",
            "s",
            nullable=True,
        ),
        Column(
            "gang_end_seconds",
            FLOAT,
            "controller's clock: from its last pod's end until the gang was gone; null without one",
            "s",
            nullable=True,
        ),
        Column("launcher_outcome", TEXT, "how its processes ended; null where none began", nullable=True),
        Column("hostnames", TEXT, "machines of its ranks, comma-separated; null where no rank said", nullable=True),
        Column("image", TEXT, "container image, by digest; null where starts are local processes", nullable=True),
        Column("worker_digest", TEXT, "SHA-256 of the worker's sources; null where no rank said", nullable=True),
        Column("git_commit", TEXT, "commit of the controller's checkout; null outside of git", nullable=True),
        Column("git_dirty", BOOL, "whether files differed from that commit; null outside of git", nullable=True),
        Column("provenance", TEXT, "what its ranks observed, as JSON; null where none did", nullable=True),
    ),
)

_SERIES = (
    Column("boundary", TEXT, "where timing starts and ends: `dispatch_ready`, `bf16_ready`, `gemm_ready`"),
    Column(
        "mode", TEXT, "how an iteration is started: `host_start`, `launch_hidden`, `graph`, `chained`, `overlapped`"
    ),
    Column("loop", TEXT, "`roundtrip`, or one phase alone with a fixed handle"),
)


def _ns(name: str, meaning: str) -> Column:
    return Column(name, FLOAT, f"{meaning}; null unless ok", "ns", nullable=True)


_FIGURES = (
    Column("num_samples", INT32, "samples of the series; null unless ok", nullable=True),
    _ns("median_ns", "median over samples of the slowest rank, for one round-trip (one phase, in an isolated loop)"),
    _ns("mean_ns", "mean of the same"),
    _ns("min_ns", "least of the same"),
    _ns("max_ns", "largest of the same"),
    _ns("p90_ns", "90th percentile of the same, interpolated; also null below 29 samples, which cannot bound it"),
    _ns("p95_ns", "95th percentile of the same; also null below 59 samples"),
    _ns("p99_ns", "99th percentile of the same; also null below 299 samples"),
    Column(
        "iteration_sd_log", FLOAT, "standard deviation of the same's natural logarithm; null below 2", nullable=True
    ),
    _ns("layout_median_ns", "median of the slowest rank's layout phase; also null where it is not timed apart"),
    _ns("dispatch_median_ns", "the same of dispatch"),
    _ns("combine_median_ns", "the same of combine"),
    _ns("first_half_median_ns", "median of the slowest rank over the first half of the samples; also null below 2"),
    _ns("second_half_median_ns", "the same over the second half; the middle sample of an odd number is in neither"),
    Column("num_spikes_all_ranks", INT32, "samples above 1.5 x median on most ranks; null unless ok", nullable=True),
    Column("num_spikes_one_rank", INT32, "samples above 1.5 x median on at most half of them", nullable=True),
    Column("slowest_rank_mode", INT16, "rank that is most often slowest, the lowest of equals", nullable=True),
    Column("slowest_rank_share", FLOAT, "share of samples in which it is", nullable=True),
    Column(
        "input_tokens_per_second", FLOAT, "tokens of all ranks over the median; round-trips only", "1/s", nullable=True
    ),
)
_BYTES = tuple(
    column
    for name in CONVENTIONS
    for column in (
        Column(f"{name}_all_bytes", INT64, "dispatch and combine, over all ranks, local rows too", "B", nullable=True),
        Column(f"{name}_remote_bytes", INT64, "the part of it that leaves its rank (or domain)", "B", nullable=True),
        Column(
            f"{name}_logical_gb_per_s_per_rank",
            FLOAT,
            "all of it, over ranks and median: not what a link carries; round-trips only",
            "GB/s (1e9)",
            nullable=True,
        ),
    )
)

RECORDS = Table(
    "records",
    1,
    "What one attempt says of one series, or of one cell x boundary x mode that is known not to run. A row with `same_as` "
    "repeats the figures of that boundary, the work being the same.",
    (
        Column("campaign", TEXT, "name of the campaign"),
        *_ATTEMPT_KEY,
        *_PLACE,
        *_WHERE,
        Column("backend", TEXT, "library that the arm uses"),
        Column("api_mode", TEXT, "its interface in this profile"),
        Column("image", TEXT, "container image, by digest; null where starts are local processes", nullable=True),
        Column("hostnames", TEXT, "machines of its ranks, comma-separated; null where no rank said", nullable=True),
        Column("cell", TEXT, "cell, `ep<N>/<profile>/<route>/<dtype>`"),
        Column("route", TEXT, "which experts each token goes to"),
        Column("dtype", TEXT, "what dispatch carries"),
        *_SERIES,
        Column("same_as", TEXT, "boundary whose measurement this is too; null where it was measured", nullable=True),
        *_OUTCOME,
        Column(
            "cast_placement", TEXT, "who casts to FP8, inside or outside the timer; null if unsupported", nullable=True
        ),
        Column("permute_placement", TEXT, "who groups rows by expert; null if unsupported", nullable=True),
        Column("weight_placement", TEXT, "who applies gate weights; null if unsupported", nullable=True),
        Column("iterations", INT32, "timed round-trips; null if unsupported", nullable=True),
        Column("warmups", INT32, "untimed iterations before them; null if unsupported", nullable=True),
        Column("chain_length", INT32, "round-trips of one sample; null if unsupported", nullable=True),
        *_FIGURES,
        *_BYTES,
        Column(
            "rank_max_remote_bytes", INT64, "most that one rank's link carries in each direction", "B", nullable=True
        ),
        Column(
            "max_token_error_before",
            FLOAT,
            "oracle before timing: worst token, relative; null unless ok",
            nullable=True,
        ),
        Column("max_token_error_after", FLOAT, "oracle after timing: the same", nullable=True),
        Column("tolerance", FLOAT, "what BF16 rounding explains of it; the wider of both checks", nullable=True),
        Column("resolved", TEXT, "what the backend made of its knobs, as JSON; null unless ok", nullable=True),
        Column("timer_floor_ns", FLOAT, "elapsed time of an empty timed region, worst rank", "ns", nullable=True),
    ),
)

SAMPLES = Table(
    "samples",
    1,
    "Raw times of one sample on one rank, of attempts that count. A sample is `chain_length` round-trips, or one phase.",
    (
        Column("start", CODED, "start"),
        Column("attempt", INT32, "attempt"),
        Column("cell", CODED, "cell"),
        *(Column(column.name, CODED, column.meaning) for column in _SERIES),
        Column("chain_length", INT32, "round-trips of the sample"),
        Column("sample", INT32, "number of the sample in its series, from 0"),
        Column("rank", INT16, "rank"),
        Column("layout_ns", INT64, "layout phase; null where it is not timed apart", "ns", nullable=True),
        Column("dispatch_ns", INT64, "dispatch phase; the same", "ns", nullable=True),
        Column("combine_ns", INT64, "combine phase; the same", "ns", nullable=True),
        Column("roundtrip_ns", INT64, "the whole sample; null in loops of one phase", "ns", nullable=True),
    ),
)

TABLES = {table.name: table for table in (ATTEMPTS, SAMPLES, RECORDS, CELLS, CONTRASTS)}


_HEAD = """\
# Tables

Parquet files under `results/<campaign>/tables/`. Units and meanings also stand in the metadata of each column.

Generated by `make documents`; do not edit.
"""


def markdown() -> str:
    """The text of `docs/tables.md`."""
    parts = [_HEAD]
    for table in TABLES.values():
        parts.append(f"\n## `{table.name}` (version {table.version})\n\n{table.meaning}\n\n")
        parts.append("| column | type | unit | null | meaning |\n|---|---|---|---|---|\n")
        parts.extend(
            f"| `{column.name}` | {_type_name(column.type)} | {column.unit} | {'yes' if column.nullable else ''} "
            f"| {column.meaning} |\n"
            for column in table.columns
        )
    return "".join(parts)


def _type_name(kind: pa.DataType) -> str:
    return "string, dictionary-encoded" if kind == CODED else str(kind)
