"""Import of aiperf's per-request export (`profile_export.jsonl`, aiperf 0.13) into the records of our own load generator.

A cross-check, and no substitute: its times are of the wall clock, its token counts are of the client's tokenizer, an error has no
latency (its end is its start), and how late its event loop was is not in it. What it does not say stays null.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from ep_campaign.elastic.loader import Loaded
from ep_campaign.elastic.metrics import SHARES, e2e_ms, gaps_ms, measured, quantile, tpot_ms, ttft_ms, window_s
from ep_campaign.errors import CampaignError, Refusal
from ep_campaign.jsonfile import as_model, parse_object

if TYPE_CHECKING:
    from pathlib import Path

_NS_PER_MS = 1e6
_PHASES = {"warmup": "warmup", "profiling": "measured"}
_OK = 200
Time = Annotated[int, Field(ge=0)]


class _Open(BaseModel):
    """The export grows fields from version to version; those below must be there and be what they are."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Metadata(_Open):
    session_num: Time
    request_start_ns: Time
    request_end_ns: Time
    benchmark_phase: str
    was_cancelled: bool = False


class _Milliseconds(_Open):
    value: float
    unit: Annotated[str, Field(pattern="^ms$")]


class _Gaps(_Open):
    value: tuple[float, ...]
    unit: Annotated[str, Field(pattern="^ms$")]


class _Tokens(_Open):
    value: Time
    unit: Annotated[str, Field(pattern="^tokens$")]


class _Metrics(_Open):
    time_to_first_token: _Milliseconds | None = None
    request_latency: _Milliseconds | None = None
    inter_chunk_latency: _Gaps | None = None
    input_sequence_length: _Tokens | None = None
    output_sequence_length: _Tokens | None = None


class _Error(_Open):
    code: int | None = None
    type: str | None = None
    message: str = ""


class _Line(_Open):
    metadata: _Metadata
    metrics: _Metrics
    error: _Error | None = None


def import_aiperf(path: Path, stream: str) -> Loaded:
    """Reads an export.

    Args:
        path: The file.
        stream: Name of the cell that it is of.

    Raises:
        CampaignError: `bad_aiperf_export`, or what `parse_object` says, for every line at fault.
    """
    refusals: list[Refusal] = []
    requests = []
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{path}:{number}"
        try:
            line = as_model(_Line, parse_object(text, where), "bad_aiperf_export", where)
            requests.append(_request(line, stream, where))
        except CampaignError as error:
            refusals.extend(error.refusals)
    if refusals:
        raise CampaignError(refusals)
    account = {"source": "aiperf", "lateness": {"p99_ns": None}, "num_requests": len(requests)}
    return Loaded(account, requests)


def figures(run: Loaded) -> dict[str, Any]:
    """The figures that an export can carry, by our definitions, each with its n."""
    good = [one for one in measured(run) if one["success"]]
    pooled = {
        "ttft": [ttft_ms(one) for one in good],
        "tpot": [value for one in good if (value := tpot_ms(one)) is not None],
        "itl": [gap for one in good for gap in gaps_ms(one)],
        "e2e": [e2e_ms(one) for one in good],
    }
    found: dict[str, Any] = {"num_requests": len(measured(run)), "num_ok": len(good), "window_s": window_s(good)}
    for name, values in pooled.items():
        found[f"num_{name}"] = len(values)
        found |= {f"{name}_{label}_ms": quantile(values, share) for label, share in SHARES.items()}
    return found


def _request(line: _Line, stream: str, where: str) -> dict[str, Any]:
    metadata, metrics = line.metadata, line.metrics
    if metadata.benchmark_phase not in _PHASES:
        message = f"found {metadata.benchmark_phase!r}, expected one of {', '.join(_PHASES)}"
        raise CampaignError([Refusal("bad_aiperf_export", message, f"{where}: metadata.benchmark_phase")])
    success = line.error is None and not metadata.was_cancelled and metrics.time_to_first_token is not None
    stamps = _stamps(line) if success else []
    return {
        "stream": stream,
        "number": metadata.session_num,
        "phase": _PHASES[metadata.benchmark_phase],
        "path": None,
        "scheduled_ns": None,
        "sent_ns": metadata.request_start_ns,
        "first_content_ns": stamps[0] if stamps else None,
        "last_content_ns": stamps[-1] if stamps else None,
        "done_ns": metadata.request_end_ns if success else None,
        "status": _OK if success else (line.error.code if line.error else None),
        "success": success,
        "error_class": "" if success else _error_class(line),
        "error": line.error.message[:500] if line.error else "",
        "finish_reason": None,
        "prompt_tokens": metrics.input_sequence_length.value if metrics.input_sequence_length else None,
        "completion_tokens": metrics.output_sequence_length.value if metrics.output_sequence_length else None,
        "cached_tokens": None,
        "chunks": [[at_ns, True, None] for at_ns in stamps],
    }


def _stamps(line: _Line) -> list[int]:
    """When each chunk came: the first token's time, and the gaps added up."""
    assert line.metrics.time_to_first_token is not None
    first_ms = line.metrics.time_to_first_token.value
    gaps_ms_ = line.metrics.inter_chunk_latency.value if line.metrics.inter_chunk_latency else ()
    after_ms = itertools.accumulate(gaps_ms_, initial=first_ms)
    return [line.metadata.request_start_ns + round(at_ms * _NS_PER_MS) for at_ms in after_ms]


def _error_class(line: _Line) -> str:
    if line.metadata.was_cancelled:
        return "cut"
    if line.error is None:
        return "incomplete_stream"
    return "http_status" if line.error.code is not None else "disconnected"
