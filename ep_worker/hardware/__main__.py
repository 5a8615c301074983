"""Entry: `python -m ep_worker.hardware SPEC OUT`: one probe start; `OUT/probe.json` says what came of it."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import Any

from ep_worker.contract.canonical import pretty_json, write_atomically
from ep_worker.hardware.floor import measure_floor
from ep_worker.hardware.link import measure_link
from ep_worker.hardware.native import ProbeRefusedError
from ep_worker.hardware.stride import measure_stride
from ep_worker.machine_identity import machine_identity

PROBE_SCHEMA = "ep-campaign/probe-points/1"
MEASURE = {"stride": measure_stride, "link": measure_link, "floor": measure_floor}


def run_probe(spec: dict[str, Any], out: Path) -> dict[str, Any]:
    """The account of one start: its points, or why there are none."""
    try:
        points = MEASURE[spec["probe"]](spec, out)
    except ProbeRefusedError as error:
        return _account("inadmissible", error.code, str(error), [])
    except Exception as error:  # noqa: BLE001 - the account must be written whatever it is
        traceback.print_exc()
        return _account("crashed", "probe_raised", f"{type(error).__name__}: {error}", [])
    faults = [point["fault"] for point in points if point["fault"]]
    if faults:
        return _account("incorrect", "lost_adds", faults[0], points)
    return _account("ok", "", "", points)


def _account(status: str, code: str, reason: str, points: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "schema": PROBE_SCHEMA,
        "status": status,
        "reason_code": code,
        "reason": reason,
        "points": points,
        "machine": machine_identity(),
    }


def main(spec_path: str, out: str) -> None:
    """Runs the start of a spec file."""
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    spec = json.loads(Path(spec_path).read_text(encoding="ascii"))
    write_atomically(folder / "probe.json", pretty_json(run_probe(spec, folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
