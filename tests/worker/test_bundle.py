"""What a bundle's runner gives to the launches that it starts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ep_worker import bundle as runner
from ep_worker.outcome import LAUNCHER_FILE

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LAUNCHER = """
import json, pathlib, sys
import backend
path = {name: sys.modules[name].__file__ for name in ("backend", "ep_worker")}
pathlib.Path(sys.argv[3], "%s").write_text(json.dumps(path))
"""


def package(folder: Path, main: str) -> None:
    """A package `ep_worker` in a folder."""
    (folder / "ep_worker").mkdir(parents=True)
    (folder / "ep_worker" / "__init__.py").write_text("")
    (folder / "ep_worker" / "__main__.py").write_text(main)


def test_the_callers_path_follows_the_bundles_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend that PYTHONPATH names is found; a worker that it names as well is not the one that runs."""
    here, elsewhere, out = tmp_path / "bundle", tmp_path / "elsewhere", tmp_path / "out"
    package(here, LAUNCHER % LAUNCHER_FILE)
    package(elsewhere, "raise SystemExit('not this one')")
    (elsewhere / "backend.py").write_text("")
    out.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))

    assert "finished" == runner._launch(here, out, 30.0)
    found = json.loads((out / LAUNCHER_FILE).read_text())
    assert {"backend": str(elsewhere / "backend.py"), "ep_worker": str(here / "ep_worker/__init__.py")} == found
