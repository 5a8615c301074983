"""How a thin script runs: one line for each refusal and an exit status, never a traceback for a user's fault."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ep_campaign.errors import CampaignError
from ep_campaign.layout import Results
from ep_campaign.local import ThisMachine

if TYPE_CHECKING:
    from collections.abc import Callable

    from ep_campaign.place import Place

THIS_MACHINE = "local"

EXIT_INTERRUPTED = 130
"""What shells report of a process that Ctrl-C ended."""


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with the one argument that every stage takes."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--results", required=True, type=Path, help="results folder of the campaign")
    return made


def results_of(arguments: argparse.Namespace) -> Results:
    """The results folder that was named."""
    return Results(arguments.results)


def add_place(made: argparse.ArgumentParser) -> None:
    """The argument of scripts that launch starts."""
    text = "place file whose command starts the ranks, or local (default) for processes of this machine"
    made.add_argument("--place", default=THIS_MACHINE, metavar="FILE", help=text)


def place_of(arguments: argparse.Namespace) -> Place:
    """The place that was named.

    Raises:
        CampaignError: Its file is refused.
    """
    if arguments.place == THIS_MACHINE:
        return ThisMachine()
    from ep_campaign.launcher_place import (  # noqa: PLC0415 - pydantic would cost every local start 0.2 s
        LauncherPlace,
        load_launcher,
    )

    return LauncherPlace(load_launcher(Path(arguments.place)))


def run(main: Callable[[], None]) -> None:
    """Runs a script's main function; a refusal is printed, a full disk named, and the process ends with its exit status."""
    try:
        main()
    except CampaignError as error:
        _say(str(error))
        raise SystemExit(error.exit_status) from None
    except OSError as error:
        _say(f"{error.filename or 'the results folder'}: cannot be written or read: {error.strerror} [cannot_write]")
        raise SystemExit(CampaignError.exit_status) from None
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on where this one stopped")
        raise SystemExit(EXIT_INTERRUPTED) from None


def _say(text: str) -> None:
    """Prints to standard error, or, where that is a log on the disk that is full, to standard output."""
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:
        print(text, flush=True)
