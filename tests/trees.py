"""A copy of this repository that a test may run Snakemake in, kill, and edit."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from plans import ARMS, REPOSITORY, campaign, profile

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = ("Snakefile", "workflow", "profiles", "ep_worker", "config")
SNAKEMAKE = Path(sys.executable).parent / "snakemake"


def tiny(**fields: Any) -> dict[str, Any]:
    """Two arms, one cell, two rounds: four starts of about two seconds."""
    return campaign(
        **{
            "arms": [{"name": arm, "backend": arm} for arm in ARMS[:2]],
            "profiles": [profile("decode", expected_start_s=2)],
            "measurement": {
                "boundaries": ["dispatch_ready"],
                "modes": ["host_start", "graph"],
                "iterations": 20,
                "warmups": 2,
            },
            "ep_sizes": [{"ranks": 2, "rounds": 2, "scored": False}],
            "limits": {"start_timeout_s": 60, "rendezvous_timeout_s": 30, "collective_timeout_s": 30},
            **fields,
        }
    )


@dataclass(frozen=True)
class Tree:
    """A working copy at `root`, with one campaign called tiny."""

    root: Path

    @property
    def results(self) -> Path:
        """Results folder of the campaign."""
        return self.root / "results" / "tiny"

    def environment(self) -> dict[str, str]:
        """This process's environment, with the copy's sources first and the copy's own cache and temporary folder."""
        paths = f"{self.root / 'workflow' / 'scripts'}{os.pathsep}{self.root}"
        # Folders of its own for temporary files and for the lock of the machine: tests run side by side.
        (self.root / ".tmp").mkdir(exist_ok=True)
        folder = str(self.root / ".tmp")
        own = {"XDG_CACHE_HOME": str(self.root / ".cache"), "TMPDIR": folder, "CAMPAIGN_LOCK_FOLDER": folder}
        return {**os.environ, "PYTHONPATH": paths, **own}

    def command(self, *arguments: str) -> list[str]:
        """The command of a user who stands in the copy."""
        return [str(SNAKEMAKE), *(arguments or ()), *(() if "--config" in arguments else ("--config", "campaign=tiny"))]

    def run(self, *arguments: str, timeout_s: float = 110) -> subprocess.CompletedProcess[str]:
        """Runs Snakemake to its end; standard error goes into standard output."""
        return subprocess.run(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """Starts Snakemake in a session of its own; its output is thrown away."""
        null = subprocess.DEVNULL
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=self.environment(),
            stdout=null,
            stderr=null,
            text=True,
            start_new_session=True,
        )

    def write(self, value: dict[str, Any]) -> None:
        """Writes the campaign file."""
        path = self.root / "config" / "campaigns" / f"{value['name']}.yaml"
        path.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")

    def outcomes(self) -> list[Path]:
        """Every outcome file, sorted."""
        return sorted(self.results.glob("starts/*/*/*/*/outcome-*.json"))

    def digest_of(self, *patterns: str) -> dict[str, bytes]:
        """Bytes of every file that matches, by path."""
        return {
            str(path.relative_to(self.results)): path.read_bytes()
            for pattern in patterns
            for path in sorted(self.results.glob(pattern))
            if path.is_file()
        }

    def processes(self) -> list[int]:
        """Pids of living processes whose command line or working folder names this copy."""
        return [pid for pid in _pids() if _belongs(pid, str(self.root))]


def make_tree(folder: Path, value: dict[str, Any] | None = None) -> Tree:
    """A working copy in a new folder."""
    for part in PARTS:
        source = REPOSITORY / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", "published"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / part)
    tree = Tree(folder)
    tree.write(value or tiny())
    return tree


def copy_tree(tree: Tree, folder: Path, *, metadata: bool = True) -> Tree:
    """A copy of a copy with its results; without Snakemake's metadata it is what a fresh clone beside the results is."""
    ignore = None if metadata else shutil.ignore_patterns(".snakemake")
    shutil.copytree(tree.root, folder, ignore=ignore, copy_function=shutil.copy2 if metadata else shutil.copy)
    return Tree(folder)


def wait_until(condition: Callable[[], bool], what: str, timeout_s: float = 60) -> None:
    """Waits for a condition, and fails with what it waited for."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"waited {timeout_s} s for {what}"
        time.sleep(0.05)


def kill(process: subprocess.Popen[str]) -> None:
    """SIGKILL to one process alone, and waits for it."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def _pids() -> list[int]:
    return [
        int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and int(entry.name) != os.getpid()
    ]


def _belongs(pid: int, root: str) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        folder = str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return False
    return state != "Z" and (root in command or folder.startswith(root))
