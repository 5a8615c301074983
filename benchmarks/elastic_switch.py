"""How long a token waits while the bundled engine grows from 2 to 4 ranks: the largest gap at the switch, in steps.

Four streams run through the growth. A step is the median gap of those streams before the growth was asked for; the gap at
the switch is that of each stream which holds the switch, by the engine's own stamps on the same clock. Beside it stands the
largest gap in as long a time before the request: what the machine does to a stream by itself.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ep_campaign.drivers.driver import ResizeState
from ep_campaign.drivers.engine import EngineDriver, EngineOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ep_campaign.drivers.driver import Endpoint

NUM_STREAMS = 4
NUM_TOKENS = 4000
WARM_S = 1.0
NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Switch:
    """One growth.

    Attributes:
        step_ms: Median gap before it.
        before_ms: Largest gap before it.
        prepare_ms: Largest gap while it was prepared.
        wide_ms: Median gap after it.
        switch_ms: Largest gap that holds the switch.
        growth_s: From the request to its answer.
    """

    step_ms: float
    before_ms: float
    prepare_ms: float
    wide_ms: float
    switch_ms: float
    growth_s: float

    @property
    def num_steps(self) -> float:
        """The gap at the switch in steps."""
        return self.switch_ms / self.step_ms


def stream(endpoint: Endpoint, number: int, stamps_ns: list[int]) -> None:
    """Reads one stream and stamps each of its events."""
    body = {"prompt": f"stream {number}", "max_tokens": NUM_TOKENS, "ignore_eos": True, "stream": True}
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=60)
    connection.request("POST", "/v1/completions", json.dumps(body))
    answer = connection.getresponse()
    while line := answer.readline():
        if line.startswith(b"data: {"):
            stamps_ns.append(time.monotonic_ns())
    connection.close()


def grow(transport: str, folder: Path) -> Switch:
    """Starts an engine, loads it, and grows it."""
    arguments = {"transport": transport, "max-len": NUM_TOKENS + 64, "max-num-seqs": NUM_STREAMS}
    driver = EngineDriver(EngineOptions(folder, arguments))
    endpoint = driver.start(2)
    stamps: list[list[int]] = [[] for _ in range(NUM_STREAMS)]
    threads = [
        threading.Thread(target=stream, args=(endpoint, number, own), daemon=True) for number, own in enumerate(stamps)
    ]
    for thread in threads:
        thread.start()
    time.sleep(WARM_S)
    driver.resize(2, 4)
    while (resize := driver.resized()) is None or resize.state is ResizeState.PENDING:
        time.sleep(0.005)
    assert resize.state is ResizeState.ACCEPTED, resize.message
    assert resize.answered_ns is not None
    time.sleep(WARM_S)
    seen = [list(own) for own in stamps]
    driver.stop()
    line = (folder / "resizes.jsonl").read_text(encoding="ascii").splitlines()[0]
    return read(seen, json.loads(line), resize.answered_ns)


def read(stamps_ns: list[list[int]], resize: dict[str, int], answered_ns: int) -> Switch:
    """Gaps of all streams, by where they lie."""
    gaps = [(earlier, later) for own in stamps_ns for earlier, later in itertools.pairwise(own)]
    asked_ns, began_ns, switched_ns = (resize[name] for name in ("asked_ns", "switch_began_ns", "switched_ns"))

    def sizes_ms(holds: Callable[[int, int], bool]) -> list[float]:
        return [(later - earlier) / 1e6 for earlier, later in gaps if holds(earlier, later)]

    before_ms = sizes_ms(lambda _, later: later < asked_ns)
    return Switch(
        step_ms=statistics.median(before_ms),
        before_ms=max(before_ms),
        prepare_ms=max(sizes_ms(lambda earlier, later: later > asked_ns and later < began_ns)),
        wide_ms=statistics.median(sizes_ms(lambda earlier, _: earlier > switched_ns)),
        switch_ms=max(sizes_ms(lambda earlier, later: earlier < switched_ns and later > began_ns)),
        growth_s=(answered_ns - asked_ns) / NS_PER_S,
    )


def main() -> None:
    """Prints every growth, and the largest and median gap in steps for each transport."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="growths of each transport")
    repeats = parser.parse_args().repeats
    print("transport   step ms   largest before   while preparing   at the switch   in steps   step at 4   growth s")
    found: dict[str, list[Switch]] = {"tcp": [], "shm": []}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats):
            for transport, own in found.items():
                switch = grow(transport, Path(folder) / f"{transport}-{repeat}")
                own.append(switch)
                print(
                    f"{transport:9s} {switch.step_ms:9.2f} {switch.before_ms:16.2f} {switch.prepare_ms:17.2f} "
                    f"{switch.switch_ms:15.2f} {switch.num_steps:10.1f} {switch.wide_ms:11.2f} {switch.growth_s:10.2f}",
                    flush=True,
                )
    for transport, own in found.items():
        steps = [switch.num_steps for switch in own]
        print(
            f"{transport}: largest gap at the switch {max(steps):.1f} steps, median of {len(steps)}: {statistics.median(steps):.1f}"
        )


if __name__ == "__main__":
    main()
