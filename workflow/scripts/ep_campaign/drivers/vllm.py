"""Driver of a vLLM server that runs already, with `--enable-elastic-ep`; it starts and ends nothing.

Tested against a server that replays the documented behaviour (vLLM 0.32, `/scale_elastic_ep`), not yet against vLLM itself.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ep_campaign.drivers import server_log
from ep_campaign.drivers.calls import CallError, call
from ep_campaign.drivers.driver import Endpoint, Evidence, Released, Snapshot, TransportProof
from ep_campaign.drivers.probe import probe
from ep_campaign.drivers.scale_call import ScaleCall
from ep_campaign.errors import refuse

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.drivers.driver import Resize


@dataclass(frozen=True)
class VllmOptions:
    """Where the server is.

    Attributes:
        endpoint: Its HTTP endpoint.
        log: Its log file, for its access lines and NCCL's; None where it cannot be read here.
        call_timeout_s: Bound of each call.
        resize_timeout_s: Until the scale call must answer; it answers when the resize is over.
    """

    endpoint: Endpoint
    log: Path | None = None
    call_timeout_s: float = 10.0
    resize_timeout_s: float = 1800.0


class VllmDriver:
    """As `driver.Driver` says."""

    def __init__(self, options: VllmOptions) -> None:
        self._options = options
        self._scale = ScaleCall(options.resize_timeout_s)

    @property
    def evidence(self) -> frozenset[Evidence]:
        """None: what the server shows of its width is what its endpoint says."""
        return frozenset()

    def start(self, width: int) -> Endpoint:
        """Finds the server, at the width that is asked."""
        endpoint = self._options.endpoint
        found = probe(endpoint, self._options.call_timeout_s)
        if not found.proves(width):
            message = (
                f"found a bound of {found.bound_before} ranks with statuses {list(found.statuses)}, expected width {width}"
                f"; {'; '.join(found.unreadable) or 'start the server with --data-parallel-size ' + str(width)}"
            )
            raise refuse("width_not_found", message, f"{endpoint.host}:{endpoint.port}")
        return endpoint

    def resize(self, old_width: int, new_width: int) -> None:
        """Calls `/scale_elastic_ep`, aside."""
        self._scale.send(self._options.endpoint, old_width, new_width)

    def resized(self) -> Resize | None:
        """The last scale call."""
        return self._scale.now

    def snapshot(self) -> Snapshot:
        """Holds nothing beside the time: a vLLM server has no document, no generation and no members to show."""
        return Snapshot(received_ns=time.monotonic_ns())

    def provenance(self) -> dict[str, Any]:
        """The version that the server says, the model that it lists, and the transport that its log proves."""
        return {
            "engine": "vllm",
            "version": self._get("/version"),
            "models": self._get("/v1/models"),
            "transport": asdict(self.transport()),
        }

    def transport(self) -> TransportProof:
        """What NCCL's lines in the log prove."""
        return server_log.transport_proof(self._log())

    def server_log(self) -> dict[str, int] | None:
        """Counts the access lines of the log, where it was named."""
        text = self._log()
        return None if text is None else server_log.count_completions(text)

    def stop(self) -> Released:
        """Leaves the server as it is: whoever started it ends it."""
        endpoint = self._options.endpoint
        return Released(proved=True, not_ours=(f"vLLM server at {endpoint.host}:{endpoint.port}",))

    def _get(self, path: str) -> Any:
        endpoint = self._options.endpoint
        try:
            answer = call(endpoint.host, endpoint.port, "GET", path, timeout_s=self._options.call_timeout_s)
        except CallError as error:
            return f"not_observed: {error}"
        return answer.json() if answer.status == 200 else f"not_observed: status {answer.status}"

    def _log(self) -> str | None:
        log = self._options.log
        return None if log is None else log.read_text(encoding="utf-8", errors="replace")
