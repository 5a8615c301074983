"""A campaign that is interrupted again and again, each time after a first series was measured, still ends whole."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter

import pytest
from trees import make_tree, tiny, wait_until

from ep_worker.contract.rankfile import read_events

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def half_measured(tree):
    """The folder of a start whose ranks have measured and proved one boundary and are in the next; None where there is none."""
    for spec in tree.results.glob("starts/*/*/*/*/attempt-*/spec.json"):
        folder = spec.parent
        events = [read_events(folder, rank) for rank in range(2)]
        proved = all(any(event.get("stage") == "after" for event in mine) for mine in events)
        if proved and set(tree.processes()) & {mine[0]["pid"] for mine in events}:
            return folder
    return None


def interrupt(tree, strike):
    """Runs the campaign until a start is half measured, strikes, and waits until nothing of it lives."""
    process = tree.begin()
    wait_until(lambda: half_measured(tree) is not None, "a half-measured start")
    strike(process, half_measured(tree))
    status = process.wait(timeout=100)
    wait_until(lambda: not tree.processes(), "every process of the campaign to die", timeout_s=10)
    return status


def group(number):
    """A signal to everything of the terminal, as Ctrl-C or its closing sends."""
    return lambda process, folder: os.killpg(process.pid, number)


def snakemake(number):
    """A signal to Snakemake alone."""
    return lambda process, folder: os.kill(process.pid, number)


def one_rank(process, folder):
    """SIGKILL to a rank, as the kernel's out-of-memory killer sends."""
    os.kill(read_events(folder, 1)[0]["pid"], signal.SIGKILL)


def test_whatever_interrupts_a_half_measured_start_the_same_command_ends_the_campaign(tmp_path):
    """Ctrl-C, SIGTERM, SIGHUP, SIGKILL of Snakemake, SIGKILL of a rank: each leaves a truthful record that validates."""
    measurement = {"boundaries": ["dispatch_ready", "gemm_ready"], "modes": ["host_start"]}
    tree = make_tree(tmp_path / "tree", tiny(measurement={**measurement, "iterations": 1500, "warmups": 2}))

    for strike in (group(signal.SIGINT), group(signal.SIGTERM), snakemake(signal.SIGHUP), snakemake(signal.SIGKILL)):
        assert 0 != interrupt(tree, strike)
    assert 0 == interrupt(tree, one_rank)
    assert "PARTIAL" in (tree.results / "RESULTS.md").read_text()
    done = tree.run()

    assert 0 == done.returncode, done.stdout
    assert (tree.results / "CAMPAIGN_COMPLETE").exists()
    starts = [json.loads(path.read_text()) for path in tree.results.glob("starts/*/*/*/*/attempt-*/start.json")]
    broken = [record for record in starts if record["status"] != "ok"]
    assert 4 == len(starts) - len(broken)
    assert {"interrupted": 4, "rank_killed": 1} == Counter(record["launcher"]["reason_code"] for record in broken)
    for record in broken:
        assert {"ok", "crashed"} == {item["status"] for item in record["records"]}
        assert record["clock"]["seconds"] > 0
        assert (record["launcher"]["reason_code"] == "interrupted") is record["infrastructure"]
    lines = [json.loads(line) for line in (tree.results / "logs" / "journal.jsonl").read_text().splitlines()]
    begun = [(line["start"], line["attempt"]) for line in lines if line["event"] == "begin"]
    assert sorted(begun) == sorted((line["start"], line["attempt"]) for line in lines if line["event"] == "end")
