"""The Parquet tables of elastic campaigns: every column with its type, unit and meaning, frozen."""

from __future__ import annotations

from ep_campaign.table import BOOL, FLOAT, INT32, INT64, TEXT, Column, Table

_START = (
    Column("start", TEXT, "start, `w<width>/<state>/round-<RR>/<arm>`: one serving sweep or one live resize"),
    Column("attempt", INT32, "number of the try at it, from 1"),
    Column("counted", BOOL, "whether it counts: the last attempt of its start's last job"),
    Column("round", INT32, "repeat, from 1"),
    Column("state", TEXT, "what was done with the width"),
    Column("arm", TEXT, "configuration of the target"),
    Column("width", INT32, "the state's last width"),
)

ELASTIC_ATTEMPTS = Table(
    "elastic_attempts",
    1,
    "One try at an elastic start, also of one that failed.",
    (
        *_START,
        Column("order_position", INT32, "place of its arm in its round and state, from 1"),
        Column(
            "status",
            TEXT,
            "`ok`, `crashed`, `timed_out`, `incorrect` (another verdict than expected) or `inadmissible`",
        ),
        Column("reason_code", TEXT, "why it is not ok, as a stable word; empty if ok"),
        Column("reason", TEXT, "why it is not ok, as a sentence; empty if ok"),
        Column("infrastructure", BOOL, "whether it was tried again"),
        Column("teardown", TEXT, "`ok`, `failed` or `not_reached`"),
        Column("began_utc", TEXT, "controller's clock when it began; null where it was interrupted", nullable=True),
        Column(
            "seconds", FLOAT, "duration on the controller's clock; null where it was interrupted", "s", nullable=True
        ),
        Column("client_calls", TEXT, "completion calls by status as clients saw them, as JSON"),
        Column("num_unseen", INT32, "calls whose end no client saw"),
        Column(
            "server_calls",
            TEXT,
            "completion calls by status as servers logged them, as JSON; null without a log",
            nullable=True,
        ),
        Column(
            "ttft_bias_p50_ms",
            FLOAT,
            "client's error of the first token, known delays; null in a resize",
            "ms",
            nullable=True,
        ),
        Column("ttft_bias_p95_ms", FLOAT, "the same, 95th percentile", "ms", nullable=True),
        Column("gap_error_p95_ms", FLOAT, "client's absolute error of a gap, 95th percentile", "ms", nullable=True),
        Column("calibration_concurrency", INT32, "requests in flight of that measurement", nullable=True),
        Column("provenance", TEXT, "what the driver observed, as JSON"),
    ),
)

REQUESTS = Table(
    "requests",
    1,
    "One request of any phase. Times are on the monotonic clock of the machine of the client; what was not seen is null.",
    (
        Column("start", TEXT, "start"),
        Column("attempt", INT32, "attempt"),
        Column("cell", TEXT, "cell, or `load` of a resize"),
        Column("stream", TEXT, "stream within the cell"),
        Column("number", INT32, "number in its stream, from 0"),
        Column("phase", TEXT, "`warmup`, `measured`, `load` or `probe`"),
        Column("endpoint", INT32, "place of its deployment"),
        Column("worker", INT32, "worker of a closed loop; null in an open one", nullable=True),
        Column("path", TEXT, "what was asked"),
        Column("scheduled_ns", INT64, "when it was due", "ns"),
        Column("sent_ns", INT64, "when it was handed to the kernel", "ns", nullable=True),
        Column("headers_ns", INT64, "when the head of the answer was there", "ns", nullable=True),
        Column("first_chunk_ns", INT64, "first event, which may be a role alone", "ns", nullable=True),
        Column("first_content_ns", INT64, "first event with content", "ns", nullable=True),
        Column("last_content_ns", INT64, "last event with content", "ns", nullable=True),
        Column("done_ns", INT64, "when the answer was whole", "ns", nullable=True),
        Column("status", INT32, "HTTP status", nullable=True),
        Column("success", BOOL, "200, content, finish reason, usage, end mark, and no error within"),
        Column("error_class", TEXT, "why not; empty on success"),
        Column("error", TEXT, "words to it"),
        Column("finish_reason", TEXT, "why generation ended", nullable=True),
        Column("prompt_tokens", INT32, "as the server counts them", nullable=True),
        Column("completion_tokens", INT32, "as the server counts them", nullable=True),
        Column(
            "cached_tokens",
            INT32,
            "of the prompt, from a prefix cache; null where the server does not say",
            nullable=True,
        ),
        Column("num_bytes", INT32, "bytes of the answer", "B"),
        Column("saw_done", BOOL, "whether the stream ended with its mark"),
    ),
)

CHUNKS = Table(
    "chunks",
    1,
    "One event of one request's stream.",
    (
        Column("start", TEXT, "start"),
        Column("attempt", INT32, "attempt"),
        Column("cell", TEXT, "cell, or `load` of a resize"),
        Column("stream", TEXT, "stream within the cell"),
        Column("number", INT32, "request's number in its stream"),
        Column("at_ns", INT64, "when the read that completed it came", "ns"),
        Column("has_content", BOOL, "whether it carries content"),
        Column("num_tokens", INT32, "output tokens so far, as the server says; null where it does not", nullable=True),
    ),
)


def _percentiles(name: str, meaning: str) -> tuple[Column, ...]:
    return (
        Column(f"num_{name}", INT32, f"{meaning}: their number"),
        Column(f"{name}_p50_ms", FLOAT, f"{meaning}: median; null without any", "ms", nullable=True),
        Column(f"{name}_p95_ms", FLOAT, f"{meaning}: 95th percentile; null below 20", "ms", nullable=True),
        Column(f"{name}_p99_ms", FLOAT, f"{meaning}: 99th percentile; null below 100", "ms", nullable=True),
    )


