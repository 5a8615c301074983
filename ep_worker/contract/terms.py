"""The closed vocabularies of plans and records."""

from __future__ import annotations

from enum import Enum


class Device(str, Enum):
    """Where the ranks compute."""

    CPU = "cpu"
    CUDA = "cuda"


class Dtype(str, Enum):
    """What dispatch carries; combine always carries BF16."""

    BF16 = "bf16"
    FP8 = "fp8"


class ApiMode(str, Enum):
    """Which of an arm's interfaces a profile uses."""

    PORTABLE = "portable"
    NORMAL = "normal"
    LOW_LATENCY = "low_latency"
    ELASTIC = "elastic"


class Boundary(str, Enum):
    """Where timing starts and ends.

    DISPATCH_READY: from the input in the form that the arm's API takes, to combined tokens; a cast by the caller is outside.
    BF16_READY: from BF16 input; whoever casts, the cast is inside.
    GEMM_READY: as BF16_READY, and dispatch ends with rows grouped by local expert, combine includes the top-k weighting.
    """

    DISPATCH_READY = "dispatch_ready"
    BF16_READY = "bf16_ready"
    GEMM_READY = "gemm_ready"


class Mode(str, Enum):
    """How an iteration is started.

    HOST_START: device idle, barrier, then the call: includes what the host needs to launch it. LAUNCH_HIDDEN: the device
    is kept busy while the host launches, so that launches cost nothing. GRAPH: replay of a captured graph.
    CHAINED: round-trips back to back, no barrier between. OVERLAPPED: beside an independent grouped GEMM.
    """

    HOST_START = "host_start"
    LAUNCH_HIDDEN = "launch_hidden"
    GRAPH = "graph"
    CHAINED = "chained"
    OVERLAPPED = "overlapped"


class Loop(str, Enum):
    """What the timed loop holds: whole round-trips, or one phase alone with a fixed handle."""

    ROUNDTRIP = "roundtrip"
    LAYOUT = "layout"
    DISPATCH = "dispatch"
    COMBINE = "combine"


class Phase(str, Enum):
    """The parts of a round-trip that samples hold, in this order; ROUNDTRIP is the whole."""

    LAYOUT = "layout"
    DISPATCH = "dispatch"
    COMBINE = "combine"
    ROUNDTRIP = "roundtrip"


class Placement(str, Enum):
    """Who does a piece of work (cast, permute, weighting), and whether the timed region holds it."""

    NONE = "none"
    CALLER_OUTSIDE = "caller_outside_timer"
    CALLER_INSIDE = "caller_inside_timer"
    IN_KERNEL = "in_kernel"


class Status(str, Enum):
    """What became of a cell x boundary x mode, or of a start.

    OK: measured and verified. UNSUPPORTED: a capability table rejects it. INADMISSIBLE: transport, build or environment
    is not what was asked. TIMED_OUT: a bound ran out. CRASHED: a rank died or raised. INCORRECT: the oracle failed.
    NOT_RUN: never tried, by a declared rule (the budget was spent).
    """

    OK = "ok"
    UNSUPPORTED = "unsupported"
    NOT_RUN = "not_run"
    INADMISSIBLE = "inadmissible"
    TIMED_OUT = "timed_out"
    CRASHED = "crashed"
    INCORRECT = "incorrect"


_SEVERITY = {status: rank for rank, status in enumerate(Status)}


def worst(statuses: list[Status]) -> Status:
    """The worst status; UNSUPPORTED counts only where there is nothing else, being a fact of the arm and not of a start."""
    decisive = [status for status in statuses if status is not Status.UNSUPPORTED]
    if not statuses:
        return Status.CRASHED
    return max(decisive, key=_SEVERITY.__getitem__) if decisive else Status.UNSUPPORTED
