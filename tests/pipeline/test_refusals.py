"""Bad input at the command line: a reason code, an exit status, no traceback, nothing lost."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager

import pytest
from trees import tiny, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (("campaign=none",), "no_such_file"),
        (("campaign=tiny", "sumary=only"), "unknown_config"),
        (("campaign=tiny", "summary=yes"), "bad_config"),
        (("campaign=tiny", "results=Snakefile"), "not_a_folder"),
    ],
)
def test_bad_configuration_is_refused(fresh, config, code):
    """A missing campaign, a misspelt key, a wrong value, a file where the results folder should be."""
    done = fresh.run("-n", "--config", *config)

    assert 0 != done.returncode
    assert f"[{code}]" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_bad_campaign_file_is_refused_with_all_its_faults(fresh):
    """Two faults, two lines, each with its code; no results folder appears."""
    fresh.write(tiny(reference="none", dtypes=["bf16", "bf16"]))

    done = fresh.run()

    assert 0 != done.returncode
    assert "[unknown_reference]" in done.stdout
    assert "[duplicate_dtype]" in done.stdout
    assert "Traceback" not in done.stdout
    assert not fresh.results.exists()


@contextmanager
def mounted(folder, options):
    """A small file system at a folder; skips where none can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize(
    ("options", "word"), [("size=256k", "[too_little_disk]"), ("size=8m,ro", "Read-only file system")]
)
def test_a_small_or_read_only_results_folder_is_named(fresh, options, word):
    """The refusal names the cause before anything is measured; no traceback is shown."""
    with mounted(fresh.root / "results", options):
        done = fresh.run()

        assert 0 != done.returncode
        assert word in done.stdout
        assert "Traceback" not in done.stdout
        assert not fresh.outcomes()


def test_a_disk_that_fills_up_loses_nothing(fresh):
    """Full after admission: starts that cannot be recorded are refused by name; with room again the same command finishes."""
    with mounted(fresh.root / "results", "size=64m"):
        with (fresh.root / "output").open("w") as output:
            process = subprocess.Popen(
                fresh.command(), cwd=fresh.root, env=fresh.environment(), stdout=output, stderr=subprocess.STDOUT
            )
            wait_until((fresh.results / "admission" / "ep2.json").exists, "admission")
            filler = fresh.results.parent / "filler"
            subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=4k"], capture_output=True, check=False)
            assert 0 != process.wait(timeout=100)
        text = (fresh.root / "output").read_text()
        assert "[cannot_write]" in text
        assert "No space left" in text
        assert "Traceback" not in text

        filler.unlink()
        done = fresh.run()
        assert 0 == done.returncode, done.stdout
        assert (fresh.results / "CAMPAIGN_COMPLETE").exists()