PASSES = Table(
    "passes",
    1,
    "One run of one cell in one start: figures over its requests that succeeded, warm-ups left out.",
    (
        *_START,
        Column("cell", TEXT, "cell, or `load` of a resize"),
        Column("num_requests", INT32, "requests that count"),
        Column("num_ok", INT32, "of these, that succeeded"),
        *_percentiles("ttft", "times from send to first content"),
        *_percentiles("tpot", "times per output token after the first, of each request"),
        *_percentiles("itl", "gaps between chunks with content, pooled over requests"),
        *_percentiles("e2e", "times from send to the end of the answer"),
        *_percentiles("client_wait", "times from due to send, the client's own"),
        Column("window_s", FLOAT, "from the first send to the last end; null where none succeeded", "s", nullable=True),
        Column("output_tokens", INT64, "output tokens of requests that succeeded"),
        Column("output_tokens_per_s", FLOAT, "of these, over the window", "1/s", nullable=True),
        Column("output_tokens_per_s_per_gpu", FLOAT, "the same over the state's accelerators", "1/s", nullable=True),
        Column("ms_per_output_token", FLOAT, "the window over the tokens", "ms", nullable=True),
        Column("num_within_targets", INT32, "requests within the campaign's targets"),
        Column("goodput_per_gpu_hour", FLOAT, "of these, an hour and accelerator", "1/h", nullable=True),
        Column("prompt_tokens_min", INT32, "least prompt, as served", nullable=True),
        Column("prompt_tokens_max", INT32, "longest prompt, as served", nullable=True),
        Column("output_tokens_min", INT32, "least output", nullable=True),
        Column("output_tokens_max", INT32, "longest output", nullable=True),
        Column(
            "prefix_cache_hit_share",
            FLOAT,
            "prompt tokens from a cache; null where the server does not say",
            nullable=True,
        ),
        Column("finish_reasons", TEXT, "why generation ended, each with its count"),
        Column("lateness_p99_ms", FLOAT, "how late the client's loop woke, 99th percentile", "ms", nullable=True),
        Column("valid", BOOL, "whether the client was on time"),
        Column("invalid_reason", TEXT, "why not; empty if it was"),
    ),
)

RESIZES = Table(
    "resizes",
    1,
    "One live resize, under load or before a sweep. Durations begin with the request to resize.",
    (
        *_START,
        Column("old_width", INT32, "from"),
        Column("new_width", INT32, "to"),
        Column("under_load", BOOL, "whether load ran throughout"),
        Column("sent_ns", INT64, "when it was asked for, on the monotonic clock", "ns"),
        Column("ended_ns", INT64, "when its verdict fell", "ns"),
        Column("verdict", TEXT, "`converged`, `refused`, `failed`, `timed_out`, `unprovable`, `drifted` or `lost`"),
        Column("reason", TEXT, "words to it"),
        Column("answered_s", FLOAT, "until the request was answered; null where it was not", "s", nullable=True),
        Column(
            "forwards_s",
            FLOAT,
            "until every rank first answered a completion; null where they never did",
            "s",
            nullable=True,
        ),
        Column(
            "converged_s", FLOAT, "until every rule had held twice in a row; null unless converged", "s", nullable=True
        ),
        Column(
            "poll_max_s", FLOAT, "longest time between two looks: it bounds every duration above", "s", nullable=True
        ),
        Column("endpoint_gone_at_least_s", FLOAT, "endpoint withdrawn, by the looks: certain part", "s"),
        Column(
            "endpoint_gone_at_most_s",
            FLOAT,
            "the same: possible part; null where nothing bounds it",
            "s",
            nullable=True,
        ),
        Column("num_client_errors", INT32, "load requests without success; null without load", nullable=True),
        Column("num_client_503", INT32, "of these, 503; null without load", nullable=True),
        Column("num_load_requests", INT32, "load requests; null without load", nullable=True),
        Column("num_probes", INT32, "requests of the prober; null without load", nullable=True),
        Column("num_probe_errors", INT32, "of these, without success", nullable=True),
        Column("num_probe_503", INT32, "of these, 503", nullable=True),
        Column("probe_gone_at_least_s", FLOAT, "answers of the prober withdrawn: certain part", "s", nullable=True),
        Column(
            "probe_gone_at_most_s", FLOAT, "the same: possible part; null where nothing bounds it", "s", nullable=True
        ),
        Column("gap_before_p50_ms", FLOAT, "median gap of the load before the request", "ms", nullable=True),
        Column("gap_max_ms", FLOAT, "largest gap of the load that touches the resize", "ms", nullable=True),
        Column("gap_max_steps", FLOAT, "the same in median gaps of before", nullable=True),
        Column("rate_before_per_s", FLOAT, "output tokens a second before the request", "1/s", nullable=True),
        Column("rate_during_per_s", FLOAT, "the same during the resize", "1/s", nullable=True),
        Column("rate_after_per_s", FLOAT, "the same after it", "1/s", nullable=True),
        Column(
            "lost_tokens",
            FLOAT,
            "tokens that the rate of before would have made during it, less those made",
            nullable=True,
        ),
        Column(
            "members_retained", BOOL, "members of before are the same after; null where none are shown", nullable=True
        ),
        Column(
            "marks",
            TEXT,
            "seconds after the request at which each rule first held and each word was first seen, as JSON",
        ),
        Column("num_restarts", INT32, "restarts that members counted; null where none counts any", nullable=True),
    ),
)

ELASTIC_TABLES = (ELASTIC_ATTEMPTS, REQUESTS, CHUNKS, PASSES, RESIZES)
