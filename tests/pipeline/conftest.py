"""One finished tiny campaign for all tests of this folder; each takes a copy."""

from __future__ import annotations

import pytest
from trees import Tree, copy_tree, make_tree


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Tree:
    """A tiny campaign, run to its end by real Snakemake and real ranks."""
    tree = make_tree(tmp_path_factory.mktemp("finished") / "tree")
    done = tree.run()
    assert done.returncode == 0, done.stdout
    return tree


@pytest.fixture
def copied(finished, tmp_path) -> Tree:
    """A copy of the finished campaign that a test may alter."""
    return copy_tree(finished, tmp_path / "tree")


@pytest.fixture
def fresh(tmp_path) -> Tree:
    """A working copy in which nothing has run."""
    return make_tree(tmp_path / "tree")
