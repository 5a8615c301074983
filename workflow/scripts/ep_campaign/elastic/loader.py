"""The load generator as its own process: started, stopped, and read."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ep_campaign.errors import refuse
from ep_worker.contract.canonical import write_atomically

if TYPE_CHECKING:
    from pathlib import Path

    from ep_load.spec import LoadSpec

_STOP_MARGIN_S = 30.0


class Loader:
    """One run of load."""

    def __init__(self, spec: LoadSpec, folder: Path) -> None:
        """Starts it; its files go to `folder`. Start it in a thread that lives as long: it ends with the thread."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "spec.json", spec.dumps())
        self._spec, self._folder = spec, folder
        self._log = (folder / "load.log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ep_load", "run", str(folder / "spec.json"), str(folder)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
        )

    def stop(self) -> None:
        """Lets no further request begin and waits until those in flight have ended.

        Raises:
            CampaignError: `load_failed`.
        """
        self._close_input()
        self.wait(self._spec.drain_s + _STOP_MARGIN_S)

    def wait(self, timeout_s: float) -> None:
        """Waits until it has ended.

        Raises:
            CampaignError: `load_failed`: it does not end in time, or ended badly.
        """
        try:
            status = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise refuse("load_failed", f"load did not end within {timeout_s:g} s", str(self._folder)) from None
        self.kill()
        if status != 0:
            said = (self._folder / "load.log").read_text(errors="replace")[-1000:]
            raise refuse("load_failed", f"load ended with status {status}: {said}", str(self._folder))

    def kill(self) -> None:
        """Ends it at once, if it still runs, and lets go of its files."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._close_input()
        self._log.close()

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


@dataclass(frozen=True)
class Loaded:
    """What a run of load left.

    Attributes:
        account: `load.json`.
        requests: One record a request.
    """

    account: dict[str, Any]
    requests: list[dict[str, Any]]


def read_loaded(folder: Path) -> Loaded:
    """Reads a run."""
    account = json.loads((folder / "load.json").read_text(encoding="ascii"))
    lines = (folder / "requests.jsonl").read_text(encoding="ascii").splitlines()
    return Loaded(account, [json.loads(line) for line in lines])


def wait_for_file(path: Path, process: subprocess.Popen[bytes], timeout_s: float) -> str:
    """The text of a file that a process is about to write.

    Raises:
        CampaignError: `load_failed`: the process ended, or the time did.
    """
    deadline = time.monotonic() + timeout_s
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise refuse("load_failed", "the process that was to write it did not", str(path))
        time.sleep(0.02)
    return path.read_text(encoding="ascii")
