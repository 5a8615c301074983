"""An elastic results folder through every stage after measuring, and every reason to refuse it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from elastic.folder import (
    NUM_REQUESTS,
    load_requests,
    make_folder,
    sweep_requests,
    write_outcome,
    write_run,
    write_start,
)

from ep_campaign.elastic.aggregate import aggregate_elastic
from ep_campaign.elastic.analyse import analyse_elastic, read_elastic_statistics
from ep_campaign.elastic.completion import complete_elastic
from ep_campaign.elastic.ending import elastic_ending, elastic_preview
from ep_campaign.elastic.figures import draw_elastic_figures, elastic_figure_names
from ep_campaign.elastic.report import write_elastic_report
from ep_campaign.elastic.tables import ELASTIC_TABLES
from ep_campaign.elastic.validate import validate_elastic
from ep_campaign.errors import CampaignError
from ep_campaign.products import Stage, record_products
from ep_campaign.validate import State
from ep_campaign.validate.report import write

if TYPE_CHECKING:
    from pathlib import Path

    from ep_campaign.elastic.plan import ElasticPlan
    from ep_campaign.layout import Results

NARROW, GROW = "w2/narrow/round-01/tcp", "w4/grow/round-01/tcp"


def summarise(plan: ElasticPlan, results: Results) -> State:
    """Every stage after measuring, as its script does it."""
    record_products(results, Stage.VALIDATE, [write(validate_elastic(plan, results), results)])
    aggregate_elastic(plan, results)
    record_products(results, Stage.AGGREGATE, [results.table(table.name) for table in ELASTIC_TABLES])
    analyse_elastic(plan, results)
    record_products(results, Stage.ANALYSE, [results.statistics])
    figures = draw_elastic_figures(plan, results, read_elastic_statistics(plan, results))
    record_products(results, Stage.PLOTS, figures)
    record_products(results, Stage.REPORT, write_elastic_report(plan, results))
    return complete_elastic(plan, results)


def altered(results: Results, start_id: str, **fields: Any) -> None:
    """Writes other fields into a start's record, and an outcome that agrees with it."""
    path = results.attempt(start_id, 1) / "start.json"
    record = json.loads(path.read_text()) | fields
    path.chmod(0o644)
    path.write_text(json.dumps(record))
    plan_start = next(start for start in make_plan_of(results).starts if start.id == start_id)
    write_outcome(results, plan_start, record)


def make_plan_of(results: Results) -> ElasticPlan:
    """The folder's plan."""
    from ep_campaign.elastic.plan import read_elastic_plan

    return read_elastic_plan(results.plan)


class TestStages:
    """From records to a mark."""

    def test_a_whole_folder_is_complete_and_repeats(self, tmp_path: Path) -> None:
        """Its figures are those of the records; a second summary gives the same bytes."""
        plan, results = make_folder(tmp_path)
        assert summarise(plan, results) is State.COMPLETE
        first = {path.name: path.read_bytes() for path in results.root.iterdir() if path.is_file()}
        assert summarise(plan, results) is State.COMPLETE
        assert first == {path.name: path.read_bytes() for path in results.root.iterdir() if path.is_file()}
        assert {f"{name}.svg" for name in elastic_figure_names(plan)} < {p.name for p in results.figures.iterdir()}

        levels = {(one["state"], one["arm"]): one for one in read_elastic_statistics(plan, results)["levels"]}
        narrow, wide = levels["narrow", "tcp"], levels["wide", "shm"]
        assert [20.0, 40.0] == [one["metrics"]["ttft_p50_ms"]["median"] for one in (narrow, wide)]
        assert [10.0, 20.0] == [one["metrics"]["itl_p50_ms"]["median"] for one in (narrow, wide)]
        assert [NUM_REQUESTS, 5 * NUM_REQUESTS] == [narrow["num_ttft"], narrow["num_itl"]]
        text = (results.root / "RESULTS.md").read_text()
        assert "ITL p50 +100.0 % (10.0 to 20.0)" in text

    def test_a_resize_is_joined_with_its_load(self, tmp_path: Path) -> None:
        """The stall of 410 ms, the prober's two 503, and the tokens that the rate of before would have made."""
        plan, results = make_folder(tmp_path)
        summarise(plan, results)
        row = next(one for one in read_elastic_statistics(plan, results)["resizes"] if one["arm"] == "tcp")
        assert ("converged", 410.0, 10.0, 41.0) == tuple(
            row[name] for name in ("verdict", "gap_max_ms", "gap_before_p50_ms", "gap_max_steps")
        )
        assert (50, 2, 2) == tuple(row[name] for name in ("num_probes", "num_probe_errors", "num_probe_503"))
        assert (0.1, 0.3) == (row["probe_gone_at_least_s"], row["probe_gone_at_most_s"])
        assert (60.0, 51.0, 18.0) == pytest.approx(
            tuple(row[name] for name in ("rate_before_per_s", "rate_during_per_s", "lost_tokens")), rel=1e-9
        )

    def test_tables_hold_every_request_and_chunk(self, tmp_path: Path) -> None:
        """Warm-ups and probes too; nothing is deleted."""
        plan, results = make_folder(tmp_path)
        summarise(plan, results)
        requests = pd.read_parquet(results.table("requests"))
        chunks = pd.read_parquet(results.table("chunks"))
        own = requests[requests["start"] == GROW]
        assert {"load": 47, "probe": 50} == own["phase"].value_counts().to_dict()
        assert 6 * 47 == (chunks["start"] == GROW).sum()
        assert len(sweep_requests(2)) == (requests["start"] == NARROW).sum()

    def test_terminal(self, tmp_path: Path) -> None:
        """What a run begins and ends with."""
        plan, results = make_folder(tmp_path)
        summarise(plan, results)
        text, state = elastic_ending(results)
        assert State.COMPLETE is state
        assert "grow 2 to 4 over tcp, round 1: converged" in text
        assert "which cannot: that needs" in elastic_preview(plan)


