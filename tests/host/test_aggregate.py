"""Aggregation: what the tables hold, that they stream, and that equal folders give equal bytes."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from forge import read
from plans import REPOSITORY, make_plan, profile
from synthetic import Attempt, Model, make_results

from ep_campaign import parquet
from ep_campaign.aggregate import aggregate
from ep_campaign.errors import CampaignError
from ep_campaign.products import Stage, record_products
from ep_campaign.tables import ATTEMPTS, RECORDS, SAMPLES
from ep_campaign.validate import validate
from ep_campaign.validate.report import write
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan

FIRST = "ep2/decode/round-01/torch-a2a"
CELL = "ep2/decode/uniform/bf16"
SCRIPT = REPOSITORY / "workflow" / "scripts" / "aggregate.py"


def _made(
    folder: Path,
    plan: Plan,
    attempts: Mapping[str, Sequence[Attempt]] | None = None,
    model: Model | None = None,
) -> Results:
    """A validated and aggregated folder."""
    results = make_results(folder, plan, model, attempts)
    write(validate(plan, results), results)
    aggregate(plan, results)
    return results


def _rows(results: Results, table: str, **match: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(results.table(table)).to_pylist()
    return [row for row in rows if all(row[name] == value for name, value in match.items())]


def _plan(folder: Path, iterations: int = 20, **fields: Any) -> Plan:
    how = {"modes": ["host_start", "chained", "graph"], "iterations": iterations, "warmups": 2}
    return make_plan(folder, measurement=how, **fields)


def _times(results: Results, record: dict[str, Any], start_id: str = FIRST) -> np.ndarray[Any, Any]:
    """Raw times of a record of start.json, read here by hand: [sample, rank, phase]."""
    data = gzip.decompress((results.attempt(start_id, 1) / "samples.bin.gz").read_bytes())
    shape = record["samples"]["shape"]
    return np.frombuffer(data, "<i8", math.prod(shape), record["samples"]["offset_bytes"]).reshape(shape)


def test_schemas_are_the_declared_ones(tmp_path: Path) -> None:
    """Every file has its table's schema, metadata included."""
    results = _made(tmp_path / "results", _plan(tmp_path))
    for table in (ATTEMPTS, RECORDS, SAMPLES):
        assert pq.read_schema(results.table(table.name)).equals(table.schema, check_metadata=True)


def test_every_record_is_a_row(tmp_path: Path) -> None:
    """Measured, shared and unsupported records of all starts, with nulls where there is no figure."""
    plan = _plan(tmp_path)
    results = _made(tmp_path / "results", plan)
    # torch-a2a: 2 modes x 3 boundaries, 3 rejected, isolated layout, dispatch, combine; the others have no layout alone
    assert len(_rows(results, "records")) == 3 * (12 + 11 + 11)
    rejected = _rows(results, "records", start=FIRST, mode="graph")
    assert {row["status"] for row in rejected} == {"unsupported"}
    figures = [name for name in RECORDS.schema.names if name.endswith(("_ns", "_bytes")) and name != "timer_floor_ns"]
    assert all(row[name] is None for row in rejected for name in figures)
    assert all(row["reason_code"] == "cpu_mode" for row in rejected)


