"""One line for each call: what a client's own count is held against."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from ep_serve.request import Request
    from ep_serve.web import Call


class AccessLog:
    """The file; a call's line is in it before its client can have the whole answer."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("a", encoding="ascii", buffering=1)

    def note(self, call: Call, status: int | None, request: Request | None) -> None:
        """Notes a call that was answered, or that nobody waits for any more.

        Args:
            call: What was asked.
            status: What was said; None where nothing was.
            request: The completion that it was, if it was one.
        """
        line = {
            "arrived_ns": call.arrived_ns,
            "done_ns": time.monotonic_ns(),
            "method": call.method,
            "path": call.path,
            "status": status,
        }
        if request is not None:
            line |= {
                "number": request.number,
                "rank": request.rank,
                "prompt_tokens": len(request.tokens),
                "completion_tokens": request.num_made,
            }
        self._stream.write(json.dumps(line, separators=(",", ":")) + "\n")

    def close(self) -> None:
        """Closes the file."""
        self._stream.close()
