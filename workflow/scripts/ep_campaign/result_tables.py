"""The tables that the analysis writes: `cells` and `contrasts`, the flat forms of the summary's levels and contrasts."""

from __future__ import annotations

import pyarrow as pa

from ep_campaign.table import BOOL, FLOAT, INT32, TEXT, Column, Table
from ep_worker.contract.accounting import CONVENTIONS

# "element" is Parquet's name for what a list holds: with it a file reads back as the schema that wrote it.
FLOATS, NUMBERS, TEXTS = (pa.list_(pa.field("element", kind)) for kind in (FLOAT, INT32, TEXT))


def _us(name: str, meaning: str) -> Column:
    return Column(name, FLOAT, f"{meaning}; null without a start", "us", nullable=True)


_CELL = (
    Column("cell", TEXT, "cell, `ep<N>/<profile>/<route>/<dtype>`"),
    Column("ep_size", INT32, "ranks of the expert-parallel group"),
    Column("profile", TEXT, "workload shape"),
    Column("route", TEXT, "which experts each token goes to"),
    Column("dtype", TEXT, "what dispatch carries"),
    Column("boundary", TEXT, "where timing starts and ends"),
    Column("mode", TEXT, "how an iteration is started"),
    Column("loop", TEXT, "`roundtrip`, or one phase alone with a fixed handle"),
    Column("arm", TEXT, "what is compared"),
)

_PHASES = (
    _us("layout_us", "median over starts of the layout phase's median, slowest rank; also null where not timed apart"),
    _us("dispatch_us", "the same of dispatch"),
    _us("combine_us", "the same of combine"),
    _us("p90_us", "median over starts of a start's own 90th percentile; also null where a start has none"),
    _us("p95_us", "the same of the 95th percentile"),
    _us("p99_us", "the same of the 99th percentile"),
)

CELLS = Table(
    "cells",
    1,
    "One arm in one cell at one boundary, in one mode and loop, over its starts. The replicate is the start: its value is "
    "the median over iterations of the slowest rank. Rows without a start are there, with their reasons.",
    (
        *_CELL,
        Column("primary", BOOL, "whether verdicts are made at this boundary, mode and loop"),
        Column("backend", TEXT, "library that the arm uses"),
        Column("api_mode", TEXT, "its interface in this profile"),
        Column("same_as", TEXT, "boundary whose measurement this is too; null where it was measured", nullable=True),
        Column("cast_placement", TEXT, "who casts to FP8, inside or outside the timer"),
        Column("permute_placement", TEXT, "who groups rows by expert"),
        Column("weight_placement", TEXT, "who applies gate weights"),
        Column("iterations", INT32, "timed round-trips of a start"),
        Column("warmups", INT32, "untimed iterations before them"),
        Column("chain_length", INT32, "round-trips of one sample"),
        Column("num_rounds", INT32, "planned rounds"),
        Column("num_starts", INT32, "rounds with an ok start"),
        Column("rounds", NUMBERS, "those rounds, rising"),
        Column("values_us", FLOATS, "their start values, in the same order", "us"),
        Column("late_rounds", NUMBERS, "those whose start began after its round had closed"),
        Column("missing_rounds", NUMBERS, "planned rounds without an ok start"),
        Column("missing_statuses", TEXTS, "what became of them; null where no job of the start has ended"),
        Column("missing_reason_codes", TEXTS, "why"),
        _us("median_us", "median of the start values"),
        _us("median_lo_us", "lower end of its exact interval; also null below the starts that one needs"),
        _us("median_hi_us", "upper end"),
        Column("median_level", FLOAT, "true level of that interval; null where there is none", nullable=True),
        _us("min_us", "least start value"),
        _us("max_us", "largest start value"),
        Column("cv", FLOAT, "standard deviation of start values over their mean; null as the interval", nullable=True),
        *_PHASES,
        Column(
            "input_tokens_per_second",
            FLOAT,
            "median over starts, tokens of all ranks; null without a start and in loops of one phase",
            "1/s",
            nullable=True,
        ),
        *(
            Column(
                f"{name}_gb_per_s_per_rank",
                FLOAT,
                "median over starts of an average rank's bytes over the round-trip, local rows too; null as the tokens",
                "GB/s (1e9)",
                nullable=True,
            )
            for name in CONVENTIONS
        ),
        Column(
            "num_spikes_all_ranks", INT32, "samples above 1.5 x their start's median on most ranks, over all starts"
        ),
        Column("num_spikes_one_rank", INT32, "the other such samples"),
        Column("unsteady_rounds", NUMBERS, "rounds whose start's halves differ by more than 5 %"),
        Column("slowest_rank", INT32, "rank that is most often slowest in most starts; null without", nullable=True),
        Column("slowest_rank_share", FLOAT, "median over starts of its share of samples", nullable=True),
        _us("timer_floor_us", "median over starts of an empty timed region"),
        Column("resolved", TEXTS, "what the backend made of its knobs, as JSON: each distinct answer of its starts"),
        Column("max_token_error", FLOAT, "largest error that an oracle saw, relative; null without", nullable=True),
        Column("tolerance", FLOAT, "what BF16 rounding explains of it; null without a start", nullable=True),
        Column("warnings", TEXTS, "what is missing and what would mend it"),
    ),
)

