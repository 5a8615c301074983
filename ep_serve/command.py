"""The command line.

Exit status of `serve`: 0 after a signal to stop; 1 where the engine did not start; 2 where it cannot be what is asked.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from ep_serve.settings import Fault, Settings, Shape, Transport, loads
from ep_worker.processes import die_with_parent

if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_REFUSED = 2


def main(arguments: Sequence[str]) -> int:
    """Runs the command; the exit status."""
    parent_pid = os.getppid()
    options = _parser().parse_args(arguments)
    if options.command == "nursery":
        die_with_parent(parent_pid)
        from ep_serve.nursery import Nursery  # noqa: PLC0415 - torch, which the front does without

        return Nursery(loads(options.settings), options.control, options.work).run()
    try:
        settings = settings_of(options)
    except ValueError as error:
        sys.stderr.write(f"ep_serve serve: {error}\n")
        return EXIT_REFUSED
    if options.bound:
        die_with_parent(parent_pid)
    from ep_serve.serve import serve  # noqa: PLC0415 - not needed by ranks

    try:
        return serve(settings, options.work, options.port)
    except OSError as error:
        sys.stderr.write(f"ep_serve serve: {error}\n")
        return EXIT_REFUSED


def settings_of(options: argparse.Namespace) -> Settings:
    """What the options ask for.

    Raises:
        ValueError: It cannot be served.
    """
    shape = Shape(**{item.name: getattr(options, item.name) for item in fields(Shape)})
    plain = [item.name for item in fields(Settings) if item.name not in ("shape", "transport", "faults")]
    return Settings(
        **{name: getattr(options, name) for name in plain},
        shape=shape,
        transport=Transport(options.transport),
        faults=tuple(Fault(name) for name in options.fault),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m ep_serve", description="A small engine with elastic EP.")
    commands = parser.add_subparsers(required=True, dest="command")
    serve = commands.add_parser("serve", help="serve until a signal")
    serve.add_argument("--work", type=Path, required=True, metavar="DIR", help="folder for everything it writes")
    serve.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one, said in engine.json")
    serve.add_argument("--bound", action="store_true", help="end when the process that started it ends")
    serve.add_argument("--transport", choices=[one.value for one in Transport], default=Settings.transport.value)
    serve.add_argument("--fault", action="append", default=[], choices=[one.value for one in Fault])
    serve.add_argument("--allow-shrink", action="store_true", help="carry out a smaller width instead of refusing it")
    serve.add_argument("--model-name", default=Settings.model_name)
    serve.add_argument(
        "--join-delay-s", type=float, default=Settings.join_delay_s, help="delay of new ranks of a resize"
    )
    serve.add_argument("--timeout-s", type=float, default=Settings.timeout_s, help="bound of a rank's wait for another")
    numbers = ["width", "max_width", "max_num_seqs", "max_len", "max_step_tokens", "seed"]
    for owner, names in ((Settings, numbers), (Shape, [item.name for item in fields(Shape)])):
        for name in names:
            serve.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(owner, name), metavar="N")
    nursery = commands.add_parser("nursery", help="what ranks are forked from; the front starts it")
    nursery.add_argument("--work", type=Path, required=True, metavar="DIR")
    nursery.add_argument("--control", required=True, metavar="ADDRESS")
    nursery.add_argument("--settings", required=True, metavar="JSON")
    return parser
