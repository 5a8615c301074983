"""What it took: attempts and their failures, teardowns, time, money, budget; and what the spread advises for next time."""

from __future__ import annotations

from pydantic import BaseModel, JsonValue

from ep_campaign.summary.base import CLOSED
from ep_worker.contract.terms import Status


class FailureCount(BaseModel):
    """Failed attempts of one arm that ended alike.

    Attributes:
        status: How they ended.
        reason_code: Why.
        infrastructure: Whether the machine, not the arm, is taken for the cause.
        num_attempts: How many.
    """

    model_config = CLOSED

    status: Status
    reason_code: str
    infrastructure: bool
    num_attempts: int


class Launches(BaseModel):
    """Launches of one arm: k of n attempts failed, a result of its own.

    Attributes:
        arm: Arm.
        num_starts: Planned starts.
        num_ok_starts: Starts whose counting attempt is `ok`.
        num_not_run: Starts that a declared rule closed before they began.
        num_attempts: Attempts that were launched.
        num_failed: Those that did not end `ok`.
        failures: By kind.
    """

    model_config = CLOSED

    arm: str
    num_starts: int
    num_ok_starts: int
    num_not_run: int
    num_attempts: int
    num_failed: int
    failures: tuple[FailureCount, ...]


class Gangs(BaseModel):
    """What a cluster added to the time of the ranks themselves, on the controller's clock.

    Attributes:
        num_attempts: Attempts whose gang ran and was removed.
        start_s: Median from asking for a gang until all of its pods ran [s].
        end_s: Median from the end of its last pod until the proof that it was gone [s].
    """

    model_config = CLOSED

    num_attempts: int
    start_s: float
    end_s: float


class Custody(BaseModel):
    """Counts over all attempts.

    Attributes:
        num_attempts: Attempts that were launched.
        num_interrupted: Those whose controller died.
        num_retried_starts: Starts with more than one attempt.
        num_late_starts: Starts whose counting attempt came late.
        teardowns: Attempts by how the backend was torn down: `ok`, `failed`, `not_reached`.
        gangs: What a cluster added to the ranks' own time; None where starts were no gangs.
    """

    model_config = CLOSED

    num_attempts: int
    num_interrupted: int
    num_retried_starts: int
    num_late_starts: int
    teardowns: dict[str, int]
    gangs: Gangs | None = None


class Observed(BaseModel):
    """What the starts of one arm at one EP size that count as `ok` saw of themselves: the runtime, observed and not echoed.

    Attributes:
        ep_size: Ranks.
        arm: Arm.
        num_starts: Starts that were asked.
        images: Container images by digest; empty for local processes.
        worker_digests: SHA-256 of the worker's sources.
        git_commits: Commits of the controller's checkout, `+dirty` where files differed; empty outside of git.
        same: Provenance fields on which every rank of every start agrees, with their value.
        varying: The other fields, whose values stand in each start's record.
    """

    model_config = CLOSED

    ep_size: int
    arm: str
    num_starts: int
    images: tuple[str, ...]
    worker_digests: tuple[str, ...]
    git_commits: tuple[str, ...]
    same: dict[str, JsonValue]
    varying: tuple[str, ...]


class Duration(BaseModel):
    """Time of the attempts of one arm at one EP size; admission runs are not among them.

    Attributes:
        ep_size: Ranks.
        arm: Arm.
        num_attempts: Attempts that were launched.
        seconds: Their wall time [s], as the controller saw it.
        node_hours: Seconds x pods / 3600 [h].
    """

    model_config = CLOSED

    ep_size: int
    arm: str
    num_attempts: int
    seconds: float
    node_hours: float


class Cost(BaseModel):
    """What the attempts cost, in the plan's currency; only where the plan has a price.

    Attributes:
        currency: Unit of money.
        price_per_node_hour: The plan's.
        total: Node-hours x price.
        num_verdicts: Family contrasts that could be judged (any verdict but `too few starts`).
        per_verdict: Total over those; None where there is none.
    """

    model_config = CLOSED

    currency: str
    price_per_node_hour: float
    total: float
    num_verdicts: int
    per_verdict: float | None


class Budget(BaseModel):
    """The declared bound on time, and what it closed.

    Attributes:
        budget_hours: Hours of the node set; None for no bound.
        spent_hours: Wall time of all attempts and of admission [h]: what the controller holds against the budget.
        admission_hours: Admission's part of it [h].
        closed_rounds: By EP size (as text), rounds that never began for it.
    """

    model_config = CLOSED

    budget_hours: float | None
    spent_hours: float
    admission_hours: float
    closed_rounds: dict[str, tuple[int, ...]]


class Advice(BaseModel):
    """How many iterations the campaign's own spread advises, for one EP size and profile. Never a veto.

    Attributes:
        ep_size: Ranks.
        profile: Profile.
        iterations: Declared.
        start_sd_log: Between starts, iterations' share taken out; root mean square over arms and primary cells.
        iteration_sd_log: Between the iterations of a start; likewise.
        start_cost_s: What a start costs beside its iterations [s], median over starts.
        iteration_cost_s: What one more iteration of every series costs [s], median over starts.
        advised_iterations: Iterations that give a standard error at least cost; None where starts do not differ beyond
            their iterations, so that more are always worth it.
        standard_error_penalty: By what factor the declared number raises the standard error over the advised one, for
            equal machine time; None where nothing is advised.
    """

    model_config = CLOSED

    ep_size: int
    profile: str
    iterations: int
    start_sd_log: float
    iteration_sd_log: float
    start_cost_s: float
    iteration_cost_s: float
    advised_iterations: int | None
    standard_error_penalty: float | None