def test_the_figures_of_a_record(tmp_path: Path) -> None:
    """Medians, percentiles, halves, spikes, slowest rank and rates, computed here another way from the raw times."""
    plan = _plan(tmp_path, iterations=300)
    results = _made(tmp_path / "results", plan, model=Model(spike_share=0.05))
    record = read(results.attempt(FIRST, 1) / "start.json")["records"][0]
    times = _times(results, record)
    (row,) = _rows(results, "records", start=FIRST, boundary="dispatch_ready", mode="host_start", loop="roundtrip")
    slowest = [max(sample[rank][-1] for rank in range(2)) for sample in times.tolist()]
    ordered = sorted(slowest)
    assert row["num_samples"] == 300
    assert row["median_ns"] == (ordered[149] + ordered[150]) / 2
    assert (row["min_ns"], row["max_ns"]) == (ordered[0], ordered[-1])
    assert row["mean_ns"] == pytest.approx(sum(slowest) / 300, rel=1e-12)
    # linear interpolation: index 0.9 x 299 = 269.1, 0.95 x 299 = 284.05, 0.99 x 299 = 296.01
    for name, index, part in (("p90_ns", 269, 0.1), ("p95_ns", 284, 0.05), ("p99_ns", 296, 0.01)):
        assert row[name] == pytest.approx(ordered[index] * (1 - part) + ordered[index + 1] * part, rel=1e-12)
    assert row["first_half_median_ns"] == np.median(slowest[:150])
    assert row["second_half_median_ns"] == np.median(slowest[150:])
    assert row["iteration_sd_log"] == pytest.approx(np.std([math.log(t) for t in slowest], ddof=1), rel=1e-12)
    one_rank = sum(t > 1.5 * row["median_ns"] for t in slowest)
    assert (row["num_spikes_one_rank"], row["num_spikes_all_ranks"]) == (one_rank, 0)
    assert one_rank > 5  # about 300 x 0.05 = 15 were planted on rank 0
    on_rank_0 = sum(sample[0][-1] >= sample[1][-1] for sample in times.tolist())
    assert row["slowest_rank_mode"] == (0 if on_rank_0 >= 150 else 1)
    assert row["slowest_rank_share"] == max(on_rank_0, 300 - on_rank_0) / 300
    for column, phase in enumerate(("layout", "dispatch", "combine")):
        assert row[f"{phase}_median_ns"] == np.median(times.max(axis=1)[:, column])
    assert row["input_tokens_per_second"] == pytest.approx(16 / (row["median_ns"] * 1e-9), rel=1e-12)
    table = record["payload_bytes"]["per_selection"]
    assert row["per_selection_all_bytes"] == table["dispatch_all"] + table["combine_all"]
    assert row["per_selection_remote_bytes"] == table["dispatch_remote"] + table["combine_remote"]
    rate = row["per_selection_all_bytes"] / 2 / row["median_ns"]  # bytes per rank and nanosecond are GB/s
    assert row["per_selection_logical_gb_per_s_per_rank"] == pytest.approx(rate, rel=1e-12)
    assert row["rank_max_remote_bytes"] == record["payload_bytes"]["rank_deduplicated"]["rank_max_remote"]
    assert (row["max_token_error_before"], row["max_token_error_after"]) == (0.002, 0.002)
    assert row["timer_floor_ns"] == 50
    assert json.loads(row["resolved"])["buffer_bytes"] == 4096


@pytest.mark.parametrize(
    ("iterations", "shown"),
    [(20, ()), (30, ("p90_ns",)), (60, ("p90_ns", "p95_ns")), (300, ("p90_ns", "p95_ns", "p99_ns"))],
)
def test_a_percentile_needs_samples_that_bound_it(tmp_path: Path, iterations: int, shown: tuple[str, ...]) -> None:
    """29, 59 and 299 samples for p90, p95 and p99; chained series have a tenth of them."""
    results = _made(tmp_path / "results", _plan(tmp_path, iterations=iterations))
    tails = ("p90_ns", "p95_ns", "p99_ns")
    rows = {row["mode"]: row for row in _rows(results, "records", start=FIRST, boundary="gemm_ready", status="ok")}
    assert tuple(name for name in tails if rows["host_start"][name] is not None) == shown
    assert rows["chained"]["num_samples"] == iterations // 10
    assert (rows["chained"]["p90_ns"] is not None) == (iterations == 300)


def test_chained_figures_are_for_one_round_trip(tmp_path: Path) -> None:
    """A chained sample holds ten round-trips: its median is a tenth, its raw time is not divided."""
    results = _made(tmp_path / "results", _plan(tmp_path))
    where = {"start": FIRST, "boundary": "gemm_ready", "mode": "chained"}
    (row,) = _rows(results, "records", **where)
    raw = [sample["roundtrip_ns"] for sample in _rows(results, "samples", **where)]
    slowest = [max(raw[0:2]), max(raw[2:4])]
    assert row["median_ns"] == pytest.approx(sum(slowest) / 2 / 10, rel=1e-12)
    assert row["chain_length"] == 10


def test_one_sample_has_no_halves(tmp_path: Path) -> None:
    """10 iterations in one chain of 10 are a single sample: no spread, no halves, no spikes."""
    results = _made(tmp_path / "results", _plan(tmp_path, iterations=10))
    (row,) = _rows(results, "records", start=FIRST, boundary="gemm_ready", mode="chained")
    nothing = ("iteration_sd_log", "first_half_median_ns", "second_half_median_ns")
    assert [row[name] for name in nothing] == [None, None, None]
    assert (row["num_samples"], row["num_spikes_one_rank"], row["slowest_rank_share"]) == (1, 0, 1.0)


