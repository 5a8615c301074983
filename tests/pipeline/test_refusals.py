"""Bad input at the command line: a reason code, an exit status, no traceback, nothing lost."""

from __future__ import annotations

import os
import subprocess

import pytest
from trees import tiny

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.mark.parametrize(
    ("config", "code"),
    [
        (("campaign=none",), "no_such_file"),
        (("campaign=tiny", "sumary=only"), "unknown_config"),
        (("campaign=tiny", "summary=yes"), "bad_config"),
    ],
)
def test_bad_configuration_is_refused(fresh, config, code):
    """A missing campaign, a misspelt key, a wrong value."""
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


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system needs root")
@pytest.mark.parametrize(("options", "word"), [("size=256k", "No space left"), ("size=8m,ro", "Read-only file system")])
def test_a_full_or_read_only_results_folder_is_named(fresh, options, word):
    """The refusal names the cause; no traceback is shown; no start claims to be measured."""
    folder = fresh.root / "results"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", folder], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount here: {mounted.stderr.decode().strip()}")
    try:
        done = fresh.run()
        assert 0 != done.returncode
        assert word in done.stdout
        assert "Traceback" not in done.stdout
        assert not fresh.outcomes()
    finally:
        subprocess.run(["umount", folder], check=True)
