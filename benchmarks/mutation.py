"""Mutation tests of statistics, byte accounting and validation: which small changes of the code would no test notice?

mutmut makes the mutants and runs the tests that reach each. It names modules by their path, so the packages are laid out
side by side in a temporary folder first. On 2 idle cores this takes about an hour; `--only` takes less.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
TARGETS = (
    "ep_campaign/stats/*",
    "ep_campaign/validate/*",
    "ep_worker/contract/accounting.py",
    "ep_worker/contract/record.py",
    "ep_worker/contract/tolerance.py",
)
TESTS = ("tests/stats", "tests/contract", "tests/host/test_validate*.py")
SKIPPED = ("test_validate_script.py", "test_stats_simulations.py")
"""Tests that start processes, or that need the statistics to be right many times over: too slow for thousands of runs."""

STATUS = {0: "survived", 1: "killed", 5: "no test", 24: "timed out", 33: "no test", 34: "skipped", 36: "timed out"}
"""mutmut's exit codes."""

CONFIG = """\
[tool.pytest.ini_options]
pythonpath = [".", "tests"]
addopts = "-q --import-mode=importlib --strict-markers -p no:xdist -p no:cacheprovider"
markers = ["slow: real processes", "gpu: needs GPUs"]

[tool.mutmut]
source_paths = ["ep_campaign", "ep_worker"]
only_mutate = {only}
also_copy = ["config", "tests"]
pytest_add_cli_args_test_selection = {tests}
mutate_only_covered_lines = true
"""

PROFILE = """

from hypothesis import HealthCheck, settings

# mutmut runs every test several times in one process.
settings.register_profile("mutation", deadline=None, suppress_health_check=list(HealthCheck), database=None)
settings.load_profile("mutation")
"""


def stage(folder: Path, only: list[str]) -> None:
    """Lays packages, tests and configuration out as mutmut expects them."""
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "workflow" / "scripts" / "ep_campaign", folder / "ep_campaign", ignore=ignore)
    for name in ("ep_worker", "tests", "config"):
        shutil.copytree(REPOSITORY / name, folder / name, ignore=ignore)
    for name in SKIPPED:
        for path in folder.glob(f"tests/**/{name}"):
            path.unlink()
    with (folder / "tests" / "conftest.py").open("a") as stream:
        stream.write(PROFILE)
    tests = sorted(str(path.relative_to(folder)) for pattern in TESTS for path in folder.glob(pattern))
    (folder / "pyproject.toml").write_text(CONFIG.format(only=json.dumps(only), tests=json.dumps(tests)))


def verdicts(folder: Path) -> dict[str, Counter[str]]:
    """For each module how many of its mutants were killed, survived, ..."""
    found: dict[str, Counter[str]] = {}
    for path in sorted((folder / "mutants").rglob("*.meta")):
        codes = json.loads(path.read_text())["exit_code_by_key"].values()
        if codes:
            module = str(path.relative_to(folder / "mutants")).removesuffix(".meta")
            found[module] = Counter("not run" if code is None else STATUS.get(code, "killed") for code in codes)
    return found


def table(found: dict[str, Counter[str]]) -> str:
    """A Markdown table of the verdicts, with a sum."""
    columns = ("killed", "timed out", "survived", "no test")
    lines = [f"| module | mutants | {' | '.join(columns)} | killed [%] |", f"|---|{'--:|' * 6}"]
    total: Counter[str] = Counter()
    for module, counts in [*found.items(), ("all", total)]:
        if module != "all":
            total.update(counts)
        caught, number = counts["killed"] + counts["timed out"], counts.total()
        row = " | ".join(str(counts[column]) for column in columns)
        lines.append(f"| {module} | {number} | {row} | {100 * caught / max(number, 1):.1f} |")
    return "\n".join(lines)


def main() -> int:
    """Prints the table and the names of the survivors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", default=list(TARGETS), help="patterns of modules to mutate")
    parser.add_argument("--folder", type=Path, help="keep the staged tree here, to look at survivors with mutmut")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="mutation-"))
    folder.mkdir(parents=True, exist_ok=True)
    stage(folder, arguments.only)
    mutmut = str(Path(sys.executable).parent / "mutmut")
    done = subprocess.run([mutmut, "run"], cwd=folder, stdout=sys.stderr, check=False)
    found = verdicts(folder)
    if not found:
        print(
            f"mutmut ended with status {done.returncode} and made no mutant; the tree is in {folder}", file=sys.stderr
        )
        return 1
    print(table(found))
    survivors = subprocess.run([mutmut, "results"], cwd=folder, capture_output=True, text=True, check=False)
    print("\nSurvivors:\n" + "\n".join(line.strip() for line in survivors.stdout.splitlines() if "survived" in line))
    if arguments.folder is None:
        shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