def test_a_twin_repeats_its_figures(tmp_path: Path) -> None:
    """bf16_ready does the work of dispatch_ready where nobody casts: the same figures under both names, no samples of its own."""
    results = _made(tmp_path / "results", _plan(tmp_path))
    one, twin = (
        _rows(results, "records", start=FIRST, boundary=name, mode="chained")[0]
        for name in ("dispatch_ready", "bf16_ready")
    )
    assert twin["same_as"] == "dispatch_ready"
    assert {k: v for k, v in one.items() if k not in ("boundary", "same_as")} == {
        k: v for k, v in twin.items() if k not in ("boundary", "same_as")
    }
    assert _rows(results, "samples", start=FIRST, boundary="bf16_ready") == []


def test_samples_are_the_raw_times(tmp_path: Path) -> None:
    """Row by row: sample, rank, phases; phases that a series does not have are null."""
    results = _made(tmp_path / "results", _plan(tmp_path))
    for record in read(results.attempt(FIRST, 1) / "start.json")["records"]:
        if record.get("samples") is None:
            continue
        key = {name: record[name] for name in ("cell", "boundary", "mode", "loop")}
        rows = _rows(results, "samples", start=FIRST, **key)
        times = _times(results, record)
        assert [(row["sample"], row["rank"]) for row in rows] == [(s, r) for s in range(len(times)) for r in range(2)]
        for phase in ("layout", "dispatch", "combine", "roundtrip"):
            found = [row[f"{phase}_ns"] for row in rows]
            if phase in record["samples"]["phases"]:
                assert found == times[:, :, record["samples"]["phases"].index(phase)].ravel().tolist()
            else:
                assert found == [None] * len(rows)


def test_failed_attempts_are_rows_and_only_the_last_counts(tmp_path: Path) -> None:
    """A crash, its retry, a late re-run, a start that its budget closed, one that is missing."""
    plan = _plan(tmp_path)
    ids = [f"ep2/decode/round-0{n}/torch-agrs" for n in (1, 2, 3)]
    planted: dict[str, Sequence[Attempt]] = {
        ids[0]: (Attempt(Status.CRASHED, infrastructure=True, reason_code="rendezvous_timeout"), Attempt()),
        ids[1]: (Attempt(Status.TIMED_OUT), Attempt(late=True, teardown="failed")),
        ids[2]: (Attempt(Status.NOT_RUN),),
        FIRST: (),
    }
    results = _made(tmp_path / "results", plan, planted)
    names = ("start", "attempt", "status", "reason_code", "infrastructure", "scored", "late", "teardown")
    found = [tuple(row[name] for name in names) for row in _rows(results, "attempts", arm="torch-agrs")]
    assert found == [
        (ids[0], 1, "crashed", "rendezvous_timeout", True, False, False, "not_reached"),
        (ids[0], 2, "ok", "", False, True, False, "ok"),
        (ids[1], 1, "timed_out", "watchdog", False, False, False, "not_reached"),
        (ids[1], 2, "ok", "", False, True, True, "failed"),
        (ids[2], 1, "not_run", "budget_spent", False, True, False, None),
    ]
    assert _rows(results, "attempts", start=FIRST) == []
    assert {row["late"] for row in _rows(results, "records", start=ids[1], attempt=2)} == {True}
    assert _rows(results, "records", start=ids[2]) == []
    crashed = _rows(results, "records", start=ids[0], attempt=1)
    assert {row["scored"] for row in crashed} == {False}
    assert [row["median_ns"] is not None for row in crashed] == [row["status"] == "ok" for row in crashed]
    assert {row["attempt"] for row in _rows(results, "samples", start=ids[0])} == {2}
    assert _rows(results, "attempts", start=ids[2])[0]["sequence"] is None
    (ran,) = _rows(results, "attempts", start=ids[0], attempt=2)
    assert (ran["seconds"], ran["hostnames"], ran["worker_digest"]) == (30.0, "synthetic", "5" * 64)
    assert json.loads(ran["provenance"])["torch_version"] == {"value": "2.13.0"}


def test_equal_folders_give_equal_bytes(tmp_path: Path) -> None:
    """The same records, elsewhere and later, make the same files; another seed makes others."""
    plan = _plan(tmp_path)
    made = [_made(tmp_path / name, plan, model=Model(seed=seed)) for name, seed in (("a", 1), ("b", 1), ("c", 2))]
    for table in ("attempts", "records", "samples"):
        one, same, other = ((results.table(table)).read_bytes() for results in made)
        assert one == same
        assert one != other or table == "attempts"


