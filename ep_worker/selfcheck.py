"""`python -m ep_worker break|kernels|overhead`: checks of this worker itself, which need torch and nothing else.

`break` measures wrongly on purpose (`breaks`); `kernels` profiles arms, `overhead` holds the harness against a minimal loop
(both `probes`).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ep_worker.breaks import run as breaks
from ep_worker.contract.capabilities import CAPABILITIES, reject_shape
from ep_worker.contract.spec import OVERHEAD, PROFILE, ArmSpec, Shape
from ep_worker.contract.terms import ApiMode, Device, Dtype
from ep_worker.probes import report
from ep_worker.probes.launch import probe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ep_worker.contract.capabilities import Capability, Unsupported
    from ep_worker.contract.spec import StartSpec

EXIT_REFUSED = 2
SHAPES = {
    "tiny": Shape("tiny", 32, 32, 256, 16, 4),
    "decode": Shape("decode", 128, 128, 7168, 256, 8),
    "prefill": Shape("prefill", 4096, 4096, 7168, 256, 8),
}
"""Of DeepSeek-V3, but for the first."""
_PACKAGES = {"deepep": "deep_ep", "uccl": "uccl"}


def main(arguments: Sequence[str]) -> int:
    """Runs a check; 0 where it holds, 1 where it does not, 2 where the arguments are refused."""
    options = _parser().parse_args(arguments)
    device = Device(options.device)
    try:
        if options.command == "break":
            return breaks.main(device, options.ranks_per_device, options.out, options.names)
        kind = PROFILE if options.command == "kernels" else OVERHEAD
        arms = [_arm(text) for text in options.arm] or _present(device, SHAPES[options.shape], options.ranks)
        with tempfile.TemporaryDirectory(prefix="ep-probe-") as folder:
            rows = [_probe(Path(folder) / str(number), kind, arm, device, options) for number, arm in enumerate(arms)]
    except ValueError as error:
        sys.stderr.write(f"ep_worker {options.command}: {error}\n")
        return EXIT_REFUSED
    show: Callable[[list[dict[str, Any]]], str] = report.kernels if kind == PROFILE else report.overhead
    print(show(rows), flush=True)
    if options.out is not None:
        found = {"kind": kind, "device": device.value, "ranks_per_device": options.ranks_per_device, "rows": rows}
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="ascii")
    return 0 if all(row["holds"] for row in rows) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ep_worker", description="Checks this worker itself.")
    commands = parser.add_subparsers(required=True, dest="command")
    texts = {
        "break": "measure wrongly in every known way and say which gate catches it",
        "kernels": "kernel times of arms, by the profiler",
        "overhead": "this harness against a minimal loop over the same calls",
    }
    for name, text in texts.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--device", choices=[one.value for one in Device], default=Device.CPU.value)
        command.add_argument("--ranks-per-device", type=int, default=1, metavar="N", help="ranks that share one GPU")
        command.add_argument("--out", type=Path, metavar="FILE", help="write what was found as JSON, too")
        if name == "break":
            command.add_argument("names", nargs="*", metavar="NAME", help="breaks to run; all where none is named")
            continue
        command.add_argument(
            "--arm", action="append", default=[], metavar="BACKEND:MODE", help="all present if left out"
        )
        command.add_argument("--shape", choices=list(SHAPES), default="decode")
        command.add_argument("--dtype", choices=[one.value for one in Dtype], default=Dtype.BF16.value)
        command.add_argument("--ranks", type=int, default=2)
    return parser


def _arm(text: str) -> ArmSpec:
    """An arm from BACKEND:MODE.

    Raises:
        ValueError: It is not that.
    """
    backend, _, mode = text.partition(":")
    if (backend, mode) not in {(name, one.value) for name, one in CAPABILITIES}:
        known = ", ".join(f"{name}:{one.value}" for name, one in CAPABILITIES)
        msg = f"found arm {text!r}, expected one of {known}"
        raise ValueError(msg)
    return ArmSpec(f"{backend}-{mode}", backend, ApiMode(mode), {}, {})


def _present(device: Device, shape: Shape, ranks: int) -> list[ArmSpec]:
    """The arms that can run a shape on a device and whose package is installed here."""
    return [
        _arm(f"{backend}:{mode.value}")
        for (backend, mode), entry in CAPABILITIES.items()
        if _rejected(entry, device, shape, ranks) is None
        and all(find_spec(package) for prefix, package in _PACKAGES.items() if backend.startswith(prefix))
    ]


def _rejected(entry: Capability, device: Device, shape: Shape, ranks: int) -> Unsupported | None:
    return reject_shape(
        entry,
        device,
        ep_size=ranks,
        hidden=shape.hidden,
        top_k=shape.top_k,
        max_tokens_per_rank=shape.max_tokens_per_rank,
        has_empty_rank=False,
    )


def _probe(folder: Path, kind: str, arm: ArmSpec, device: Device, options: argparse.Namespace) -> dict[str, Any]:
    def tell(spec: StartSpec) -> None:
        print(f"{kind} {spec.arm.name} ...", file=sys.stderr, flush=True)

    found = probe(
        folder,
        kind,
        arm,
        device,
        SHAPES[options.shape],
        Dtype(options.dtype),
        ranks=options.ranks,
        ranks_per_device=options.ranks_per_device,
        tell=tell,
    )
    return report.summary(kind, arm.name, found)
