"""An engine of real processes: what it says before, during and after it changes its width."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from serve.engines import (
    SMALL,
    Engine,
    alive,
    assert_equals_reference,
    children_of,
    engine,
    tokens_of,
    wait_until,
)

from ep_serve.reference import Reference
from ep_serve.settings import Fault, Transport

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

PROMPTS = ("expert", "parallel width", "a prompt that is longer than one step of thirty-two rows", "grow")


class Load:
    """Clients that ask again and again, one prompt each."""

    def __init__(self, one: Engine) -> None:
        self._engine, self._stop = one, threading.Event()
        self.said: list[tuple[str, int, str, list[float], float, float]] = []
        self._threads = [threading.Thread(target=self._ask, args=(prompt,)) for prompt in PROMPTS]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Lets every client finish what it asked last."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _ask(self, prompt: str) -> None:
        while not self._stop.is_set():
            sent = time.monotonic()
            said = self._engine.complete(prompt, 100)
            text, logprobs = "", []
            if said.status == 200:
                choice = said.body["choices"][0]
                text, logprobs = choice["text"], choice["logprobs"]["token_logprobs"]
            self.said.append((prompt, said.status, text, logprobs, sent, time.monotonic()))


@pytest.mark.parametrize("transport", list(Transport))
def test_growth_changes_no_answer(tmp_path: Path, transport: Transport) -> None:
    """Growing from 2 to 4 ranks under load keeps processes, requests and every token; the files say what happened."""
    reference = Reference(SMALL)
    with engine(tmp_path, transport=transport) as one:
        old = one.pids()
        load = Load(one)
        time.sleep(0.3)
        assert 200 == one.scale(4).status
        switched = time.monotonic()
        time.sleep(0.3)
        load.stop()
        after = [one.complete(PROMPTS[0], 8, rank=rank) for rank in range(4)]
        pids, access = one.pids(), one.access()
        observation = one.read("observation.json")
        out_of_range = one.complete(PROMPTS[0], 8, rank=-1)

    good = [said for said in load.said if said[1] == 200]
    assert {200} <= {said[1] for said in load.said} <= {200, 503}
    assert [said for said in good if said[4] < switched < said[5]], "no request lived through the switch"
    distinct = {said[:3]: said[3] for said in good}
    for (prompt, _, text), logprobs in distinct.items():
        assert 100 == len(text)
        assert_equals_reference(reference, list(prompt.encode()), tokens_of(text), logprobs)
    assert [200] * 4 == [said.status for said in after]
    assert 1 == len({said.body["choices"][0]["text"] for said in after})
    assert old == {rank: pid for rank, pid in pids.items() if rank < 2}
    assert [0, 1, 2, 3] == sorted(pids)
    assert "data_parallel_rank -1 is out of range [0, 4)." == out_of_range.body["error"]["message"]
    for layer in ("desired", "admitted", "allocated", "ray", "effective"):
        assert {"Known": True, "Value": 4, "Reason": ""} == observation[layer]
    assert (2, 4) == (observation["observedGeneration"], observation["stableWidth"])
    served = Counter(line["status"] for line in access if line["path"] == "/v1/completions")
    assert served == Counter(said[1] for said in load.said) + Counter({200: 4})
    assert {0, 1, 2, 3} == {line["rank"] for line in access if "rank" in line}


def test_two_four_two(tmp_path: Path) -> None:
    """Where it is allowed, shrinking drains, moves experts back, ends the ranks that go, and changes no answer."""
    with engine(tmp_path, "--allow-shrink") as one:
        first = one.complete(PROMPTS[1], 12)
        assert 200 == one.scale(4).status
        gone = [pid for rank, pid in one.pids().items() if rank >= 2]
        assert 200 == one.scale(2).status
        last = one.complete(PROMPTS[1], 12)
        assert 400 == one.complete(PROMPTS[1], 12, rank=2).status
        observation = one.read("observation.json")
        assert not [pid for pid in gone if alive(pid)]

    assert first.body["choices"] == last.body["choices"]
    assert (3, 2) == (observation["observedGeneration"], observation["stableWidth"])
    assert 2 == observation["allocated"]["Value"] == observation["effective"]["Value"]


def test_refusals_of_a_scale_call(tmp_path: Path) -> None:
    """A width that cannot be is refused and changes nothing; the same width is done already; a fault refuses any."""
    with engine(tmp_path, faults=(Fault.REFUSE_SCALE, Fault.RENAMED_FIELD)) as one:
        before = one.read("observation.json")
        assert "effective" not in before
        assert 2 == before["effectiveWidth"]["Value"]
        assert 200 == one.scale(2).status
        messages = {width: one.scale(width).body["error"]["message"] for width in (5, 1, 3)}
        assert "new_data_parallel_size is 0, expected a whole number from 1" == one.scale(0).body["error"]["message"]
        after = one.read("observation.json")
        assert 2 == len(one.pids())

    assert "above the maximum 4" in messages[5]
    assert "below the current 2" in messages[1]
    assert "refused by a fault" in messages[3]
    assert {"state": "Refused", "reason": messages[3]} == {name: after[name] for name in ("state", "reason")}
    assert 1 == after["observedGeneration"]


@pytest.mark.parametrize(("fault", "joined"), [(Fault.STUCK_PREPARE, 4), (Fault.MISSING_RANK, 3)])
def test_a_preparation_that_never_ends(tmp_path: Path, fault: Fault, joined: int) -> None:
    """The old width goes on serving, is not `scaling`, and the observation proves no new one; a second resize is refused."""
    with engine(tmp_path, faults=(fault,)) as one:
        with pytest.raises(TimeoutError):
            one.scale(4, timeout_s=0.1)
        wait_until(lambda: one.read("observation.json")["ray"]["Value"] == joined)
        observation = one.read("observation.json")
        assert 200 == one.complete(PROMPTS[0], 4).status
        assert {"is_scaling_elastic_ep": False} == one.call("POST", "/is_scaling_elastic_ep").body
        assert 409 == one.scale(3).status

    assert ("Resizing", 2, False) == (
        observation["state"],
        observation["stableWidth"],
        observation["effective"]["Known"],
    )


def test_a_new_rank_that_dies_before_it_joins(tmp_path: Path) -> None:
    """The resize fails with the reason, the old width never stops serving, and the next resize is carried out."""
    with engine(tmp_path, "--join-delay-s=1.5") as one:
        (nursery,) = children_of(one.process.pid)
        old = set(one.pids().values())
        killer = threading.Thread(target=lambda: os.kill(max(wait_for_more(nursery, old)), signal.SIGKILL))
        killer.start()
        failed = one.scale(4)
        killer.join()
        served = one.complete(PROMPTS[0], 4)
        observation = one.read("observation.json")
        assert old == children_of(nursery)
        assert 200 == one.scale(4).status
        assert 4 == len(one.pids())

    assert (500, 200) == (failed.status, served.status)
    assert "rank 3 ended before it had joined" in failed.body["error"]["message"]
    assert ("Failed", 2, 2) == (
        observation["state"],
        observation["effective"]["Value"],
        observation["allocated"]["Value"],
    )


def wait_for_more(nursery: int, old: set[int]) -> set[int]:
    """Ranks that came after some others, once there are two."""
    wait_until(lambda: len(children_of(nursery) - old) == 2)
    return children_of(nursery) - old


def test_a_503_that_never_clears(tmp_path: Path) -> None:
    """Every path answers 503 with vLLM's words, also the one that asks whether it scales; what was served goes on."""
    with engine(tmp_path, faults=(Fault.STUCK_503,)) as one:
        with pytest.raises(TimeoutError):
            one.scale(4, timeout_s=0.1)
        wait_until(lambda: one.call("GET", "/health").status == 503)
        time.sleep(0.2)
        said = [one.call(*call) for call in (("GET", "/metrics"), ("POST", "/is_scaling_elastic_ep"))]
        assert not one.read("observation.json")["effective"]["Known"]

    assert [503, 503] == [one.status for one in said]
    assert "The model is currently scaling. Please try again later." == said[0].body["error"]


def test_stopped_while_it_starts(tmp_path: Path) -> None:
    """A word to stop that comes before the engine serves ends it, with everything that it had begun."""
    command = [sys.executable, "-m", "ep_serve", "serve", "--bound", f"--work={tmp_path}"]
    process = subprocess.Popen(command)
    wait_until(lambda: len(children_of(process.pid)) == 1)
    (nursery,) = children_of(process.pid)
    process.terminate()
    assert 0 == process.wait(30)
    assert not alive(nursery)
    assert not (tmp_path / "engine.json").exists()


def test_a_rank_that_dies_in_the_switch(tmp_path: Path) -> None:
    """The engine is dead and says so everywhere: no request hangs, none is called a success."""
    with engine(tmp_path, faults=(Fault.DIE_IN_SWITCH,)) as one:
        said = one.scale(4)
        assert 500 == said.status
        assert "rank 3 has ended" in said.body["error"]["message"]
        assert 503 == one.call("GET", "/health").status
        assert 500 == one.complete(PROMPTS[0], 4).status
        observation = one.read("observation.json")

    assert "Failed" == observation["state"]
    assert not observation["effective"]["Known"]