def test_row_groups_change_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written a start at a time, the tables hold the same rows in the same order."""
    plan = _plan(tmp_path)
    whole = _made(tmp_path / "whole", plan)
    monkeypatch.setattr(parquet, "HELD_BYTES", 1)
    split = _made(tmp_path / "split", plan)
    assert pq.ParquetFile(split.table("samples")).num_row_groups == len(plan.starts)
    assert pq.ParquetFile(whole.table("samples")).num_row_groups == 1
    for table in ("attempts", "records", "samples"):
        assert pq.read_table(split.table(table)).equals(pq.read_table(whole.table(table)))


def test_memory_does_not_grow_with_the_campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the rounds take no more memory, Python's and Arrow's together; the plan itself is the little that grows."""
    monkeypatch.setattr(parquet, "HELD_BYTES", 1 << 15)  # so that a campaign of a test fills it
    peaks = []
    for rounds in (2, 4, 16):  # the first run also pays for what is imported once
        folder = tmp_path / f"{rounds}-{len(peaks)}"
        folder.mkdir()
        plan = _plan(folder, iterations=300, ep_sizes=[{"ranks": 2, "rounds": rounds, "scored": False}])
        results = make_results(folder / "results", plan)
        write(validate(plan, results), results)
        pool = pa.proxy_memory_pool(pa.default_memory_pool())
        before = pa.default_memory_pool()
        pa.set_memory_pool(pool)
        tracemalloc.start()
        try:
            aggregate(plan, results)
            peaks.append(tracemalloc.get_traced_memory()[1] + pool.max_memory())
        finally:
            tracemalloc.stop()
            pa.set_memory_pool(before)
    assert peaks[2] < 1.25 * peaks[1]


def test_a_folder_that_was_not_validated_is_refused(tmp_path: Path) -> None:
    """No validation, one of another plan, one that refused."""
    plan = _plan(tmp_path)
    results = make_results(tmp_path / "results", plan)
    found = validate(plan, results)
    for change, code in (
        (None, "missing_file"),
        ({"plan_digest": "0"}, "not_validated"),
        ({"state": "refused"}, "not_validated"),
        ({"schema": "ep-campaign/validation/0"}, "not_validated"),
    ):
        if change is not None:
            results.validation.write_text(json.dumps({**found.as_json(), **change}))
        with pytest.raises(CampaignError) as refused:
            aggregate(plan, results)
        assert refused.value.codes == (code,)
    assert not results.table("records").exists()


@pytest.mark.parametrize("name", ["start.json", "samples.bin.gz"])
def test_a_folder_that_changed_since_is_refused(tmp_path: Path, name: str) -> None:
    """A record or samples that were cut after validation: one line each, no table and no part of one is left."""
    plan = _plan(tmp_path)
    results = make_results(tmp_path / "results", plan)
    write(validate(plan, results), results)
    record_products(results, Stage.VALIDATE, [results.validation])
    path = results.attempt(FIRST, 1) / name
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(data[: len(data) // 2])
    command = [sys.executable, str(SCRIPT), "--results", str(results.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"starts/{FIRST}/attempt-1/{name}: changed since it was validated")
    assert list((results.root / "tables").iterdir()) == []


def test_a_full_disk_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing fails: the error is passed on, no table has its name, no part is left."""
    plan = _plan(tmp_path)
    results = make_results(tmp_path / "results", plan)
    write(validate(plan, results), results)

    def full(_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parquet, "_settle", full)
    with pytest.raises(OSError, match="No space left"):
        aggregate(plan, results)
    assert list((results.root / "tables").iterdir()) == []


def test_the_script_writes_three_tables(tmp_path: Path) -> None:
    """Two profiles and two dtypes, from the command line."""
    plan = _plan(tmp_path, profiles=[profile("decode"), profile("prefill", 16)], dtypes=["fp8", "bf16"])
    results = make_results(tmp_path / "results", plan)
    write(validate(plan, results), results)
    record_products(results, Stage.VALIDATE, [results.validation])
    subprocess.run([sys.executable, str(SCRIPT), "--results", str(results.root)], check=True)
    assert sorted(path.name for path in (results.root / "tables").iterdir()) == [
        "attempts.parquet",
        "records.parquet",
        "samples.parquet",
    ]
    assert {row["dtype"] for row in _rows(results, "records")} == {"bf16", "fp8"}
