"""What the executor asks of whoever knows what a job means."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable
    from pathlib import Path

    from snakemake_executor_plugin_gang.gang import Gangs


@dataclass(frozen=True)
class GangJob:
    """A Snakemake job, as a driver sees it.

    Attributes:
        rule: Its rule.
        wildcards: Their values.
        outputs: Paths that the driver has to write.
        log: Path of its log file; None where the rule has none.
    """

    rule: str
    wildcards: dict[str, str]
    outputs: tuple[str, ...]
    log: Path | None


class Driver(Protocol):
    """Turns a job into gangs, and what these leave into the job's outputs.

    It is made once for a workflow, in the executor's process, as `Driver(gangs, place, tell)`.
    """

    def __init__(self, gangs: Gangs, place: Path, tell: Callable[[str], None]) -> None: ...

    def run(self, job: GangJob, stop: threading.Event) -> None:
        """Runs a job to its end and writes its outputs.

        Raises:
            Exception: The job failed; the text is what a user is told.
        """

    def close(self) -> None:
        """Ends whatever the driver holds; nothing runs any more."""


def load(name: str) -> type[Driver]:
    """The driver that `module:Class` names.

    Raises:
        ValueError: There is no such thing.
    """
    module, _, attribute = name.partition(":")
    try:
        driver: type[Driver] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        msg = f"gang driver {name!r} cannot be imported ({error}); expected module:Class of an installed package"
        raise ValueError(msg) from error
    return driver
