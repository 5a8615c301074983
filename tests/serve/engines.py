"""Starts real engines, speaks to them, and sees that nothing of them is left."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ep_serve.settings import Fault, Settings, Shape, Transport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ep_serve.reference import Reference

SMALL = Settings(
    max_num_seqs=4, max_len=256, max_step_tokens=32, shape=Shape(hidden=32, ffn=48, num_heads=2, num_experts=8)
)
START_TIMEOUT_S = 60.0
TOLERANCE = 1e-4
"""Of log probabilities in single precision against a reference in double."""


@dataclass(frozen=True)
class Said:
    """An answer."""

    status: int
    body: Any


class Engine:
    """One running engine."""

    def __init__(self, process: subprocess.Popen[bytes], work: Path) -> None:
        self.process, self.work = process, work

    @property
    def port(self) -> int:
        """Where it serves."""
        return int(self.read("engine.json")["port"])

    def read(self, name: str) -> Any:
        """A JSON file that it keeps."""
        return json.loads((self.work / name).read_text())

    def pids(self) -> dict[int, int]:
        """Process of each rank."""
        return {one["rank"]: one["pid"] for one in self.read("ranks.json")["ranks"]}

    def access(self) -> list[dict[str, Any]]:
        """Lines of the access log."""
        return [json.loads(line) for line in (self.work / "access.jsonl").read_text().splitlines()]

    def call(
        self, method: str, path: str, body: Any = None, *, timeout_s: float = 30.0, rank: int | None = None
    ) -> Said:
        """Sends one call and reads its whole answer; a stream comes as the list of its events."""
        headers = {} if rank is None else {"X-data-parallel-rank": str(rank)}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            raw = answer.read().decode()
        finally:
            connection.close()
        kind = answer.headers["content-type"]
        if kind.startswith("text/event-stream"):
            return Said(answer.status, [part.removeprefix("data: ") for part in raw.split("\n\n") if part])
        return Said(answer.status, json.loads(raw) if raw and kind == "application/json" else raw)

    def complete(self, prompt: str, max_tokens: int, *, rank: int | None = None) -> Said:
        """Asks for a completion, with log probabilities, whatever ends it."""
        body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "logprobs": 1}
        return self.call("POST", "/v1/completions", body, rank=rank)

    def scale(self, width: int, *, timeout_s: float = 60.0) -> Said:
        """Asks for a width."""
        return self.call("POST", "/scale_elastic_ep", {"new_data_parallel_size": width}, timeout_s=timeout_s)


@contextmanager
def engine(
    work: Path, *options: str, transport: Transport = Transport.SHARED_MEMORY, faults: tuple[Fault, ...] = ()
) -> Iterator[Engine]:
    """A small engine; its processes are gone afterwards, which is asserted."""
    shape = [f"--{name.replace('_', '-')}={value}" for name, value in vars(SMALL.shape).items()]
    sizes = [
        f"--{name.replace('_', '-')}={getattr(SMALL, name)}" for name in ("max_num_seqs", "max_len", "max_step_tokens")
    ]
    wrong = [f"--fault={fault.value}" for fault in faults]
    command = [sys.executable, "-m", "ep_serve", "serve", "--bound", f"--work={work}", f"--transport={transport.value}"]
    process = subprocess.Popen([*command, *shape, *sizes, *wrong, *options])
    try:
        wait_until(lambda: (work / "engine.json").exists() or process.poll() is not None)
        one = Engine(process, work)
        assert process.poll() is None
        yield one
        pids = one.pids().values()
        process.terminate()
        assert 0 == process.wait(START_TIMEOUT_S)
        assert not [pid for pid in pids if alive(pid)]
    finally:
        process.kill()
        process.wait()


def wait_until(holds: Any, timeout_s: float = START_TIMEOUT_S) -> None:
    """Waits for something that must come."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come in time"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def children_of(pid: int) -> set[int]:
    """Processes that a process has made and that still run."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(words[1]) == pid and words[0] != "Z":
                found.add(int(stat.parent.name))
    return found


def tokens_of(text: str) -> list[int]:
    """Tokens of a completion whose end mark, if any, came last."""
    return [ord(letter) for letter in text]


def assert_equals_reference(reference: Reference, prompt: list[int], tokens: list[int], logprobs: list[float]) -> None:
    """Tokens are what greedy decoding in one process makes, but where two are equally likely to single precision.

    Log probabilities are equal to it everywhere.
    """
    followed = reference.follow(prompt, tokens)
    clear = [margin > TOLERANCE for margin in followed.margins]
    expected, found = (
        [t for t, is_clear in zip(all_, clear, strict=True) if is_clear] for all_ in (followed.tokens, tokens)
    )
    assert expected == found
    assert followed.logprobs == pytest.approx(logprobs, abs=TOLERANCE)
