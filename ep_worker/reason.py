"""Reason codes: why something has no latency. Stable words for scripts, tests and reports."""

from __future__ import annotations

from enum import Enum


class Reason(str, Enum):
    """Why a start, a rank or a series ended as it did."""

    # What a rank says of itself.
    RENDEZVOUS_TIMEOUT = "rendezvous_timeout"
    """Not all ranks found one another in time."""
    MISSING_BUILD = "missing_build"
    """The backend cannot be imported or is unknown: the image does not hold what the arm asks for."""
    MISSING_DEVICE = "missing_device"
    """There is no device for this rank: the process sees fewer than the node has ranks."""
    WORKLOAD_UNREADABLE = "workload_unreadable"
    """A trace is missing, or is not the one that the plan hashed."""
    BACKEND_RAISED = "backend_raised"
    """The backend, or a collective below it, raised."""
    WORKER_RAISED = "worker_raised"
    """This worker raised outside any backend: a fault of its own."""
    OUT_OF_MEMORY = "out_of_memory"
    """The device or the host refused memory."""
    COLLECTIVE_TIMEOUT = "collective_timeout"
    """A collective or a barrier did not end in time: a peer hangs."""
    PEER_LOST = "peer_lost"
    """A peer ended while this rank needed it; the peer's own account says why."""
    CAPTURE_FAILED = "capture_failed"
    """The device graph could not be captured."""

    # What makes a scored start inadmissible though all it delivers is right (`gates`).
    DEBUG_PRINTING = "debug_printing"
    """A variable is set under which a library prints, or checks, in each call."""
    SEVERAL_COLLECTIVE_LIBRARIES = "several_collective_libraries"
    """More than one file of the collective library is mapped into the process."""
    COMPILED_WHILE_TIMED = "compiled_while_timed"
    """A kernel was compiled inside a timed loop: its time is the compiler's."""
    KNOB_NOT_AS_ASKED = "knob_not_as_asked"
    """A knob is not what the arm asked for, or moved while the arm ran: it leaked from somewhere else."""

    UNMATCHED_KERNEL = "unmatched_kernel"
    """A profiled kernel belongs to no group that its backend declares."""

    # What the launcher says of its ranks.
    RANK_EXITED = "rank_exited"
    """A rank ended with another exit status."""
    RANK_KILLED = "rank_killed"
    """A signal that the launcher did not send ended a rank."""
    WATCHDOG = "watchdog"
    """Ranks had not ended when the bound on the whole start ran out."""
    INTERRUPTED = "interrupted"
    """The launcher was told to stop."""
    LAUNCH_FAILED = "launch_failed"
    """No rank could be started."""

    # What the oracle says of a cell.
    WRONG_TOKENS = "wrong_tokens"
    """Tokens arrived that should not have, or did not arrive, or arrived twice."""
    WRONG_EXPERTS = "wrong_experts"
    """A row's expert ids, or the rows of an expert, are not those of the route."""
    WRONG_WEIGHTS = "wrong_weights"
    """A row's gate weights are not those of the route."""
    WRONG_PAYLOAD = "wrong_payload"
    """A row's values or scales are not, bit for bit, those that were sent."""
    WRONG_OUTPUT = "wrong_output"
    """A combined token differs from the reference by more than rounding allows, or is not finite."""
    WRONG_TIMED_OUTPUT = "wrong_timed_output"
    """As WRONG_OUTPUT, of what the timed loop itself returned last."""
