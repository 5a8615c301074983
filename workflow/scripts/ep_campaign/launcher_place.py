"""A place that another launcher reaches: srun in a Slurm allocation, torchrun on several hosts, or any command that starts ranks.

The command starts every rank of a start as `python -m ep_worker launch SPEC OUT`, on hosts that share the results folder;
rank 0 leaves the account (`ep_worker.launch`). Records are the same as anywhere else.
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ep_campaign.errors import CampaignError, Refusal, refuse
from ep_campaign.load import read_model
from ep_campaign.local import run_launcher
from ep_campaign.place import Fitness
from ep_worker.contract.rankfile import event_path
from ep_worker.contract.terms import Device, Status

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan
    from ep_worker.contract.spec import StartSpec

LAUNCHER_SCHEMA = "ep-campaign/launcher-place/1"
WORDS = ("num_ranks", "num_nodes", "ranks_per_node", "host", "port", "python", "spec", "out", "image")
"""What may stand in braces in a command."""

UNPROVED = {
    "code": "transport_unproved",
    "text": "nothing here proves what carried the bytes between nodes: read the ranks' logs, or measure on gangs",
}

_OWED = ("spec", "out")
_IMAGE = "image"


class LauncherConfig(BaseModel):
    """A place file, `profiles/<name>/place.yaml`, of a place that a command reaches. Nothing of it enters a plan."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    schema_: str = Field(alias="schema", pattern=f"^{LAUNCHER_SCHEMA}$", description="Version of this file format.")
    command: tuple[str, ...] = Field(
        min_length=1,
        description="Starts all ranks of a start and ends after the last; words in braces are filled in: "
        + ", ".join(WORDS)
        + ".",
    )
    port: int = Field(default=29500, ge=1024, le=65535, description="Port of the rendezvous on the first host.")
    grace_s: float = Field(
        default=120.0, gt=0, description="What the command is given beyond the ranks' own bounds, to begin and end [s]."
    )

    @field_validator("command")
    @classmethod
    def _known_words(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        found = [word for part in value for word in re.findall(r"\{(\w*)\}", part)]
        unknown, missing = sorted(set(found) - set(WORDS)), sorted(set(_OWED) - set(found))
        if unknown or missing:
            msg = f"unknown words {unknown}, missing words {missing}; a command may hold {', '.join(WORDS)} in braces"
            raise ValueError(msg)
        return value

    @property
    def has_image(self) -> bool:
        """Whether the command says which image ranks run in."""
        return any(f"{{{_IMAGE}}}" in part for part in self.command)


def load_launcher(path: Path) -> LauncherConfig:
    """A place file.

    Raises:
        CampaignError: With everything that is wrong with it.
    """
    return read_model(path, LauncherConfig, "bad_place")


class LauncherPlace:
    """Hosts that a command reaches."""

    def __init__(self, config: LauncherConfig) -> None:
        self._config = config

    def fitness(self, plan: Plan, folder: Path, ep_size: int) -> Fitness:
        """As `Place.fitness`: is there such a command, and can it run every arm's image?"""
        refusals = []
        if shutil.which(self._config.command[0]) is None:
            message = f"command {self._config.command[0]!r} is not here: run this where it is, or use another profile"
            refusals.append(Refusal("no_launcher", message, "admission"))
        for arm, entry in plan.document["arms"].items():
            refusals += _image_refusals(self._config, arm, entry["image"])
        num_nodes = ep_size // plan.ep_entry(ep_size)["ranks_per_pod"]
        observed = {
            "command": list(self._config.command),
            "host": socket.gethostname(),
            "num_nodes": num_nodes,
        }
        notes = [UNPROVED] if num_nodes > 1 and plan.device is Device.CUDA else []
        return Fitness(observed, refusals, notes)

    def launch(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any]:
        """As `Place.launch`."""
        refusals = _image_refusals(self._config, spec.arm.name, image)
        if refusals:
            raise CampaignError(refusals)
        bound_s = spec.watchdog_s + spec.rendezvous_timeout_s + self._config.grace_s
        try:
            account = run_launcher(command_of(self._config, folder, spec, image), folder, bound_s)
        except FileNotFoundError as error:
            message = f"command {error.filename!r} is not here: run this where it is, or use another profile"
            raise refuse("no_launcher", message, spec.start) from None
        if account["reason_code"] == "launcher_died" and event_path(folder, 0).exists():
            # Rank 0 began, so the launcher worked: whatever ended rank 0 before its account is the arm's own.
            killed = {"outcome": "rank_failed", "status": Status.CRASHED.value, "reason_code": "rank_killed"}
            account = {**account, **killed}
        return account

    def resume(self, folder: Path, spec: StartSpec, attempt: int, image: str | None) -> dict[str, Any] | None:
        """As `Place.resume`: the command is this process's child, and ends with its job."""
        return None


def command_of(config: LauncherConfig, folder: Path, spec: StartSpec, image: str | None) -> list[str]:
    """The command of a start, filled in."""
    words = {
        "num_ranks": spec.ep_size,
        "num_nodes": spec.ep_size // spec.ranks_per_pod,
        "ranks_per_node": spec.ranks_per_pod,
        "host": socket.gethostname(),
        "port": config.port,
        "python": sys.executable,
        "spec": folder.resolve() / "spec.json",
        "out": folder.resolve(),
        _IMAGE: image or "",
    }
    return [re.sub(r"\{(\w+)\}", lambda match: str(words[match[1]]), part) for part in config.command]


def _image_refusals(config: LauncherConfig, arm: str, image: str | None) -> list[Refusal]:
    """An image that nobody would run, or none where one is asked for."""
    if image is not None and not config.has_image:
        message = f"arm {arm!r} runs in an image, but the place's command has no {{{_IMAGE}}}: say how it starts one"
        return [Refusal("no_image_option", message, "place")]
    if image is None and config.has_image:
        message = f"arm {arm!r} names no image, but the place's command starts one: name it, or take {{{_IMAGE}}} out"
        return [Refusal("no_image", message, "place")]
    return []
