"""What `/metrics` says, under the names that vLLM gives it, so that one reader serves both."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ep_serve.request import Request, Token

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_NS_PER_S = 1_000_000_000


class Histogram:
    """Counts of seconds, cumulative as Prometheus wants them."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._counts = [0] * len(_BUCKETS_S)
        self._total_s = 0.0
        self._num = 0

    def note(self, seconds: float) -> None:
        """Adds one value."""
        self._num += 1
        self._total_s += seconds
        for index, bound in enumerate(_BUCKETS_S):
            self._counts[index] += seconds <= bound

    def lines(self) -> list[str]:
        """Its part of the page."""
        buckets = [
            f'{self._name}_bucket{{le="{bound}"}} {count}'
            for bound, count in zip(_BUCKETS_S, self._counts, strict=True)
        ]
        return [
            f"# TYPE {self._name} histogram",
            *buckets,
            f'{self._name}_bucket{{le="+Inf"}} {self._num}',
            f"{self._name}_sum {self._total_s:.9f}",
            f"{self._name}_count {self._num}",
        ]


class Metrics:
    """All series of one engine; they are never reset."""

    def __init__(self) -> None:
        self._first_token = Histogram("vllm:time_to_first_token_seconds")
        self._between_tokens = Histogram("vllm:inter_token_latency_seconds")
        self._totals = {
            "vllm:prompt_tokens_total": 0,
            "vllm:generation_tokens_total": 0,
            "vllm:request_success_total": 0,
            "ep_serve:steps_total": 0,
            "ep_serve:rows_total": 0,
        }

    def note_step(self, num_rows: int) -> None:
        """Counts a step and the rows that all ranks computed in it."""
        self._totals["ep_serve:steps_total"] += 1
        self._totals["ep_serve:rows_total"] += num_rows

    def note_token(self, request: Request, token: Token, now_ns: int) -> None:
        """Counts a token, before the request is told."""
        self._totals["vllm:generation_tokens_total"] += 1
        if request.last_ns is None:
            self._totals["vllm:prompt_tokens_total"] += len(request.tokens)
            self._first_token.note((now_ns - request.arrived_ns) / _NS_PER_S)
        else:
            self._between_tokens.note((now_ns - request.last_ns) / _NS_PER_S)
        if token.finish is not None:
            self._totals["vllm:request_success_total"] += 1

    def page(self, num_running: int, num_waiting: int) -> str:
        """The page, given what is measured only when asked."""
        gauges = {"vllm:num_requests_running": num_running, "vllm:num_requests_waiting": num_waiting}
        lines = []
        for kind, values in (("gauge", gauges), ("counter", self._totals)):
            for name, value in values.items():
                lines += [f"# TYPE {name} {kind}", f"{name} {value}"]
        return "\n".join([*lines, *self._first_token.lines(), *self._between_tokens.lines()]) + "\n"
