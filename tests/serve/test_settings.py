"""What an engine can be asked to be."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ep_serve.settings import Fault, Settings, Shape, Transport, loads

if TYPE_CHECKING:
    from pathlib import Path


def test_settings_travel_whole() -> None:
    """What goes to the ranks comes back equal."""
    settings = Settings(transport=Transport.SHARED_MEMORY, faults=(Fault.STUCK_503,), shape=Shape(hidden=32))
    assert settings == loads(settings.dumps())


def test_unknown_settings_are_refused() -> None:
    """A field too many or too few is an error of the front's."""
    with pytest.raises(ValueError, match="settings hold"):
        loads('{"width": 2}')


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"width": 0}, "width is 0, expected at least 1"),
        ({"width": 5}, "width 5 is above max_width 4"),
        ({"max_width": 17}, "17 ranks cannot share 16 experts"),
        ({"max_num_seqs": 200}, "max_step_tokens 128 is below max_num_seqs 200"),
        ({"timeout_s": 0.0}, "timeout_s is 0.0"),
        ({"shape": Shape(hidden=30)}, "hidden 30 is no multiple of 4 heads"),
        ({"shape": Shape(top_k=17)}, "top_k 17 is above 16 experts"),
        ({"shape": Shape(num_layers=0)}, "num_layers is 0"),
    ],
)
def test_what_cannot_be_served(fields: dict[str, object], says: str) -> None:
    """Each misfit is named with its numbers."""
    with pytest.raises(ValueError, match=says):
        Settings(**fields)


def test_all_misfits_at_once() -> None:
    """A user mends the command line once."""
    with pytest.raises(ValueError, match=r"width 9 .*; .*multiple"):
        Settings(width=9, shape=Shape(hidden=30))


def serve(*options: str) -> tuple[int, str]:
    """Exit status and words of the command."""
    command = [sys.executable, "-m", "ep_serve", "serve", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def test_the_command_refuses_before_it_starts_anything(tmp_path: Path) -> None:
    """Settings that cannot be, a taken port and a used folder are each one line and status 2."""
    assert (2, "ep_serve serve: width 9 is above max_width 4\n") == serve(f"--work={tmp_path / 'none'}", "--width=9")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        status, words = serve(f"--work={tmp_path / 'none'}", f"--port={taken.getsockname()[1]}")
    assert 2 == status
    assert "Address already in use" in words
    assert not (tmp_path / "none").exists()
    (tmp_path / "settings.json").touch()
    status, words = serve(f"--work={tmp_path}")
    assert 2 == status
    assert "another engine wrote here" in words


def test_the_front_needs_no_torch() -> None:
    """Neither to refuse nor to serve."""
    told = subprocess.run(
        [sys.executable, "-c", "import sys, ep_serve.serve, ep_serve.command; print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "False\n" == told.stdout
