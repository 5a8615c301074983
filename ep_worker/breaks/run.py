"""Runs every break for real, in processes of its own, and says which gate caught it."""

from __future__ import annotations

import gzip
import json
import tempfile
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.breaks.table import BREAKS
from ep_worker.contract.record import SAMPLES_FILE
from ep_worker.contract.slow_rank import REASON_CODE, rank_spread
from ep_worker.contract.spec import ArmSpec, Shape
from ep_worker.contract.terms import ApiMode, Device, Dtype
from ep_worker.handmade import handmade, launch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ep_worker.breaks.table import Break
    from ep_worker.contract.spec import StartSpec

SHAPE = Shape("broken", tokens_per_rank=32, max_tokens_per_rank=32, hidden=256, experts=16, top_k=4)
_BACKEND = "ep_worker.breaks.arms:Broken"
_ITERATIONS, _WARMUPS = 10, 3


@dataclass(frozen=True)
class Seen:
    """What one break came to.

    Attributes:
        wanted: The break.
        status: Status of its start.
        code: Reason code: of its first record that is not ok, or of what was flagged.
        reason: The sentence that goes with it.
    """

    wanted: Break
    status: str
    code: str
    reason: str

    @property
    def caught(self) -> bool:
        """Whether it came to what it must, for the control: to nothing."""
        return self.status == self.wanted.status.value and (
            self.code in self.wanted.codes if self.wanted.codes else not self.code
        )

    def as_json(self) -> dict[str, Any]:
        """Plain JSON value."""
        return {
            "break": self.wanted.name,
            "what": self.wanted.what,
            "gate": self.wanted.gate,
            "status": self.status,
            "reason_code": self.code,
            "reason": self.reason,
            "caught": self.caught,
        }


def run_breaks(
    device: Device, ranks_per_device: int, names: Sequence[str] = (), watchdog_s: float = 120.0
) -> Iterator[Seen]:
    """Every break, or those of some names, one after another.

    Raises:
        ValueError: A name is none.
    """
    unknown = sorted(set(names) - {one.name for one in BREAKS})
    if unknown:
        msg = f"found {', '.join(unknown)}, expected names of {', '.join(one.name for one in BREAKS)}"
        raise ValueError(msg)
    with tempfile.TemporaryDirectory(prefix="ep-breaks-") as folder:
        for one in BREAKS:
            if not names or one.name in names:
                yield _run(one, Path(folder) / one.name, device, ranks_per_device, watchdog_s)


def _run(one: Break, folder: Path, device: Device, ranks_per_device: int, watchdog_s: float) -> Seen:
    knobs = {"fault": one.name, "folder": str(folder / "libraries"), **one.knobs}
    environment = {"EP_JIT_CACHE_DIR": str(folder.with_name(f"{one.name}-jit")), **one.environment}
    if ranks_per_device > 1:
        environment["NCCL_MULTI_RANK_GPU_ENABLE"] = "1"
    spec = handmade(
        ArmSpec(one.name, _BACKEND, ApiMode.PORTABLE, knobs, environment),
        device,
        SHAPE,
        Dtype.FP8,
        ranks_per_device=ranks_per_device,
        iterations=_ITERATIONS,
        warmups=_WARMUPS,
        watchdog_s=watchdog_s,
    )
    start = launch(folder, spec)
    failed = next((record for record in start["records"] if record["status"] == start["status"] != "ok"), None)
    if failed is not None:
        return Seen(one, start["status"], failed["reason_code"], failed["reason"])
    return Seen(one, start["status"], *_flagged(folder, spec, start))


def _flagged(folder: Path, spec: StartSpec, start: dict[str, Any]) -> tuple[str, str]:
    """Code and sentence of a rank that makes the latency; empty where none does."""
    record = start["records"][0]
    num_samples, num_ranks, num_phases = record["samples"]["shape"]
    times_ns = array(
        "q", gzip.decompress((folder / SAMPLES_FILE).read_bytes())[: 8 * num_samples * num_ranks * num_phases]
    )
    spread = rank_spread(times_ns, spec.ep_size, num_phases)
    return (REASON_CODE, spread.sentence) if spread.flagged else ("", "")


def main(device: Device, ranks_per_device: int, out: Path | None, names: Sequence[str]) -> int:
    """Prints a row for each break; 1 where any passed."""
    print("| break | status | reason code | gate | |\n|---|---|---|---|---|")
    seen = []
    for one in run_breaks(device, ranks_per_device, names):
        seen.append(one)
        verdict = "caught" if one.wanted.codes else "passes"
        shown = verdict if one.caught else f"**{'MISSED' if one.wanted.codes else 'REFUSED'}**: {one.reason}"
        print(f"| {one.wanted.what} | {one.status} | {one.code} | {one.wanted.gate} | {shown} |", flush=True)
    if out is not None:
        found = {
            "device": device.value,
            "ranks_per_device": ranks_per_device,
            "breaks": [one.as_json() for one in seen],
        }
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="ascii")
    return 0 if all(one.caught for one in seen) else 1
