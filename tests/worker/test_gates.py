"""What makes a scored start inadmissible though what it delivers is right; and a rank that makes the latency."""

from __future__ import annotations

import os
import time
from array import array
from typing import TYPE_CHECKING

import pytest

from ep_worker.breaks.run import Seen, main, run_breaks
from ep_worker.breaks.table import BREAKS
from ep_worker.contract.quiet import loud_variables
from ep_worker.contract.slow_rank import rank_spread
from ep_worker.contract.terms import Device
from ep_worker.failure import Stage, account
from ep_worker.gates import InadmissibleError, compiled_since, not_as_asked, require_quiet
from ep_worker.reason import Reason

if TYPE_CHECKING:
    from pathlib import Path

GATED = ["none", "leaked_num_sms", "two_libraries", "compiles", "debug_printing", "slow_rank"]


@pytest.mark.parametrize("name", GATED)
def test_a_break_is_caught_by_its_gate(name: str) -> None:
    """Each break, run for real over gloo, ends with the status and the code of its gate; the control with none."""
    (seen,) = run_breaks(Device.CPU, 1, [name])

    assert seen.caught, seen.as_json()


def test_an_unknown_break_is_refused() -> None:
    """A name that is none is said with all that are."""
    with pytest.raises(ValueError, match="found nothing_such, expected names of none, swapped_map"):
        list(run_breaks(Device.CPU, 1, ["nothing_such"]))


def test_a_break_that_passes_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One missed break, or a control that is refused, is status 1 and says so."""
    control, broken = BREAKS[0], BREAKS[1]
    for seen, word in ((Seen(broken, "ok", "", ""), "MISSED"), (Seen(control, "crashed", "x", "y"), "REFUSED")):
        monkeypatch.setattr("ep_worker.breaks.run.run_breaks", lambda *_, one=seen: [one])

        assert 1 == main(Device.CPU, 1, tmp_path / "found.json", [])
        assert word in capsys.readouterr().out
        assert '"caught": false' in (tmp_path / "found.json").read_text()


class TestQuiet:
    """Variables under which libraries print while they communicate."""

    @pytest.mark.parametrize(
        ("variables", "loud"),
        [
            ({"NCCL_DEBUG": "info"}, ["NCCL_DEBUG=info"]),
            ({"NCCL_DEBUG": "WARN", "NVSHMEM_DEBUG": "", "EP_BUFFER_DEBUG": "0"}, []),
            ({"TORCH_DISTRIBUTED_DEBUG": "INFO"}, []),
            (
                {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "EP_JIT_DEBUG": "1"},
                ["EP_JIT_DEBUG=1", "TORCH_DISTRIBUTED_DEBUG=DETAIL"],
            ),
            ({"CUDA_LAUNCH_BLOCKING": "1"}, ["CUDA_LAUNCH_BLOCKING=1"]),
        ],
    )
    def test_what_is_loud(self, variables: dict[str, str], loud: list[str]) -> None:
        """Levels that speak of each call, and switches that are on; warnings are quiet."""
        assert loud == loud_variables(variables)

    def test_the_refusal_names_the_variable(self) -> None:
        """An exception of this kind is an inadmissible start with its own code."""
        with pytest.raises(
            InadmissibleError, match="found FI_LOG_LEVEL=debug, expected libraries that are quiet"
        ) as caught:
            require_quiet({"FI_LOG_LEVEL": "debug"})

        failure = account(caught.value, Stage.WORKLOAD)
        assert ("inadmissible", Reason.DEBUG_PRINTING) == (failure.status.value, failure.reason_code)


class TestKnobs:
    """`not_as_asked`."""

    @pytest.mark.parametrize(
        ("asked", "first", "now", "says"),
        [
            ({"num_sms": 24}, {"num_sms": 24}, {"num_sms": 24}, None),
            ({"num_sms": 0, "dispatch_config": ""}, {"num_sms": 20}, {"num_sms": 20}, None),
            ({}, {"num_sms": 20}, {"num_sms": 8}, "found num_sms 20, now 8"),
            ({"num_sms": 24}, {"num_sms": 20}, {"num_sms": 20}, "found num_sms 20, expected 24 as the arm asks"),
            (
                {"allow_mnnvl": False},
                {"allow_mnnvl": True},
                {"allow_mnnvl": True},
                "found allow_mnnvl True, expected False",
            ),
        ],
    )
    def test_what_is_found(self, asked: dict, first: dict, now: dict, says: str | None) -> None:
        """A knob that moved, or is another than a definite one that was asked for; 0 and empty leave it to the library."""
        found = not_as_asked(asked, first, now)

        assert (found is None) if says is None else (found is not None and found.startswith(says))


def test_only_what_was_compiled_after_the_first_iteration_counts(tmp_path: Path) -> None:
    """A file of the cache from before the loop is a warm cache; a younger one is a compiler inside the timing."""
    environment = {
        "EP_JIT_CACHE_DIR": str(tmp_path),
        "TRITON_CACHE_DIR": str(tmp_path / "none"),
        "CUDA_CACHE_PATH": "/nowhere",
    }
    kernel = tmp_path / "a" / "kernel.so"
    kernel.parent.mkdir()
    kernel.write_bytes(b"")
    began_at_ns, now_ns = time.monotonic_ns(), time.time_ns()
    os.utime(kernel, ns=(now_ns, now_ns - 10**9))
    before = compiled_since(began_at_ns, environment)
    os.utime(kernel, ns=(now_ns, now_ns + 10**9))

    assert before is None
    assert kernel == compiled_since(began_at_ns, environment)


class TestSlowRank:
    """`rank_spread`."""

    def test_a_rank_that_is_always_slowest_is_flagged(self) -> None:
        """Rank 1 takes 130 of the others' 100 and 104 in all of ten samples: 130 / 102 = 1.27 times."""
        spread = rank_spread(array("q", [5, 100, 5, 130, 5, 104] * 10), 3, 2)

        assert spread.flagged
        assert (0.0, 1.0, 0.0) == spread.slowest_share
        assert "rank 1 is the slowest in 100% of samples, its median 1.27 times the others'" == spread.sentence

    def test_a_rank_that_is_slowest_by_little_or_seldom_is_not(self) -> None:
        """By a twentieth in all samples, or by a third in eight of ten, is the ordinary spread."""
        assert not rank_spread(array("q", [100, 105] * 10), 2, 1).flagged
        assert not rank_spread(array("q", [100, 133] * 8 + [133, 100] * 2), 2, 1).flagged
