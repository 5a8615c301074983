"""How commands end: an exit status for each way, and never a traceback for what a user did."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ep_campaign.command import run
from ep_campaign.errors import refuse
from ep_campaign.pipeline import campaign_path


def raising(error: BaseException):
    """A main function that ends so."""

    def main() -> None:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (refuse("bad_thing", "found 1, expected 2", "here"), 2, "here: found 1, expected 2 [bad_thing]\n"),
        (
            OSError(errno.ENOSPC, "No space left", "f"),
            2,
            "f: cannot be written or read: No space left [cannot_write]\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted; the same command goes on where this one stopped\n"),
    ],
    ids=["refusal", "full disk", "Ctrl-C"],
)
def test_every_way_to_end_has_its_status_and_one_line(capsys, error, status, text):
    """2 for a refusal and for a disk that cannot be written, 130 for Ctrl-C; the line goes to standard error."""
    with pytest.raises(SystemExit) as ended:
        run(raising(error))

    assert status == ended.value.code
    assert ("", text) == capsys.readouterr()


def test_a_fault_of_our_own_keeps_its_traceback():
    """What nobody foresaw is not dressed up as a refusal."""
    with pytest.raises(ZeroDivisionError):
        run(raising(ZeroDivisionError()))


@pytest.mark.parametrize("name", ["smoke", "smoke.yaml"])
def test_a_campaign_is_named_with_or_without_its_suffix(monkeypatch, name):
    """Both name one file."""
    monkeypatch.chdir(Path(__file__).parents[2])
    assert Path("config/campaigns/smoke.yaml") == campaign_path(name)


def test_another_folder_is_refused_with_what_to_do(monkeypatch, tmp_path):
    """Commands run from the repository's root, where the campaigns are."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match=r"from the repository's root \[wrong_folder\]"):
        campaign_path("smoke")