class TestRefusals:
    """Nothing that contradicts itself is summarised; what is missing makes it partial."""

    def codes(self, plan: ElasticPlan, results: Results) -> tuple[State, list[str]]:
        """State and reason codes."""
        found = validate_elastic(plan, results)
        return found.state, found.codes

    def test_missing_start(self, tmp_path: Path) -> None:
        """A start without an outcome is missing, and the rest is summarised."""
        plan, results = make_folder(tmp_path)
        results.outcome(NARROW, 1).unlink()
        assert (State.PARTIAL, ["start_missing"]) == self.codes(plan, results)
        assert summarise(plan, results) is State.PARTIAL
        assert "PARTIAL" in (results.root / "RESULTS.md").read_text()

    def test_failed_start(self, tmp_path: Path) -> None:
        """A start that is not ok takes part in no figure."""
        plan, results = make_folder(tmp_path)
        altered(results, NARROW, status="inadmissible", reason_code="transport_unproved", reason="r")
        assert (State.PARTIAL, ["start_not_ok"]) == self.codes(plan, results)
        summarise(plan, results)
        levels = read_elastic_statistics(plan, results)["levels"]
        assert 0 == next(one["num_passes"] for one in levels if (one["state"], one["arm"]) == ("narrow", "tcp"))

    def test_altered_record(self, tmp_path: Path) -> None:
        """A record that is not the one of its outcome."""
        plan, results = make_folder(tmp_path)
        path = results.attempt(NARROW, 1) / "start.json"
        path.chmod(0o644)
        path.write_text(path.read_text().replace('"status": "ok"', '"status":  "ok"'))
        assert (State.REFUSED, ["start_altered"]) == self.codes(plan, results)

    def test_altered_requests(self, tmp_path: Path) -> None:
        """A sibling that is not the one of its record."""
        plan, results = make_folder(tmp_path)
        path = results.attempt(NARROW, 1) / "cells" / "closed-2" / "requests.jsonl"
        path.chmod(0o644)
        path.write_text(path.read_text() + "\n")
        assert (State.REFUSED, ["file_altered"]) == self.codes(plan, results)

    def test_another_plan_s_start(self, tmp_path: Path) -> None:
        """A record of another plan."""
        plan, results = make_folder(tmp_path)
        altered(results, NARROW, plan_digest="1" * 64)
        assert (State.REFUSED, ["start_not_planned"]) == self.codes(plan, results)

    def test_unknown_field(self, tmp_path: Path) -> None:
        """A field that this version does not know."""
        plan, results = make_folder(tmp_path)
        altered(results, NARROW, surprise=1)
        assert (State.REFUSED, ["bad_start"]) == self.codes(plan, results)

    def test_ledger(self, tmp_path: Path) -> None:
        """A call that a server logged and no client made."""
        plan, results = make_folder(tmp_path)
        altered(results, NARROW, server_log=[{"200": 99}])
        assert (State.REFUSED, ["ledger_mismatch"]) == self.codes(plan, results)

    def test_missing_requests(self, tmp_path: Path) -> None:
        """A sweep that holds fewer requests than were planned."""
        plan, results = make_folder(tmp_path)
        start = plan.by_id[NARROW]
        folder = results.attempt(NARROW, 1)
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        write_start(plan, results, start, server_log=[{"200": len(sweep_requests(2)) - 1}])
        for path in folder.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        write_run(folder / "cells" / "closed-2", sweep_requests(2)[:-1])
        record = json.loads((folder / "start.json").read_text())
        from ep_campaign.elastic.start import write_record

        write_record(folder, record)
        write_outcome(results, start, record)
        assert (State.REFUSED, ["requests_missing"]) == self.codes(plan, results)

    def test_notes(self, tmp_path: Path) -> None:
        """No server log, and a teardown that left something, are said and stop nothing."""
        plan, results = make_folder(tmp_path)
        released = [{"proved": False, "left": ["process 7"], "not_ours": []}]
        altered(results, GROW, server_log=[None], teardown="failed", released=released)
        assert (State.COMPLETE, ["no_server_log", "teardown_failed"]) == self.codes(plan, results)

    def test_an_edited_table(self, tmp_path: Path) -> None:
        """A product that is not what its stage wrote is never sealed, and leaves no mark."""
        plan, results = make_folder(tmp_path)
        summarise(plan, results)
        results.table("passes").write_bytes(results.table("requests").read_bytes())
        with pytest.raises(CampaignError) as caught:
            complete_elastic(plan, results)
        assert ("edited_product",) == caught.value.codes
        assert not results.complete.exists()

    def test_stages_in_their_order(self, tmp_path: Path) -> None:
        """Nothing is aggregated or analysed that was not validated, and no figure is read that was not analysed."""
        plan, results = make_folder(tmp_path)
        for stage in (aggregate_elastic, analyse_elastic, read_elastic_statistics):
            with pytest.raises(CampaignError):
                stage(plan, results)


def test_the_load_of_a_resize_is_what_these_tests_say() -> None:
    """Of fifty turns three fall into the stall, so that 47 are left."""
    assert 47 == sum(one["phase"] == "load" for one in load_requests())
