"""Starts packed for another machine: what comes back equals a local run, and what was altered is not taken."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest
from trees import copy_tree, make_tree

from ep_campaign.bundle import pack, unpack
from ep_campaign.errors import CampaignError
from ep_campaign.layout import Results
from ep_campaign.plan import Plan, read_plan

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def script(tree, name, *arguments):
    """One script, as a user who stands in the copy runs it."""
    return subprocess.run(
        [sys.executable, f"workflow/scripts/{name}.py", "--results", str(tree.results), *arguments],
        cwd=tree.root,
        env=tree.environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def run_bundle(bundle, *options):
    """The runner, as on a machine that holds the bundle and nothing else of this project."""
    return subprocess.run(
        [sys.executable, "-I", "-c", RUN, ".", *options], cwd=bundle, capture_output=True, text=True, check=False
    )


RUN = "import sys, runpy; sys.path.insert(0, '.'); sys.argv[1:1] = ['run']; runpy.run_module('ep_worker', run_name='__main__')"


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """A campaign of which nothing has run here, all of it packed, run in two calls, and back."""
    tree = make_tree(tmp_path_factory.mktemp("packed") / "tree")
    bundle = tree.root / "bundle"
    done = script(tree, "pack", "--campaign", "tiny", "--bundle", str(bundle))
    assert 0 == done.returncode, done.stderr
    assert "6 launches" in done.stdout
    first = run_bundle(bundle, "--seconds", "0.1")
    assert "5 starts are left" in first.stdout, first.stdout + first.stderr
    cut = json.loads((bundle / "entries/0001/returned.json").read_text())
    assert cut["ended"].startswith("stopped after 0 s")
    (bundle / "entries/0001/returned.json").unlink()
    rest = run_bundle(bundle)
    assert rest.stdout.endswith("every start has returned\n"), rest.stdout + rest.stderr
    return tree


def comparable(record):
    """A start record without what differs between two runs: times, machines, processes, and the digests of such."""
    names = (
        "start",
        "attempt",
        "sequence",
        "position",
        "status",
        "workload",
        "worker_digests",
        "teardown",
        "plan_digest",
    )
    same = {name: record[name] for name in names}
    keep = (
        "cell",
        "boundary",
        "mode",
        "loop",
        "status",
        "reason_code",
        "oracle",
        "resolved",
        "payload_bytes",
        "iterations",
    )
    same["records"] = [{name: item.get(name) for name in keep} for item in record["records"]]
    return same


def test_what_comes_back_equals_a_local_run(packed, finished, tmp_path):
    """Same ids, statuses, workload, oracle and bytes; then the usual summary ends in CAMPAIGN_COMPLETE."""
    tree = copy_tree(packed, tmp_path / "tree")
    bundle = tree.root / "bundle"

    done = script(tree, "unpack", "--bundle", str(bundle))
    assert (0, "taken 4, here already 0, not returned 0\n") == (done.returncode, done.stdout), done.stderr
    again = script(tree, "unpack", "--bundle", str(bundle))
    assert "taken 0, here already 4, not returned 0\n" == again.stdout
    for path in finished.results.glob("starts/*/*/*/*/attempt-1/start.json"):
        other = tree.results / path.relative_to(finished.results)
        local, back = json.loads(path.read_text()), json.loads(other.read_text())
        assert comparable(local) == comparable(back)
        assert local["launcher"]["machine"] == back["launcher"]["machine"]
    returned = json.loads((bundle / "entries/0003/returned.json").read_text())
    record = json.loads(
        (tree.results / "starts" / "ep2/decode/round-01").glob("*/attempt-1/start.json").__next__().read_text()
    )
    assert record["clock"].keys() == returned["clock"].keys()
    summary = tree.run("--config", "campaign=tiny", "summary=only")
    assert 0 == summary.returncode, summary.stdout
    assert (tree.results / "CAMPAIGN_COMPLETE").exists()


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("entries/0004/attempt/rank-0.jsonl", "bad_return"),
        ("entries/0004/attempt/spec.json", "bad_return"),
        ("entries/0002/returned.json", "bad_return"),
        ("ep_worker/timing.py", "worker_altered"),
        ("MANIFEST.json", "bad_bundle"),
    ],
)
def test_what_was_altered_is_not_taken(packed, tmp_path, path, code):
    """One byte more in a returned file, the worker or the manifest: nothing is taken."""
    shutil.copytree(packed.root / "bundle", tmp_path / "bundle")
    results = Results(tmp_path / "results")
    altered = tmp_path / "bundle" / path
    altered.write_bytes(altered.read_bytes() + b" #")

    with pytest.raises(CampaignError) as caught:
        unpack(read_plan(packed.results / "plan.json"), results, tmp_path / "bundle")

    assert (code,) == caught.value.codes
    assert not results.root.exists()


def test_a_bundle_of_another_plan_is_not_taken(packed, tmp_path):
    """The plan's digest is the first thing that must fit."""
    plan = read_plan(packed.results / "plan.json")

    with pytest.raises(CampaignError) as caught:
        unpack(Plan({**plan.document, "seed": 1}), Results(tmp_path / "results"), packed.root / "bundle")

    assert "other_plan" in caught.value.codes


def test_a_start_that_did_not_return_stays_pending(packed, tmp_path):
    """It is counted, and the next bundle holds it alone; a second bundle of the same name is refused."""
    shutil.copytree(packed.root / "bundle", tmp_path / "bundle")
    results = Results(tmp_path / "results")
    results.root.mkdir()
    shutil.copy(packed.results / "plan.json", results.plan)
    plan = read_plan(results.plan)
    (tmp_path / "bundle/entries/0006/returned.json").unlink()

    done = unpack(plan, results, tmp_path / "bundle")

    assert ([start.id for start in plan.starts[:3]], [], [plan.starts[3].id]) == (
        done.taken,
        done.already,
        done.missing,
    )
    assert [plan.starts[3].id] == [entry.start for entry in pack(plan, results, tmp_path / "next").entries]
    with pytest.raises(CampaignError, match="bundle_exists"):
        pack(plan, results, tmp_path / "next")


def test_admission_must_have_returned(packed, tmp_path):
    """Without a record of admission nothing scored is taken."""
    shutil.copytree(packed.root / "bundle", tmp_path / "bundle")
    (tmp_path / "bundle/entries/0002/returned.json").unlink()

    with pytest.raises(CampaignError, match="not_admitted"):
        unpack(read_plan(packed.results / "plan.json"), Results(tmp_path / "results"), tmp_path / "bundle")
