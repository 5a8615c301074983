"""The campaign file of kind `elastic`: its sections and fields, each with its meaning and unit."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from ep_campaign.campaign import Name, Seconds, Section

Width = Annotated[int, Field(ge=1, le=64)]
Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Option = str | int | float | bool | list[str]


class DriverName(StrEnum):
    """What kind of target is driven."""

    ENGINE = "engine"
    VLLM = "vllm"
    GPUSTACK = "gpustack"


class StateKind(StrEnum):
    """What a start does: a serving sweep over the cells, or one live resize under load."""

    SWEEP = "sweep"
    RESIZE = "resize"


class ArrivalKind(StrEnum):
    """How the requests of a cell begin."""

    CLOSED = "closed"
    POISSON = "poisson"
    TRACE = "trace"


class Target(Section):
    """What is driven, the same for all arms."""

    driver: DriverName = Field(
        description="engine (bundled), vllm (a server that runs already), gpustack (a deployment)."
    )
    gpus_per_width: Count = Field(default=1, description="Accelerators of one unit of width (tensor-parallel size).")
    max_num_seqs: Count = Field(description="Sequences that one rank serves at a time; admission slots = this x width.")
    arguments: dict[str, Option] = Field(
        default_factory=dict, description="Options of `python -m ep_serve serve`; driver engine only."
    )
    model: str | None = Field(default=None, description="Name of the served model; drivers vllm and gpustack.")
    namespace: str | None = Field(default=None, description="Namespace of the deployment; driver gpustack.")
    deployment: str | None = Field(default=None, description="Name of the deployment; driver gpustack.")
    proxy: str = Field(default="127.0.0.1:8001", description="Where `kubectl proxy` listens; driver gpustack.")

    @model_validator(mode="after")
    def _whole(self) -> Target:
        needed = {
            DriverName.ENGINE: (),
            DriverName.VLLM: ("model",),
            DriverName.GPUSTACK: ("model", "namespace", "deployment"),
        }[self.driver]
        missing = [name for name in needed if getattr(self, name) is None]
        if missing:
            msg = f"driver {self.driver} needs {', '.join(missing)}"
            raise ValueError(msg)
        if self.arguments and self.driver is not DriverName.ENGINE:
            msg = f"arguments belong to driver engine; driver {self.driver} starts no process"
            raise ValueError(msg)
        return self


class ElasticArm(Section):
    """One configuration of the target that is compared, such as one transport."""

    name: Name = Field(description="Name of the arm, unique in the campaign; also a folder name.")
    transport: str = Field(
        min_length=1,
        description="What its log must prove: tcp or shm for the bundled engine; NCCL's word (`Socket`, `IB`) elsewhere.",
    )
    arguments: dict[str, Option] = Field(
        default_factory=dict, description="Options over the target's; driver engine only."
    )
    endpoint: str | None = Field(default=None, description="`host:port` that serves HTTP; drivers vllm and gpustack.")
    log: str | None = Field(default=None, description="The server's log file, if it can be read here; driver vllm.")
    manifest: str | None = Field(
        default=None,
        description="Manifest to create, a path from this file's folder; driver gpustack; null finds it there.",
    )
    varied: dict[str, str] = Field(
        default_factory=dict,
        description="Settings in which the arm differs from the reference beside its transport, each with the reason.",
    )


class ElasticState(Section):
    """What one start does with the width."""

    name: Name = Field(description="Name of the state, unique in the campaign.")
    kind: StateKind = Field(default=StateKind.SWEEP, description="sweep or resize.")
    widths: tuple[Width, ...] = Field(
        min_length=1,
        description="Widths in turn. A sweep passes through all but the last without load; a resize goes through them under load.",
    )
    deployments: Annotated[int, Field(ge=1, le=8)] = Field(
        default=1,
        description="Deployments side by side that share the requests: two narrow beside one wide is equal GPUs.",
    )
    expect: Literal["converged", "refused"] = Field(
        default="converged", description="What the last resize must come to; a refused shrink is a result."
    )

    @model_validator(mode="after")
    def _possible(self) -> ElasticState:
        if self.kind is StateKind.RESIZE and (len(self.widths) < 2 or self.deployments > 1):
            msg = (
                f"a resize needs at least two widths and one deployment, found {list(self.widths)}, {self.deployments}"
            )
            raise ValueError(msg)
        if any(a == b for a, b in zip(self.widths, self.widths[1:], strict=False)):
            msg = f"widths {list(self.widths)}: two in a row are equal, which resizes nothing"
            raise ValueError(msg)
        if self.kind is StateKind.SWEEP and self.expect != "converged":
            msg = "a sweep cannot expect a refusal: it measures at its last width"
            raise ValueError(msg)
        return self


class ElasticCell(Section):
    """One load on one state."""

    arrivals: ArrivalKind = Field(default=ArrivalKind.CLOSED, description="closed, poisson or trace.")
    requests: Count = Field(description="Requests after the warm-ups.")
    concurrency: Count | None = Field(default=None, description="Requests in flight of a closed loop.")
    rate_per_s: Positive | None = Field(default=None, description="Mean arrival rate of a Poisson process [1/s].")
    trace: str | None = Field(
        default=None, description="File with one arrival time a line, rising [s], a path from this file's folder."
    )
    num_warmups: int = Field(
        default=4, ge=0, description="First requests, flagged and left out of figures, handed over without a pause."
    )

    @model_validator(mode="after")
    def _one_way(self) -> ElasticCell:
        needed = {ArrivalKind.CLOSED: "concurrency", ArrivalKind.POISSON: "rate_per_s", ArrivalKind.TRACE: "trace"}
        for kind, name in needed.items():
            if (getattr(self, name) is not None) != (kind is self.arrivals):
                msg = f"arrivals {self.arrivals} takes {needed[self.arrivals]} and nothing of the other kinds, found {name}"
                raise ValueError(msg)
        return self

    @property
    def name(self) -> str:
        """Name of the cell: what its requests are called."""
        if self.arrivals is ArrivalKind.CLOSED:
            return f"closed-{self.concurrency}"
        if self.arrivals is ArrivalKind.POISSON:
            return f"poisson-{self.rate_per_s:g}"
        return f"trace-{str(self.trace).rpartition('/')[2].partition('.')[0]}"


class PromptModel(Section):
    """What requests ask for."""

    unit: Literal["bytes", "words"] = Field(
        description="bytes for a byte tokenizer; words (about a token each) for others."
    )
    num_units: Count = Field(description="Length of a prompt in units; the server's count is what is reported.")
    max_tokens: Count = Field(description="Output tokens at most.")
    ignore_eos: bool = Field(default=False, description="Whether the engine is asked to go on to that length.")
    shared_prefix_units: int = Field(default=0, ge=0, description="Units that all prompts share; 0 makes each unique.")


class ResizeModel(Section):
    """How a resize is loaded and followed."""

    concurrency: Count = Field(description="Requests in flight of the closed loop that runs throughout.")
    before_s: Positive = Field(default=10.0, description="Load before the request [s].")
    after_s: Positive = Field(default=10.0, description="Load after convergence [s].")
    poll_s: Annotated[float, Field(gt=0, le=1)] = Field(default=0.5, description="Pause between two looks [s].")
    timeout_s: Seconds = Field(default=1200.0, description="Until a resize must have converged [s].")
    probe_rate_per_s: Positive = Field(default=10.0, description="Rate of the open-loop prober [1/s].")
    probe_path: str = Field(default="/health", description="What the prober asks.")


class SloTargets(Section):
    """What a workload needs, and what a GPU costs: the decision page follows from these."""

    ttft_p95_ms: Positive = Field(description="Time to first token that 95 % of requests must stay below [ms].")
    itl_p99_ms: Positive = Field(description="Gap between tokens that 99 % of gaps must stay below [ms].")
    price_per_gpu_hour: Annotated[float, Field(ge=0)] = Field(
        description="Price of one GPU for one hour, in `currency`."
    )
    currency: str = Field(default="USD", min_length=1, max_length=8, description="Unit of the price.")


class ElasticLimits(Section):
    """Bounds on waiting, and what is tried again."""

    start_timeout_s: Seconds = Field(default=1800.0, description="Until a target must serve [s].")
    request_timeout_s: Seconds = Field(default=300.0, description="Bound of one request [s].")
    drain_s: Seconds = Field(default=60.0, description="How long requests in flight are waited for at a stop [s].")
    retries: int = Field(default=1, ge=0, le=10, description="Further attempts where the target did not come up.")
    max_lateness_share: Positive = Field(
        default=0.1, description="A cell is invalid where the client's lateness p99 exceeds this share of its gap p50."
    )


class ElasticCampaign(Section):
    """A whole elastic campaign."""

    schema_version: Literal["ep-campaign/campaign/1"] = Field(
        alias="schema", description="Version of this file format."
    )
    name: Name = Field(description="Name of the campaign; its file is <name>.yaml and its results results/<name>/.")
    kind: Literal["elastic"] = Field(description="What kind of question it asks.")
    description: str = Field(min_length=1, description="What is compared and why, for the report's head.")
    seed: int = Field(ge=0, lt=1 << 63, description="Seed of every draw: prompts, arrivals, order.")
    target: Target = Field(description="What is driven.")
    arms: tuple[ElasticArm, ...] = Field(min_length=1, description="Configurations that are compared.")
    reference: str = Field(description="Name of the arm that every other is compared with.")
    states: tuple[ElasticState, ...] = Field(min_length=1, description="What is done with the width.")
    reference_state: str = Field(description="Name of the sweep that every other is compared with.")
    cells: tuple[ElasticCell, ...] = Field(min_length=1, description="Loads of a sweep, in order.")
    prompt: PromptModel = Field(description="What requests ask for.")
    resize: ResizeModel | None = Field(
        default=None, description="How resizes are loaded; needed where a state resizes."
    )
    rounds: Count = Field(description="Repeats of every state and arm.")
    targets: SloTargets = Field(description="What the decision page decides by.")
    published: str | None = Field(
        default=None, description="File of config/published/ whose figures stand beside ours."
    )
    limits: ElasticLimits = Field(default=ElasticLimits(), description="Bounds on waiting, and what is tried again.")
