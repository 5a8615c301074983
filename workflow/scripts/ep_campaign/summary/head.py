"""What was compared, how, and how far it got: the head of `statistics.json`."""

from __future__ import annotations

from enum import StrEnum

from pydantic import BaseModel

from ep_campaign.stats.paired_test import PairedTest
from ep_campaign.summary.base import CLOSED, Note
from ep_worker.contract.terms import ApiMode, Boundary, Device, Dtype, Mode


class State(StrEnum):
    """How far a campaign got.

    COMPLETE: every planned start has its records. ENDED_BY_BUDGET: so has every start of every round that began; the
    others were closed by the declared budget. PARTIAL: some start that should have an `ok` record has none.
    """

    COMPLETE = "complete"
    PARTIAL = "partial"
    ENDED_BY_BUDGET = "ended by its budget"


class Arm(BaseModel):
    """An arm as the plan declares it.

    Attributes:
        name: Name.
        backend: Name in the capability table.
        image: Container image by digest; None for local processes.
        api_modes: API mode by profile.
        knobs: What the backend is asked for.
        environment: Variables of this arm alone.
        environment_reasons: Why, by variable.
        build: Folders of its build where ranks run.
        commit: Source commit that its build must say.
    """

    model_config = CLOSED

    name: str
    backend: str
    image: str | None
    api_modes: dict[str, ApiMode]
    knobs: dict[str, bool | int | float | str]
    environment: dict[str, str]
    environment_reasons: dict[str, str]
    build: tuple[str, ...] = ()
    commit: str | None = None


class Profile(BaseModel):
    """A workload shape and how its cells are timed.

    Attributes:
        name: Name.
        shape_source: Entry of the shapes file, or None where the campaign gives the numbers itself.
        tokens_per_rank: Tokens of a rank (of the fullest, if ragged).
        max_tokens_per_rank: Capacity of buffers [tokens].
        hidden: Columns of a token.
        experts: Experts in all.
        top_k: Experts of a token.
        iterations: Timed iterations of a series.
        warmups: Untimed iterations before them.
        chain_length: Round-trips of one chained sample.
        threads_per_rank: CPU threads of a rank's kernels.
        boundaries: Boundaries measured.
        modes: Modes asked for (what an arm cannot do is among the unsupported rows).
        isolated_loops: Whether each phase is also timed alone.
    """

    model_config = CLOSED

    name: str
    shape_source: str | None
    tokens_per_rank: int
    max_tokens_per_rank: int
    hidden: int
    experts: int
    top_k: int
    iterations: int
    warmups: int
    chain_length: int
    threads_per_rank: int
    boundaries: tuple[Boundary, ...]
    modes: tuple[Mode, ...]
    isolated_loops: bool


class EpSize(BaseModel):
    """An EP size.

    Attributes:
        ranks: Ranks of the group.
        rounds: Declared rounds.
        ranks_per_pod: Ranks of one pod or host.
        num_pods: Pods; each is counted as one node.
        domain_size: Ranks of one scale-up domain.
        iterations: Timed iterations of a series, where this size overrides its profiles'; else None.
        scored: Whether its contrasts may belong to the family.
        ranks_per_device: Ranks that shared one GPU.
    """

    model_config = CLOSED

    ranks: int
    rounds: int
    ranks_per_pod: int
    num_pods: int
    domain_size: int
    iterations: int | None
    scored: bool
    ranks_per_device: int = 1


class Cell(BaseModel):
    """A row of a results table.

    Attributes:
        id: `ep<N>/<profile>/<route>/<dtype>`.
        ep_size: Ranks.
        profile: Profile.
        route: Route.
        route_kind: The route's formula.
        dtype: Dispatch dtype.
        scored: Whether its contrasts belong to the family.
        num_input_tokens: Tokens of all ranks.
        payload_bytes: Bytes of one round-trip over all ranks, by convention; None where no start said.
    """

    model_config = CLOSED

    id: str
    ep_size: int
    profile: str
    route: str
    route_kind: str
    dtype: Dtype
    scored: bool
    num_input_tokens: int
    payload_bytes: dict[str, Payload] | None


class Payload(BaseModel):
    """Bytes of one round-trip, dispatch and combine together, summed over ranks, in one convention.

    Attributes:
        all_bytes: With what stays on its rank (or in its domain).
        remote_bytes: Without.
    """

    model_config = CLOSED

    all_bytes: int
    remote_bytes: int


class Family(BaseModel):
    """The declared family and its rules.

    Attributes:
        num_contrasts: m; 0 where nothing is judged.
        alpha: Family-wise error rate.
        practical_threshold: Smallest |ratio - 1| of practical use.
        test: The paired test that decides.
        min_rounds: Fewest complete rounds that can decide the family; None where nothing is judged.
        assumed_start_cv: Spread that the plan assumed.
    """

    model_config = CLOSED

    num_contrasts: int
    alpha: float
    practical_threshold: float
    test: PairedTest
    min_rounds: int | None
    assumed_start_cv: float


class LateStart(BaseModel):
    """A start whose counting attempt began after its round had closed."""

    model_config = CLOSED

    start: str
    ep_size: int
    profile: str
    round: int
    arm: str
    attempt: int


class Head(BaseModel):
    """What a report says first.

    Attributes:
        campaign: Name.
        kind: What kind of question.
        plan_digest: SHA-256 of the plan.
        description: What is compared and why.
        device: Where ranks computed.
        seed: Of workload and order.
        order: `williams` or `published`.
        reference: The arm that every other is compared with.
        primary_boundary: Boundary of the verdicts.
        primary_mode: Mode of the verdicts.
        family: Declared family.
        arms: In the plan's order; tables and figures keep it.
        profiles: Likewise.
        ep_sizes: Likewise.
        cells: Likewise.
        state: How far it got.
        state_reasons: Why it is not complete; empty where it is.
        late_starts: Started again after their round had closed.
        mixed_workers: Whether records come from more than one worker version.
        warnings: Of the plan, of validation, and of the analysis.
    """

    model_config = CLOSED

    campaign: str
    kind: str
    plan_digest: str
    description: str
    device: Device
    seed: int
    order: str
    reference: str
    primary_boundary: Boundary
    primary_mode: Mode
    family: Family
    arms: tuple[Arm, ...]
    profiles: tuple[Profile, ...]
    ep_sizes: tuple[EpSize, ...]
    cells: tuple[Cell, ...]
    state: State
    state_reasons: tuple[Note, ...]
    late_starts: tuple[LateStart, ...]
    mixed_workers: bool
    warnings: tuple[Note, ...]
