"""The campaign file: its sections and fields, each with its meaning and unit.

These models are the single source of `config/campaign.schema.json`, `config/campaign.annotated.yaml` and the tables of
`config/README.md`; a test fails when those drift.
"""

from __future__ import annotations

import re
from decimal import Decimal
from enum import Enum, StrEnum
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from ep_campaign.stats.paired_test import PairedTest
from ep_worker.contract.terms import ApiMode, Boundary, Device, Dtype, Mode
from ep_worker.contract.workload import RouteKind

CAMPAIGN_SCHEMA = "ep-campaign/campaign/1"
IMAGE_BY_DIGEST = re.compile(r"^[^@\s]+@sha256:[0-9a-f]{64}\Z")

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,62}$")]
Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
VariableValue = Annotated[str, Field(pattern=r"^[^\x00]*$")]
Seconds = Annotated[float, Field(gt=0, le=86_400)]
Fraction = Annotated[Decimal, Field(ge=0, le=1)]
Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")]
BuildFolder = Annotated[str, Field(pattern=r"^/[^\x00:]*$")]


class Section(BaseModel):
    """A section of a campaign: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        annotation = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, bool) and not {bool, Any} & {annotation, *get_args(annotation)}:
            msg = f"expected {type_text(annotation)}, and true or false is none"
            raise ValueError(msg)
        return value


class Order(StrEnum):
    """How arms take turns."""

    WILLIAMS = "williams"
    PUBLISHED = "published"


class Arm(Section):
    """One thing that is compared: backend, image, environment and knobs. Two builds of a backend are two arms."""

    name: Name = Field(description="Name of the arm, unique in the campaign; also a folder name.")
    backend: str = Field(description="Backend, a name of the capability table (`make plan` lists what it rejects).")
    image: str | None = Field(
        default=None,
        description="Container image by digest (`repository@sha256:...`); null where starts run as local processes.",
    )
    api_modes: dict[str, ApiMode] = Field(
        default_factory=dict,
        description="API mode for each profile name; may be left out for a backend that has only one.",
    )
    knobs: dict[str, int | float | str | bool] = Field(
        default_factory=dict,
        description="What the backend is asked for (`num_sms`, `num_qps`, ...); recorded as requested and as resolved.",
    )
    environment: dict[Variable, VariableValue] = Field(
        default_factory=dict, description="Environment variables of this arm's ranks, set before anything is imported."
    )
    environment_reasons: dict[Variable, str] = Field(
        default_factory=dict,
        description="For each variable in which this arm differs from another: why. An undeclared difference is refused.",
    )
    build: tuple[BuildFolder, ...] = Field(
        default=(),
        description="Folders that hold this arm's build, absolute, where ranks run; they stand first on the ranks' import path.",
    )
    commit: Commit | None = Field(
        default=None,
        description="Source commit that the build must say it was made from; a start that finds another is refused. Null: any.",
    )

    @field_validator("image")
    @classmethod
    def _by_digest(cls, value: str | None) -> str | None:
        if value is not None and not IMAGE_BY_DIGEST.match(value):
            msg = f"image {value!r} is not pinned by digest; expected repository@sha256:<64 hex digits>: a tag can move"
            raise ValueError(msg)
        return value


class Profile(Section):
    """A workload shape. Either `shape` names a model of `config/shapes.yaml`, or hidden, experts and top_k are given."""

    name: Name = Field(description="Name of the profile, such as decode or prefill; also a folder name.")
    tokens_per_rank: int = Field(gt=0, le=1 << 20, description="Tokens of a rank [tokens]; of the fullest, if ragged.")
    max_tokens_per_rank: int | None = Field(
        default=None, gt=0, le=1 << 20, description="Capacity of buffers [tokens]; null for tokens_per_rank."
    )
    shape: str | None = Field(
        default=None, description="Model in config/shapes.yaml that gives hidden, experts, top_k."
    )
    hidden: int | None = Field(default=None, gt=0, le=1 << 16, description="Columns of a token; a multiple of 128.")
    experts: int | None = Field(
        default=None, gt=0, le=1 << 16, description="Experts in all; a multiple of each EP size."
    )
    top_k: int | None = Field(default=None, gt=0, le=64, description="Experts of a token.")
    iterations: int | None = Field(default=None, gt=0, le=100_000, description="Overrides measurement.iterations.")
    warmups: int | None = Field(default=None, ge=0, le=100_000, description="Overrides measurement.warmups.")
    expected_start_s: Seconds = Field(
        default=60.0, description="How long one start is expected to take [s]; for the plan's duration and cost only."
    )


class SweepModel(Section):
    """Profiles that differ in tokens per rank alone: one a number, named `t<number>`; in place of `profiles`."""

    tokens_per_rank: tuple[Annotated[int, Field(gt=0, le=1 << 20)], ...] = Field(
        min_length=2, description="Tokens of a rank [tokens], rising."
    )
    shape: str | None = Field(default=None, description="As in `profiles`.")
    hidden: int | None = Field(default=None, gt=0, le=1 << 16, description="As in `profiles`.")
    experts: int | None = Field(default=None, gt=0, le=1 << 16, description="As in `profiles`.")
    top_k: int | None = Field(default=None, gt=0, le=64, description="As in `profiles`.")
    iterations: int | None = Field(default=None, gt=0, le=100_000, description="As in `profiles`.")
    warmups: int | None = Field(default=None, ge=0, le=100_000, description="As in `profiles`.")
    expected_start_s: Seconds = Field(default=60.0, description="As in `profiles`.")

    def profiles(self) -> tuple[Profile, ...]:
        """The profiles that it stands for."""
        shared = self.model_dump(exclude={"tokens_per_rank"})
        return tuple(Profile(name=f"t{number}", tokens_per_rank=number, **shared) for number in self.tokens_per_rank)


class RouteModel(Section):
    """A route: which experts each token goes to."""

    name: Name = Field(description="Name of the route, unique in the campaign.")
    kind: RouteKind = Field(description="Formula; ep_worker/contract/workload.py defines each.")
    exponent: Decimal = Field(
        default=Decimal("1.0"), ge=0, le=8, description="zipf: popularity falls as rank to the minus this power."
    )
    placement: Literal["shuffled", "sorted"] = Field(
        default="shuffled", description="zipf: popular experts spread over ranks, or all on the first ones."
    )
    groups: int = Field(default=8, gt=0, le=4096, description="grouped: number of expert groups.")
    groups_per_token: int = Field(default=4, gt=0, le=4096, description="grouped: groups that one token may use.")
    masked_fraction: Fraction = Field(default=Decimal("0.1"), description="masked: share of slots that go nowhere.")
    least_fraction: Fraction = Field(
        default=Decimal("0.25"),
        description="ragged: tokens of the emptiest rank that is not empty, as a share of the fullest.",
    )
    empty_ranks: int = Field(default=0, ge=0, le=4096, description="ragged: ranks that hold no token at all.")
    trace: str | None = Field(
        default=None,
        max_length=1024,
        description="trace: path of the file, relative to the campaign file: one line of top_k ids a token.",
    )


class EpSize(Section):
    """One EP size and how often its matrix is run."""

    ranks: int = Field(ge=2, le=4096, description="Ranks of the expert-parallel group.")
    rounds: int = Field(gt=0, le=10_000, description="Rounds: independent starts of each arm and profile.")
    ranks_per_pod: int | None = Field(
        default=None, gt=0, le=64, description="Ranks that one pod (or host) runs; null for all of them."
    )
    domain_size: int | None = Field(
        default=None, gt=0, le=4096, description="Ranks of one scale-up (NVLink) domain; null for ranks_per_pod."
    )
    ranks_per_device: int = Field(
        default=1,
        gt=0,
        le=64,
        description="Ranks that share one GPU: more than one checks a build on fewer GPUs, and is never scored.",
    )
    iterations: int | None = Field(
        default=None, gt=0, le=100_000, description="Overrides the profiles' iterations at this EP size."
    )
    scored: bool = Field(
        default=True, description="Whether its contrasts belong to the declared family; false: described, never judged."
    )


class Primary(Section):
    """The boundary and mode that carry the verdicts."""

    boundary: Boundary = Field(default=Boundary.DISPATCH_READY, description="Boundary of the verdicts.")
    mode: Mode = Field(default=Mode.HOST_START, description="Mode of the verdicts.")


class MeasurementModel(Section):
    """How every cell is timed."""

    boundaries: tuple[Boundary, ...] = Field(
        default=tuple(Boundary), min_length=1, description="Boundaries to measure, each a column of its own."
    )
    modes: tuple[Mode, ...] = Field(default=tuple(Mode), min_length=1, description="Modes to measure.")
    primary: Primary = Field(default=Primary(), description="Boundary and mode that carry the verdicts.")
    isolated_loops: bool = Field(
        default=True, description="Also time layout, dispatch and combine alone, at the primary boundary and mode."
    )
    iterations: int = Field(default=300, gt=0, le=100_000, description="Timed iterations of a series; a p99 needs 299.")
    warmups: int = Field(default=20, ge=0, le=100_000, description="Untimed iterations before them.")
    chain_length: int = Field(
        default=10, gt=0, le=1000, description="Round-trips of one chained sample; divides iterations."
    )
    threads_per_rank: int = Field(default=1, gt=0, le=256, description="CPU threads of a rank's kernels.")
    kernel_times: bool = Field(
        default=False,
        description="Also profile each arm once for each EP size and profile, after the starts, in launches of their own.",
    )


class FamilyModel(Section):
    """The declared contrasts: every arm against the reference, in every scored cell that these filters keep."""

    profiles: tuple[str, ...] | None = Field(default=None, description="Profiles of the family; null for all.")
    routes: tuple[str, ...] | None = Field(default=None, description="Routes of the family; null for all.")
    dtypes: tuple[Dtype, ...] | None = Field(default=None, description="Dispatch dtypes of the family; null for all.")
    loops: tuple[Literal["roundtrip", "dispatch", "combine"], ...] = Field(
        default=("roundtrip",),
        min_length=1,
        description="What is judged: whole round-trips, and each phase alone (which needs measurement.isolated_loops).",
    )
    alpha: float = Field(default=0.05, gt=0, lt=0.5, description="Family-wise error rate, held by Holm's procedure.")
    practical_threshold: float = Field(
        default=0.02, ge=0, lt=1, description="Smallest relative difference that matters (0.02 is 2 %)."
    )
    test: PairedTest = Field(default=PairedTest.SIGNED_RANK, description="Exact paired test over rounds.")
    assumed_start_cv: float = Field(
        default=0.03,
        gt=0,
        lt=1,
        description="Spread of start medians that the plan assumes (standard deviation over mean), to say what n resolves.",
    )


class Limits(Section):
    """Bounds on waiting, and what is tried again."""

    start_timeout_s: Seconds = Field(
        default=1800.0, description="Watchdog of one start [s]; longer than the backends' own time-outs of about 100 s."
    )
    rendezvous_timeout_s: Seconds = Field(default=120.0, description="Bound on the ranks finding each other [s].")
    collective_timeout_s: Seconds = Field(default=300.0, description="Bound on one collective [s].")
    retries: int = Field(
        default=1,
        ge=0,
        le=10,
        description="Further attempts in the slot after an infrastructure failure; never for timing.",
    )
    link_peak_gigabytes_per_second: float | None = Field(
        default=None,
        gt=0,
        description="Ceiling of one rank's link, each direction [GB/s, 1e9]: scale-up in one domain, its NIC beyond; "
        "a faster result is refused. Null: unknown.",
    )


class Campaign(Section):
    """A whole campaign."""

    schema_version: Literal["ep-campaign/campaign/1"] = Field(
        alias="schema", description="Version of this file format."
    )
    name: Name = Field(description="Name of the campaign; its file is <name>.yaml and its results results/<name>/.")
    kind: Literal["comparison", "regression"] = Field(
        description="What kind of question it asks: which arm is fastest, or which build of one backend became slower, and where."
    )
    description: str = Field(min_length=1, description="What is compared and why, for the report's head.")
    device: Device = Field(description="Where ranks compute.")
    seed: int = Field(ge=0, lt=1 << 63, description="Seed of every draw: workload and order.")
    arms: tuple[Arm, ...] = Field(min_length=1, description="What is compared; at most six is a good rule.")
    reference: str = Field(description="Name of the arm that every other is compared with.")
    control: str | None = Field(
        default=None,
        description="regression: the arm whose build or knob restores the old behaviour; it must not come out slower.",
    )
    profiles: tuple[Profile, ...] = Field(default=(), description="Workload shapes; or give `sweep`.")
    sweep: SweepModel | None = Field(default=None, description="Workload shapes that differ in tokens per rank alone.")
    published: Name | None = Field(
        default=None, description="Series of config/published/ that the report shows beside a sweep; null for none."
    )
    routes: tuple[RouteModel, ...] = Field(min_length=1, description="Routes.")
    input: Literal["hashed", "affine"] = Field(
        default="hashed", description="Token values: pseudo-random, or the published campaigns' formula."
    )
    dtypes: tuple[Dtype, ...] = Field(min_length=1, description="Dispatch dtypes; combine is always BF16.")
    ep_sizes: tuple[EpSize, ...] = Field(min_length=1, description="EP sizes and their rounds.")
    measurement: MeasurementModel = Field(default=MeasurementModel(), description="How cells are timed.")
    family: FamilyModel = Field(default=FamilyModel(), description="What is judged, and how.")
    order: Order = Field(
        default=Order.WILLIAMS,
        description="williams: balanced for position and carry-over; published: the three patterns of the 2026 campaigns.",
    )
    limits: Limits = Field(default=Limits(), description="Bounds on waiting, and what is tried again.")
    budget_hours: float | None = Field(
        default=None, gt=0, description="Node-set hours after which no further round begins [h]; null for no bound."
    )
    price_per_node_hour: float | None = Field(
        default=None, ge=0, description="Price of one node for one hour, in `currency`; null where cost is not wanted."
    )
    currency: str = Field(default="USD", min_length=1, max_length=8, description="Unit of the price.")

    @property
    def arm_names(self) -> list[str]:
        """Names of the arms, in file order."""
        return [arm.name for arm in self.arms]


def field_table(model: type[BaseModel]) -> list[tuple[str, str, str, str]]:
    """Rows (key, type, default, meaning) of one section, for the documentation."""
    rows = []
    for name, info in model.model_fields.items():
        default: Any = "required" if info.is_required() else info.get_default(call_default_factory=True)
        if isinstance(default, BaseModel):
            default = "see its table"
        elif isinstance(default, tuple):
            default = ", ".join(str(item) for item in default)
        elif default is None:
            default = "null"
        rows.append((info.alias or name, type_text(info.annotation), str(default), info.description or ""))
    return rows


def type_text(annotation: Any) -> str:
    """A field's type in words: `one of a, b`, `list of ...`, `number or null`."""
    words = {str: "text", int: "integer", float: "number", Decimal: "decimal", bool: "true or false", NoneType: "null"}
    origin, arguments = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and annotation in words:
        return words[annotation]
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return f"one of {', '.join(str(item.value) for item in annotation)}"
    if origin is Literal:
        return f"one of {', '.join(map(str, arguments))}" if len(arguments) > 1 else f"`{arguments[0]}`"
    if origin is tuple:
        return f"list of {type_text(arguments[0])}"
    if origin is dict:
        return f"mapping of {type_text(arguments[0])} to {type_text(arguments[1])}"
    if origin is Annotated:
        return type_text(arguments[0])
    if arguments:
        return " or ".join(type_text(item) for item in arguments)
    return f"`{annotation.__name__}`"
