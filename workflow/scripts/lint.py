"""Runs Snakemake's linter on the workflow and fails on every finding but the ones excepted here, each with its reason."""

import subprocess
import sys
from pathlib import Path

EXCEPTED = {
    "Specify a conda environment or container for each rule": (
        "every rule runs in one environment, that of requirements.lock; arms bring their own images"
    ),
}


def findings(output: str) -> list[str]:
    """`place: title` of every lint in the linter's text."""
    found, place = [], "workflow"
    for line in output.splitlines():
        if line.startswith("Lints for "):
            place = line.removeprefix("Lints for ").rstrip(":")
        elif line.startswith("    * "):
            found.append(f"{place}: {line.removeprefix('    * ').rstrip(':').rstrip('.')}")
    return found


def main() -> int:
    """Prints what is found; the exit status says whether anything was."""
    command = [str(Path(sys.executable).parent / "snakemake"), "--lint"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    found = findings(done.stdout)
    if done.returncode and not found:
        print(done.stdout, file=sys.stderr)
        return 1
    kept = [finding for finding in found if finding.partition("): ")[2] not in EXCEPTED]
    print("\n".join(kept) if kept else f"snakemake --lint: {len(found)} findings, all excepted with a reason")
    return 1 if kept else 0


if __name__ == "__main__":
    sys.exit(main())
