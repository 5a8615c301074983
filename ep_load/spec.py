"""What one run of load is told: its streams, each a way in which requests begin."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any


class Arrivals(StrEnum):
    """How the requests of a stream begin.

    CLOSED: a fixed number of workers, each beginning its next request when its last has ended. OPEN: at times that were
    drawn or recorded before, whatever has become of those before. PROBE: at a fixed rate, open, until the other streams
    have ended.
    """

    CLOSED = "closed"
    OPEN = "open"
    PROBE = "probe"


@dataclass(frozen=True)
class Stream:
    """One stream of requests.

    Attributes:
        name: Names its requests: cell or purpose.
        arrivals: How they begin.
        phase: What they count as: `measured`, `load`, `probe`, `calibration`; warm-ups are marked apart.
        concurrency: Workers of a closed stream.
        num_warmups: First requests, marked `warmup` and handed over without a pause.
        num_requests: Requests after the warm-ups; None runs until the run is told to stop.
        offsets_s: Times of an open stream's requests after its beginning.
        rate_per_s: Rate of a probe.
        path: What is asked; `/health` is a GET, everything else a completion.
    """

    name: str
    arrivals: Arrivals
    phase: str
    concurrency: int = 1
    num_warmups: int = 0
    num_requests: int | None = None
    offsets_s: tuple[float, ...] = ()
    rate_per_s: float = 0.0
    path: str = "/v1/completions"


@dataclass(frozen=True)
class Prompt:
    """What requests ask for.

    Attributes:
        unit: `bytes` for a byte tokenizer, `words` for others, which take about a token a word.
        num_units: Length of a prompt; the server's own count is what is reported.
        max_tokens: Output, at most.
        ignore_eos: Whether the engine is asked to go on to that length.
        shared_prefix_units: Units at the beginning that all prompts share; 0 makes every prompt unique from its start.
    """

    unit: str
    num_units: int
    max_tokens: int
    ignore_eos: bool
    shared_prefix_units: int = 0


@dataclass(frozen=True)
class LoadSpec:
    """One run.

    Attributes:
        endpoints: `host:port` of every deployment; requests take turns over them.
        model: Name of the model.
        prompt: What requests ask for.
        streams: They begin together; the run ends when all but probes have ended.
        seed: Prompts follow from it, the stream's name and the request's number.
        drain_s: How long requests in flight are waited for after a stop.
        request_timeout_s: Bound of one request.
    """

    endpoints: tuple[str, ...]
    model: str
    prompt: Prompt
    streams: tuple[Stream, ...]
    seed: int
    drain_s: float = 30.0
    request_timeout_s: float = 300.0

    def dumps(self) -> str:
        """As JSON text, which `loads` reads."""
        return json.dumps(asdict(self), sort_keys=True, indent=1) + "\n"


def loads(text: str) -> LoadSpec:
    """Reads what `LoadSpec.dumps` wrote.

    Raises:
        ValueError: It is not complete and exact.
    """
    value = json.loads(text)
    _check(LoadSpec, value)
    _check(Prompt, value["prompt"])
    for stream in value["streams"]:
        _check(Stream, stream)
    streams = [
        Stream(**{**one, "arrivals": Arrivals(one["arrivals"]), "offsets_s": tuple(one["offsets_s"])})
        for one in value["streams"]
    ]
    return LoadSpec(
        **{
            **value,
            "endpoints": tuple(value["endpoints"]),
            "prompt": Prompt(**value["prompt"]),
            "streams": tuple(streams),
        }
    )


def _check(kind: Any, value: Any) -> None:
    expected = {item.name for item in fields(kind)}
    if not isinstance(value, dict) or set(value) != expected:
        found = sorted(value) if isinstance(value, dict) else type(value).__name__
        msg = f"a load {kind.__name__} holds {found}, expected {sorted(expected)}"
        raise ValueError(msg)
