"""Places that another launcher reaches: what it is told, what is refused, and that its records are those of any other place."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from batch_system import install
from plans import REPOSITORY, SHAPES, make_plan

from ep_campaign.errors import CampaignError
from ep_campaign.expand import load_plan
from ep_campaign.launcher_place import LauncherConfig, LauncherPlace, command_of, load_launcher
from ep_campaign.layout import Results
from ep_campaign.measure import measure
from ep_worker.contract.canonical import pretty_json

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.plan import Plan

TWO_NODES = {"ep_sizes": [{"ranks": 2, "ranks_per_pod": 1, "rounds": 1, "scored": False}]}
IMAGE = "registry.example/arm@sha256:" + "a" * 64


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """One round at EP 2, a rank a node."""
    return make_plan(tmp_path, **TWO_NODES)


def config(*command: str, **fields: Any) -> LauncherConfig:
    """A place of this command."""
    return LauncherConfig.model_validate(
        {"schema": "ep-campaign/launcher-place/1", "command": (*command, "{spec}", "{out}"), **fields}
    )


def run_first(plan: Plan, folder: Path, place: LauncherPlace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Outcome and record of the plan's first start, where admission found nothing wrong."""
    results = Results(folder / "results")
    results.admission(2).parent.mkdir(parents=True)
    arms = {arm: {"status": "ok", "reason_code": "", "reason": ""} for arm in plan.arms}
    results.admission(2).write_text(pretty_json({"arms": arms}))
    outcome = measure(plan, results, plan.starts[0], 1, place)
    last = results.attempt(plan.starts[0].id, outcome["attempts"][-1]["attempt"])
    return outcome, json.loads((last / "start.json").read_text())


class TestCommand:
    def test_srun_starts_one_task_a_rank_on_as_many_nodes_as_there_are_pods(self, plan: Plan, tmp_path: Path) -> None:
        """The slurm profile's command, word by word."""
        spec = plan.spec(plan.starts[0])
        found = command_of(load_launcher(REPOSITORY / "profiles" / "slurm" / "place.yaml"), tmp_path, spec, None)

        options = ["--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--distribution=block", "--cpu-bind=none"]
        worker = [sys.executable, "-m", "ep_worker", "launch", f"{tmp_path}/spec.json", str(tmp_path)]
        assert [
            "srun",
            *options,
            "--kill-on-bad-exit=0",
            *worker,
            f"--rendezvous={socket.gethostname()}:29500",
        ] == found

    def test_an_image_stands_where_the_place_says(self, plan: Plan, tmp_path: Path) -> None:
        """An arm's image by digest reaches the container runtime's option as it is in the plan."""
        place = config("srun", "--container-image={image}")

        assert f"--container-image={IMAGE}" == command_of(place, tmp_path, plan.spec(plan.starts[0]), IMAGE)[1]


class TestRefusals:
    @pytest.mark.parametrize(
        ("command", "said"),
        [(["srun", "{spec}"], "missing words ['out']"), (["srun", "{spec}", "{out}", "{gpus}"], "words ['gpus']")],
    )
    def test_a_command_that_cannot_be_filled_in_is_refused(self, tmp_path: Path, command: list[str], said: str) -> None:
        """Every rank needs spec and folder; a word that nobody fills in is a slip."""
        path = tmp_path / "place.yaml"
        path.write_text(yaml.safe_dump({"schema": "ep-campaign/launcher-place/1", "command": command}))
        with pytest.raises(CampaignError) as caught:
            load_launcher(path)

        assert caught.value.codes == ("bad_place",)
        assert said in str(caught.value)

    def test_an_image_that_nobody_starts_is_refused(self, plan: Plan, tmp_path: Path) -> None:
        """An arm is never measured in another environment than its image."""
        with pytest.raises(CampaignError) as caught:
            LauncherPlace(config("true")).launch(tmp_path, plan.spec(plan.starts[0]), 1, IMAGE)

        assert caught.value.codes == ("no_image_option",)

    def test_fitness_names_a_missing_command_and_arms_without_image(self, plan: Plan, tmp_path: Path) -> None:
        """Before anything runs: one refusal for the command, one for each of the three arms."""
        found = LauncherPlace(config("no-such-launcher", "{image}")).fitness(plan, tmp_path, 2)

        assert [item.code for item in found.refusals] == ["no_launcher", "no_image", "no_image", "no_image"]
        assert found.observed["num_nodes"] == 2