_FAMILY = "null outside the family and below the rounds that an interval needs"
_INTERVAL = "null below the rounds that an interval needs"

CONTRASTS = Table(
    "contrasts",
    1,
    "One arm against the reference in one cell at one boundary, in one mode and loop. Ratio = arm / reference: below 1 the "
    "arm is faster. Only the family is judged.",
    (
        *_CELL,
        Column("reference", TEXT, "the arm that it is compared with"),
        Column("role", TEXT, "`family` (judged), `descriptive` (primary, not judged) or `secondary` (elsewhere)"),
        Column("num_rounds", INT32, "planned rounds"),
        Column("num_complete_rounds", INT32, "rounds in which both arms have an ok start"),
        Column("rounds", NUMBERS, "those rounds, rising"),
        Column("ratios", FLOATS, "their ratios, in the same order"),
        Column("excluded_rounds", NUMBERS, "the other rounds, once for each arm that has no ok start in them"),
        Column("excluded_arms", TEXTS, "that arm"),
        Column("excluded_statuses", TEXTS, "what became of its start; null where no job of it has ended"),
        Column("excluded_reason_codes", TEXTS, "why"),
        Column(
            "arm_median_us", FLOAT, "median of the arm's values in complete rounds; null without", "us", nullable=True
        ),
        Column("reference_median_us", FLOAT, "the same of the reference", "us", nullable=True),
        Column("ratio_of_medians", FLOAT, "the first over the second; null below three rounds", nullable=True),
        Column(
            "ratio", FLOAT, f"estimate of the declared test (Hodges-Lehmann, or median); {_INTERVAL}", nullable=True
        ),
        Column("ratio_lo", FLOAT, f"lower end of its exact interval; {_INTERVAL}", nullable=True),
        Column("ratio_hi", FLOAT, "upper end", nullable=True),
        Column("ratio_level", FLOAT, "true level of that interval", nullable=True),
        Column("ratio_sd_log", FLOAT, f"standard deviation of log ratios; {_INTERVAL}", nullable=True),
        Column(
            "resolvable_percent",
            FLOAT,
            "smallest effect that as many rounds show with a power of .8 at this spread; null as p and as the interval",
            "%",
            nullable=True,
        ),
        Column("p", FLOAT, f"exact two-sided p of the declared test, not adjusted; {_FAMILY}", nullable=True),
        Column(
            "adjusted_p",
            FLOAT,
            "Holm-adjusted over the family; null outside it and below the rounds that it needs",
            nullable=True,
        ),
        Column("sign_p", FLOAT, f"exact two-sided p of the sign test; {_FAMILY}", nullable=True),
        Column("best_p", FLOAT, "least p that as many rounds can give; null without a round", nullable=True),
        Column("num_faster", INT32, "complete rounds in which the arm was faster"),
        Column("num_slower", INT32, "in which it was slower"),
        Column("num_equal", INT32, "in which both took the same time"),
        Column(
            "verdict",
            TEXT,
            "`faster`, `slower`, `not resolved` or `too few starts`; null where nothing is judged",
            nullable=True,
        ),
        Column("qualifiers", TEXTS, "reservations about it"),
        Column("verdict_without_late", TEXT, "the same without late starts; null where there is none", nullable=True),
        Column("qualifiers_without_late", TEXTS, "reservations about that"),
        Column(
            "withheld", TEXT, "what stands in place of what may not be shown, as a sentence; empty where nothing is"
        ),
        Column("warnings", TEXTS, "what is missing and what would mend it"),
    ),
)
