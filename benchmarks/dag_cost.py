"""What our Snakefile costs beyond bare Snakemake: wall time of a dry run of N starts, paired, ratio of medians.

The bare workflow has the same shape (N jobs of one rule, a summary chain behind them) and none of our code: no plan, no targets
from the results folder, no order, no digests. Goal: at most 1.3 times its cost at 100, 1,000 and 5,000 starts.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ARMS = ("torch-a2a", "torch-a2a-cached", "torch-agrs")

CAMPAIGN = """\
schema: ep-campaign/campaign/1
name: large
kind: comparison
description: A campaign of many starts.
device: cpu
seed: 1
arms: [{arms}]
reference: torch-a2a
profiles: [{{name: decode, tokens_per_rank: 8, hidden: 128, experts: 8, top_k: 2}}]
routes: [{{name: uniform, kind: uniform}}]
dtypes: [bf16]
ep_sizes: [{{ranks: 2, rounds: {rounds}, scored: false}}]
"""

BARE = """\
rule all:
    input: "out/complete"

rule admit:
    output: "out/admit"
    shell: "touch {{output}}"

rule measure:
    input: "out/admit"
    output: "out/starts/{{arm}}/round-{{round}}/outcome-1.json"
    log: "out/logs/{{arm}}-{{round}}.log"
    resources: node_set=1
    shell: "touch {{output}}"

rule validate:
    input: expand("out/starts/{{arm}}/round-{{round}}/outcome-1.json", arm={arms}, round=range({rounds}))
    output: "out/validation"
    shell: "touch {{output}}"

rule complete:
    input: "out/validation"
    output: "out/complete"
    shell: "touch {{output}}"
"""

PROFILE = REPOSITORY / "profiles" / "default" / "profile.yaml"


def ours(folder: Path, rounds: int) -> list[str]:
    """A tree with this repository's workflow and one large campaign; the command that previews it."""
    for name in ("Snakefile", "workflow", "profiles", "ep_worker"):
        (folder / name).symlink_to(REPOSITORY / name)
    (folder / "config" / "campaigns").mkdir(parents=True)
    for name in ("config.yaml", "shapes.yaml"):
        (folder / "config" / name).symlink_to(REPOSITORY / "config" / name)
    arms = ", ".join(f"{{name: {arm}, backend: {arm}}}" for arm in ARMS)
    (folder / "config" / "campaigns" / "large.yaml").write_text(CAMPAIGN.format(arms=arms, rounds=rounds))
    return [snakemake(), "-n", "--quiet", "all", "--config", "campaign=large"]


def bare(folder: Path, rounds: int) -> list[str]:
    """A tree with the bare workflow; the command that previews it, under the same profile."""
    (folder / "Snakefile").write_text(BARE.format(arms=repr(list(ARMS)), rounds=rounds))
    return [snakemake(), "-n", "--quiet", "all", "--profile", str(PROFILE)]


def snakemake() -> str:
    """The Snakemake of this interpreter's environment."""
    return str(Path(sys.executable).parent / "snakemake")


def seconds(command: list[str], folder: Path) -> float:
    """Wall time of one run of a command that must succeed [s]."""
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ)
    return time.perf_counter() - began


def main() -> None:
    """Prints one line for each number of starts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--pairs", type=int, default=5, help="paired runs of each size")
    arguments = parser.parse_args()
    print("starts  ours_s  bare_s  ratio (median of paired ratios; goal <= 1.3)")
    for starts in arguments.starts:
        rounds = -(-starts // len(ARMS))
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            a, b = ours(Path(one), rounds), bare(Path(other), rounds)
            pairs = [(seconds(a, Path(one)), seconds(b, Path(other))) for _ in range(arguments.pairs)]
        medians = [statistics.median(column) for column in zip(*pairs, strict=True)]
        ratio = statistics.median(mine / theirs for mine, theirs in pairs)
        print(f"{rounds * len(ARMS):6d}  {medians[0]:6.2f}  {medians[1]:6.2f}  {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main()
