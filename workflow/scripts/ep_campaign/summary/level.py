"""What one arm takes in one cell, and where it has no number and why.

Units: latencies in microseconds [us] of the slowest rank, for one round-trip (or one phase alone, in an isolated loop);
rates per second; bandwidths in GB/s (1e9 bytes).
"""

from __future__ import annotations

from pydantic import BaseModel, JsonValue

from ep_campaign.stats.printable import Printable
from ep_campaign.summary.base import CLOSED, Interval
from ep_worker.contract.terms import ApiMode, Boundary, Dtype, Loop, Mode, Placement, Status


class Missing(BaseModel):
    """A planned start that has no `ok` record of a series.

    Attributes:
        round: Round.
        attempt: The attempt that counts; None where there was none.
        status: What became of it; None where no job of the start has ended.
        reason_code: Stable code.
        reason: One sentence.
    """

    model_config = CLOSED

    round: int
    attempt: int | None
    status: Status | None
    reason_code: str
    reason: str


class Unsupported(BaseModel):
    """What an arm is known not to do; a row of the results, never a blank.

    Attributes:
        cell: Cell id.
        arm: Arm.
        boundary: Boundary, or `*` for all.
        mode: Mode, or `*` for all.
        reason_code: Stable code.
        reason: One sentence.
        source: Where the fact stands.
    """

    model_config = CLOSED

    cell: str
    arm: str
    boundary: str
    mode: str
    reason_code: str
    reason: str
    source: str


class Level(BaseModel):
    """One arm in one cell at one boundary, in one mode and loop, over its starts.

    Medians, ranges and rates are there from one start on; `printable` says what a report may show of them. The interval
    and the coefficient of variation are None where they may not be shown.

    Attributes:
        cell: Cell id.
        ep_size: Ranks.
        profile: Profile.
        route: Route.
        dtype: Dispatch dtype.
        boundary: Boundary.
        mode: Mode.
        loop: Whole round-trips, or one phase alone.
        arm: Arm.
        primary: Whether this is the primary boundary and mode, whole round-trips.
        backend: Backend.
        api_mode: The interface that this profile uses.
        same_as: Boundary whose samples serve this one too, the work being the same; None where it was measured itself.
        cast_placement: Who makes FP8 of BF16.
        permute_placement: Who groups rows by local expert.
        weight_placement: Who applies the gate weights.
        iterations: Timed iterations of a start.
        warmups: Untimed iterations before them.
        chain_length: Round-trips of one sample.
        num_rounds: Planned rounds.
        rounds: Rounds with an `ok` start, rising.
        values_us: Start values (median over iterations of the slowest rank), one for each of `rounds`.
        late_rounds: Those of `rounds` whose start came late.
        missing: Planned starts without a value.
        median_us: Median of the start values; None without a start.
        interval_us: Exact interval of that median.
        min_us: Smallest start value.
        max_us: Largest start value.
        cv: Coefficient of variation of the start values.
        layout_us: Median over starts of the phase's median; None where it is not a phase of its own.
        dispatch_us: Likewise.
        combine_us: Likewise.
        phase_values_us: By phase (`layout`, `dispatch`, `combine`), each start's own median, where starts are too few for a
            median over them; else empty.
        p90_us: Median over starts of the start's own percentile; None where a start has too few samples for it.
        p95_us: Likewise.
        p99_us: Likewise.
        input_tokens_per_second: Median over starts, tokens of all ranks; None in an isolated loop.
        logical_gb_per_s_per_rank: By byte convention, median over starts [GB/s]: an average rank's bytes, with what
            stays local, over the round-trip; empty in an isolated loop.
        num_spikes_all_ranks: Iterations above 1.5 x their start's median on most ranks, over all starts.
        num_spikes_one_rank: The other such iterations.
        unsteady_rounds: Those of `rounds` whose halves differ by more than 5 %.
        slowest_rank: The rank that is most often slowest in most starts.
        slowest_rank_share: Median over starts of the share of iterations in which the start's own slowest rank is it.
        timer_floor_us: Median over starts of an empty timed region.
        resolved: What the backend made of its knobs (`num_sms`, `buffer_bytes`, ...): each distinct answer of its starts,
            in the order of rounds; usually one.
        max_token_error: Largest per-token error that an oracle saw, before or after timing.
        tolerance: What the oracle allows.
        printable: What may be shown at this number of starts.
        warnings: What is missing and what would mend it.
    """

    model_config = CLOSED

    cell: str
    ep_size: int
    profile: str
    route: str
    dtype: Dtype
    boundary: Boundary
    mode: Mode
    loop: Loop
    arm: str
    primary: bool
    backend: str
    api_mode: ApiMode
    same_as: Boundary | None
    cast_placement: Placement
    permute_placement: Placement
    weight_placement: Placement
    iterations: int
    warmups: int
    chain_length: int
    num_rounds: int
    rounds: tuple[int, ...]
    values_us: tuple[float, ...]
    late_rounds: tuple[int, ...]
    missing: tuple[Missing, ...]
    median_us: float | None
    interval_us: Interval | None
    min_us: float | None
    max_us: float | None
    cv: float | None
    layout_us: float | None
    dispatch_us: float | None
    combine_us: float | None
    phase_values_us: dict[str, tuple[float, ...]]
    p90_us: float | None
    p95_us: float | None
    p99_us: float | None
    input_tokens_per_second: float | None
    logical_gb_per_s_per_rank: dict[str, float]
    num_spikes_all_ranks: int
    num_spikes_one_rank: int
    unsteady_rounds: tuple[int, ...]
    slowest_rank: int | None
    slowest_rank_share: float | None
    timer_floor_us: float | None
    resolved: tuple[dict[str, JsonValue], ...]
    max_token_error: float | None
    tolerance: float | None
    printable: Printable
    warnings: tuple[str, ...]


class EpPoint(BaseModel):
    """One arm at one EP size; never compared with another size by a verdict.

    Attributes:
        ep_size: Ranks.
        num_starts: Starts with a value.
        median_us: Latency.
        interval_us: Its exact interval.
        input_tokens_per_second: Tokens of all ranks: the only throughput that is comparable across EP sizes.
    """

    model_config = CLOSED

    ep_size: int
    num_starts: int
    median_us: float
    interval_us: Interval | None
    input_tokens_per_second: float


class EpAxis(BaseModel):
    """One arm over EP sizes at the primary boundary and mode: described, never judged.

    Attributes:
        profile: Profile.
        route: Route.
        dtype: Dispatch dtype.
        arm: Arm.
        points: By EP size, rising; a size without a start is missing.
    """

    model_config = CLOSED

    profile: str
    route: str
    dtype: Dtype
    arm: str
    points: tuple[EpPoint, ...]
