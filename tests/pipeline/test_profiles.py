"""Profiles: each previews anywhere, and the slurm one asks the batch system for what a start needs."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from batch_system import install
from trees import Tree, make_tree, tiny

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture
def two_nodes(tmp_path: Path) -> Tree:
    """A working copy whose campaign has one rank a node."""
    one_rank_a_node = [{"ranks": 2, "ranks_per_pod": 1, "rounds": 1, "scored": False}]
    return make_tree(tmp_path / "tree", tiny(ep_sizes=one_rank_a_node))


def test_slurm_is_asked_for_the_nodes_of_a_start(
    two_nodes: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job of two ranks on two nodes asks for both, exclusively and bounded, without an srun of the executor around it."""
    commands = install(tmp_path / "commands")
    (commands / "sbatch").write_text(
        (commands / "sbatch").read_text().split("\njobs =")[0] + '\nsys.exit("not a real cluster")\n'
    )
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    done = two_nodes.run("--profile", "profiles/slurm")

    assert done.returncode == 1
    assert "not a real cluster" in done.stdout
    (call,) = [json.loads(line) for line in (commands / "sbatch.calls").read_text().splitlines()]
    assert {"--nodes=2", "--ntasks=2", "--exclusive"} < set(call)
    assert call[call.index("-t") + 1] == "90"
    wrapped = next(word for word in call if word.startswith("--wrap="))
    assert "--target-jobs 'admit:ep=2'" in wrapped
    assert not wrapped.startswith("--wrap=srun")


def test_eks_previews_without_a_cluster(fresh: Tree) -> None:
    """`snakemake --profile eks -n` in the repository's root shows the matrix of its campaign, wherever it is typed."""
    (fresh.root / "eks").symlink_to("profiles/eks")
    done = fresh.run("--profile", "eks", "-n", "--quiet", "rules", "--config", "results=results")

    assert done.returncode == 0, done.stdout
    assert "measure" in done.stdout
    assert "dry-run" in done.stdout


def test_eks_is_a_link_to_its_profile() -> None:
    """The link at the root is what makes `--profile eks` found."""
    from plans import REPOSITORY

    assert (REPOSITORY / "eks").readlink().as_posix() == "profiles/eks"
