"""The scripts of validation, aggregation and completion on a full and on a read-only file system."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from plans import REPOSITORY, make_plan
from synthetic import make_results, record_all_products

from ep_campaign.layout import TABLES, Results
from ep_campaign.validate import validate
from ep_campaign.validate.report import write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PRODUCTS = [*(f"tables/{name}.parquet" for name in TABLES), "statistics.json", "RESULTS.md", "report.html", "pr.md"]
SCRIPTS = ("validate", "aggregate", "complete")


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of 4 MiB with a validated folder; skipped without the right to mount one."""
    folder = tmp_path_factory.mktemp("disk")
    mount = ["/bin/mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("needs the right to mount a tmpfs; tests beside this one stand in for it")
    try:
        plan = make_plan(folder)
        results = make_results(folder / "results", plan)
        write(validate(plan, results), results)
        for name in PRODUCTS:
            path = results.root / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(name)
        record_all_products(results)
        yield folder
    finally:
        subprocess.run(["/bin/umount", str(folder)], check=True)


def _fill(path: Path) -> None:
    """Writes until the file system refuses."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, b"\0" * 4096)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("state", ["full", "read-only"])
def test_no_script_leaves_a_traceback_or_half_a_file(disk: Path, state: str) -> None:
    """Exit status 2 and one line with its code each; nothing appears that was not there, and what was there stays whole."""
    with pytest.raises(OSError, match="No space left"):
        _fill(disk / "filler")
    results = Results(disk / "results")
    before = {path: path.read_bytes() for path in results.root.rglob("*") if path.is_file()}
    if state == "read-only":
        subprocess.run(["/bin/mount", "-o", "remount,ro", str(disk)], check=True)
    try:
        for name in SCRIPTS:
            script = REPOSITORY / "workflow" / "scripts" / f"{name}.py"
            command = [sys.executable, str(script), "--results", str(results.root)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
            assert done.stderr.endswith("[cannot_write]\n")
            reason = "No space left on device" if state == "full" else "Read-only file system"
            assert reason in done.stderr
    finally:
        subprocess.run(["/bin/mount", "-o", "remount,rw", str(disk)], check=True)
    after = {path: path.read_bytes() for path in results.root.rglob("*") if path.is_file()}
    assert after == before
    assert shutil.disk_usage(disk).free < 4096