class TestNotes:
    def test_a_transport_that_nobody_proves_is_noted(self, plan: Plan, tmp_path: Path) -> None:
        """GPUs that cross nodes here are noted in the admission record, and so in the report; CPU ranks are not."""
        gpus = load_plan(REPOSITORY / "config" / "campaigns" / "b200-ep16.yaml", SHAPES)
        place = LauncherPlace(config("true", "{image}"))

        assert ["transport_unproved"] == [item["code"] for item in place.fitness(gpus, tmp_path, 16).notes]
        assert [] == place.fitness(plan, tmp_path, 2).notes


class TestFailures:
    def test_a_launcher_that_starts_nothing_is_infrastructure(self, plan: Plan, tmp_path: Path) -> None:
        """No rank began: tried again in the slot (1 retry by default, so 2 attempts), and no fault of the arm."""
        outcome, record = run_first(plan, tmp_path, LauncherPlace(config("false")))

        assert [True] * 2 == [item["infrastructure"] for item in outcome["attempts"]]
        assert record["launcher"]["reason_code"] == "launcher_died"

    def test_a_rank_0_that_died_without_account_is_the_arms_failure(self, plan: Plan, tmp_path: Path) -> None:
        """Rank 0 began: whatever ended it is a result, and never tried again."""
        script = 'touch "$2/rank-0.jsonl"; exit 139'
        place = LauncherPlace(config("bash", "-c", script, "launcher"))
        outcome, record = run_first(plan, tmp_path, place)

        assert [False] == [item["infrastructure"] for item in outcome["attempts"]]
        assert ("crashed", "rank_killed") == (record["status"], record["launcher"]["reason_code"])
        assert "status 139" in record["launcher"]["reason"]

    def test_a_command_that_never_ends_is_ended(self, plan: Plan, tmp_path: Path) -> None:
        """The place's bound holds, and the record says that it ran out."""
        limits = {"start_timeout_s": 1, "rendezvous_timeout_s": 1, "collective_timeout_s": 1, "retries": 0}
        short = make_plan(tmp_path, **TWO_NODES, limits=limits)
        _, record = run_first(short, tmp_path, LauncherPlace(config("bash", "-c", "exec sleep 60", grace_s=0.1)))

        assert ("timed_out", "launcher_hung") == (record["status"], record["launcher"]["reason_code"])


@pytest.mark.slow
class TestRealRanks:
    @pytest.fixture(autouse=True)
    def _stand_ins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        commands = install(tmp_path / "commands")
        monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
        monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
        monkeypatch.chdir(REPOSITORY)

    @pytest.mark.parametrize("profile", ["slurm", "hosts"])
    def test_ranks_of_srun_and_torchrun_leave_the_same_records(self, plan: Plan, tmp_path: Path, profile: str) -> None:
        """Two ranks on two "nodes" meet, measure and pass their oracle; the record is as complete as a local one."""
        place = load_launcher(REPOSITORY / "profiles" / profile / "place.yaml")
        with socket.create_server(("", 0)) as free:
            port = free.getsockname()[1]
        words = [socket.gethostname() if word.startswith("host-") else word for word in place.command]
        outcome, record = run_first(
            plan, tmp_path, LauncherPlace(place.model_copy(update={"port": port, "command": tuple(words)}))
        )

        assert outcome["status"] == "ok", record
        num_ranks = {item["samples"]["shape"][1] for item in record["records"] if item["samples"] is not None}
        assert num_ranks == {2}
        assert record["teardown"] == "ok"
        assert len(record["worker_digests"]) == 1
