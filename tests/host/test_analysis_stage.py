"""The analysis on whole results folders: validated, aggregated, analysed, from synthetic starts."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from latency_model import Model
from plans import REPOSITORY, make_plan
from synthetic import Attempt, make_results

from ep_campaign.aggregate import aggregate
from ep_campaign.analysis.stage import analyse
from ep_campaign.errors import CampaignError
from ep_campaign.products import Stage, record_products
from ep_campaign.result_tables import CELLS, CONTRASTS
from ep_campaign.summary import State, read_summary
from ep_campaign.validate import validate
from ep_campaign.validate.report import write
from ep_worker.contract.terms import Boundary, Loop, Mode, Status

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan
    from ep_campaign.summary import Summary

SLOW = "torch-agrs"
ROUNDS = 8
MODEL = Model(seed=3, arm_factor={SLOW: 1.1}, start_sd=0.005, round_sd=0.0)
OUTPUTS = ("tables/cells.parquet", "tables/contrasts.parquet", "statistics.json")


def start(number: int, arm: str) -> str:
    """Id of a start."""
    return f"ep2/decode/round-{number:02d}/{arm}"


def prepared(
    folder: Path,
    model: Model | None = None,
    attempts: Mapping[str, Sequence[Attempt]] | None = None,
    **fields: Any,
) -> tuple[Plan, Results]:
    """A validated and aggregated folder of eight rounds of three arms: a family of two, which needs seven."""
    folder.mkdir(exist_ok=True)
    plan = make_plan(folder, **{"ep_sizes": [{"ranks": 2, "rounds": ROUNDS}], **fields})
    results = make_results(folder / "results", plan, model or MODEL, attempts)
    write(validate(plan, results), results)
    record_products(results, Stage.VALIDATE, [results.validation])
    aggregate(plan, results)
    record_products(results, Stage.AGGREGATE, [results.table(name) for name in ("attempts", "records", "samples")])
    return plan, results


def analysed(folder: Path, *args: Any, **fields: Any) -> Summary:
    """Its summary."""
    return analyse(*prepared(folder, *args, **fields))


def rulings(summary: Summary) -> dict[str, str]:
    """Rulings of the family as text, by arm."""
    return {contrast.arm: str(contrast.ruling) for contrast in summary.family}


def test_a_planted_effect_comes_through_every_stage(tmp_path: Path) -> None:
    """10 % planted in the raw times of one arm is the verdict of that arm, and of no other."""
    summary = analysed(tmp_path)

    assert summary.head.state is State.COMPLETE
    assert rulings(summary) == {"torch-a2a-cached": "not resolved", SLOW: "slower"}
    level = next(level for level in summary.levels if level.arm == SLOW and level.primary)
    # The model's shares: layout is a phase of its own for torch-a2a only; dispatch 5/9 and combine 4/9 of a round-trip.
    assert level.layout_us is None
    assert level.dispatch_us == pytest.approx(220 * 5 / 9, rel=0.05)
    assert level.combine_us == pytest.approx(220 * 4 / 9, rel=0.05)
    assert level.timer_floor_us == 0.05
    assert level.resolved[0]["buffer_bytes"] == 4096
    assert level.max_token_error is not None
    assert level.tolerance is not None
    assert 0 < level.max_token_error <= level.tolerance


def test_bytes_and_rates_follow_from_the_route(tmp_path: Path) -> None:
    """8 tokens a rank, top-2 of 8 experts, 2 ranks, BF16: 32 selections of 128 columns, twice 2 bytes, there and back."""
    summary = analysed(tmp_path)

    payload = summary.head.cells[0].payload_bytes
    assert payload is not None
    assert payload["per_selection"].all_bytes == 32 * 128 * 2 * 2
    assert summary.head.cells[0].num_input_tokens == 16
    level = next(level for level in summary.levels if level.primary)
    assert level.median_us is not None
    assert level.input_tokens_per_second is not None
    # Of eight starts the median of reciprocals is not the reciprocal of the median, but close.
    assert level.input_tokens_per_second == pytest.approx(16 / (level.median_us * 1e-6), rel=1e-3)
    per_rank = 32 * 128 * 2 * 2 / 2
    assert level.logical_gb_per_s_per_rank["per_selection"] == pytest.approx(
        per_rank / (level.median_us * 1e3), rel=1e-3
    )


def test_a_crashed_start_excludes_its_round_and_is_a_failed_launch(tmp_path: Path) -> None:
    """The folder is PARTIAL; seven rounds still decide a family of two; the other contrast keeps eight."""
    planted = {start(4, SLOW): (Attempt(Status.CRASHED, after_series=0),)}
    summary = analysed(tmp_path, None, planted)

    assert summary.head.state is State.PARTIAL
    assert {reason.code for reason in summary.head.state_reasons} == {"not_ok"}
    contrast = next(item for item in summary.family if item.arm == SLOW)
    assert (contrast.rounds, str(contrast.ruling)) == ((1, 2, 3, 5, 6, 7, 8), "slower")
    assert [(e.round, e.arm, e.status, e.reason_code) for e in contrast.excluded] == [
        (4, SLOW, Status.CRASHED, "planted")
    ]
    assert {len(item.rounds) for item in summary.family if item.arm != SLOW} == {ROUNDS}
    launches = {item.arm: (item.num_failed, item.num_attempts) for item in summary.launches}
    assert launches == {"torch-a2a": (0, 8), "torch-a2a-cached": (0, 8), SLOW: (1, 8)}


def test_an_incorrect_cell_is_a_result_of_its_arm_alone(tmp_path: Path) -> None:
    """The oracle failed in one cell of one start: that record is missing there, the same start's other cell counts."""
    cell = "ep2/decode/uniform/bf16"
    planted = {start(4, SLOW): (Attempt(Status.INCORRECT, cell=cell),)}
    summary = analysed(tmp_path, None, planted, dtypes=["fp8", "bf16"])

    rounds = {(item.dtype.value, item.arm): len(item.rounds) for item in summary.family}
    assert rounds == {
        ("fp8", "torch-a2a-cached"): 8,
        ("fp8", SLOW): 8,
        ("bf16", "torch-a2a-cached"): 8,
        ("bf16", SLOW): 7,
    }


def test_a_retry_in_the_slot_counts_and_its_first_try_does_not(tmp_path: Path) -> None:
    """An infrastructure failure, tried again at once: a whole round, a failed launch, no late start."""
    planted = {start(4, SLOW): (Attempt(Status.CRASHED, infrastructure=True, teardown="not_reached"), Attempt())}
    summary = analysed(tmp_path, None, planted)

    assert summary.head.state is State.COMPLETE
    assert {len(item.rounds) for item in summary.family} == {ROUNDS}
    assert (summary.custody.num_attempts, summary.custody.num_retried_starts, summary.custody.num_late_starts) == (
        25,
        1,
        0,
    )
    assert summary.custody.teardowns["not_reached"] == 1


def test_late_starts_are_marked_and_left_out_beside(tmp_path: Path) -> None:
    """Two starts of the slow arm came late: eight rounds decide, the six in time do not."""
    planted = {start(n, SLOW): (Attempt(Status.CRASHED, after_series=0), Attempt(late=True)) for n in (2, 3)}
    summary = analysed(tmp_path, None, planted)

    contrast = next(item for item in summary.family if item.arm == SLOW)
    assert (str(contrast.ruling), str(contrast.ruling_without_late)) == ("slower (late starts)", "too few starts")
    assert [(item.start, item.attempt) for item in summary.head.late_starts] == [(start(n, SLOW), 2) for n in (2, 3)]


def test_a_campaign_ended_by_its_budget_says_so(tmp_path: Path) -> None:
    """The last round never began: the state is its own, and the round is named."""
    arms = ("torch-a2a", "torch-a2a-cached", SLOW)
    planted = {start(8, arm): (Attempt(Status.NOT_RUN),) for arm in arms}
    summary = analysed(tmp_path, None, planted, budget_hours=0.2)

    assert summary.head.state is State.ENDED_BY_BUDGET
    assert summary.budget.closed_rounds == {"2": (8,)}
    assert rulings(summary)[SLOW] == "slower"  # seven rounds decide a family of two


def test_a_start_that_never_was_leaves_the_rest(tmp_path: Path) -> None:
    """No outcome at all: PARTIAL, and its round is excluded without a status."""
    summary = analysed(tmp_path, None, {start(1, "torch-a2a"): ()})

    assert summary.head.state is State.PARTIAL
    assert {(e.round, e.status) for item in summary.family for e in item.excluded} == {(1, None)}


def test_every_mode_boundary_and_loop_is_there_or_is_unsupported(tmp_path: Path) -> None:
    """Asked for all five modes on a CPU: two are levels, three are rows with a source; isolated loops have one phase."""
    modes = [mode.value for mode in Mode]
    measurement = {"modes": modes, "isolated_loops": True, "iterations": 20, "warmups": 2, "chain_length": 10}
    summary = analysed(tmp_path, measurement=measurement)

    assert {level.mode for level in summary.levels} == {Mode.HOST_START, Mode.CHAINED}
    assert {level.boundary for level in summary.levels} == set(Boundary)
    assert {row.mode for row in summary.unsupported} == {"launch_hidden", "graph", "overlapped"}
    alone = [level for level in summary.levels if level.loop is Loop.COMBINE]
    assert alone
    assert all(level.input_tokens_per_second is None and not level.logical_gb_per_s_per_rank for level in alone)
    assert all(len(level.rounds) == ROUNDS for level in summary.levels)


def test_the_observed_runtime_is_told_and_what_varies_is_named(tmp_path: Path) -> None:
    """A field with one value everywhere is a value; one start on another kernel makes that field vary."""
    planted = {start(2, SLOW): (Attempt(provenance={"load_average": [3.0, 4.0]}),)}
    observed = {item.arm: item for item in analysed(tmp_path, None, planted).observed}

    assert observed[SLOW].varying == ("load_average",)
    assert "load_average" not in observed[SLOW].same
    assert observed["torch-a2a"].varying == ()
    assert observed["torch-a2a"].same["torch_version"] == "2.13.0"
    assert observed["torch-a2a"].worker_digests == ("5" * 64,)


def test_equal_inputs_give_equal_bytes(tmp_path: Path) -> None:
    """Two folders of one campaign, elsewhere: tables and statistics are the same, byte for byte."""
    files = []
    for name in ("one", "other"):
        plan, results = prepared(tmp_path / name, price_per_node_hour=2.0)
        analyse(plan, results)
        files.append([(results.root / output).read_bytes() for output in OUTPUTS])

    assert files[0] == files[1]
    assert str(tmp_path).encode() not in b"".join(files[0])


def test_the_tables_are_the_summary_laid_flat(tmp_path: Path) -> None:
    """One row a level and one a contrast, in their order, with the frozen schema and full precision."""
    plan, results = prepared(tmp_path, None, {start(4, SLOW): (Attempt(Status.CRASHED, after_series=0),)})
    summary = analyse(plan, results)
    cells, contrasts = (pq.read_table(results.table(name)) for name in ("cells", "contrasts"))

    assert cells.schema.equals(CELLS.schema, check_metadata=True)
    assert contrasts.schema.equals(CONTRASTS.schema, check_metadata=True)
    assert cells["median_us"].to_pylist() == [level.median_us for level in summary.levels]
    assert cells["values_us"].to_pylist() == [list(level.values_us) for level in summary.levels]
    assert cells["missing_statuses"].to_pylist()[-1] == ["crashed"]
    assert contrasts["ratio"].to_pylist() == [item.ratio for item in summary.contrasts]
    assert contrasts["verdict"].to_pylist() == [
        item.ruling.verdict.value if item.ruling else None for item in summary.contrasts
    ]
    assert contrasts.to_pylist()[1]["excluded_arms"] == [SLOW]


def test_the_summary_is_read_back(tmp_path: Path) -> None:
    """`statistics.json` holds what the function returned."""
    plan, results = prepared(tmp_path)

    assert analyse(plan, results) == read_summary(results.statistics)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (lambda results: results.validation.unlink(), "missing_file"),
        (lambda results: results.table("records").unlink(), "missing_file"),
        (lambda results: results.table("attempts").write_bytes(b"PAR1 and nothing more"), "bad_table"),
        (lambda results: pq.write_table(pa.table({"start": ["x"]}), results.table("records")), "bad_table"),
    ],
    ids=["not validated", "no records", "not Parquet", "another schema"],
)
def test_what_is_not_there_or_not_a_table_is_refused(tmp_path: Path, spoil: Any, code: str) -> None:
    """Each input that is missing or of another form is refused with its code, and nothing is written."""
    plan, results = prepared(tmp_path)
    spoil(results)

    with pytest.raises(CampaignError) as error:
        analyse(plan, results)
    assert error.value.codes == (code,)
    assert not any((results.root / output).exists() for output in OUTPUTS)


def test_a_validation_of_another_plan_is_refused(tmp_path: Path) -> None:
    """Verdicts are never made beside a validation of something else."""
    plan, results = prepared(tmp_path)
    value = json.loads(results.validation.read_text())
    results.validation.chmod(0o644)
    results.validation.write_text(json.dumps({**value, "plan_digest": "0" * 64}))

    with pytest.raises(CampaignError) as error:
        analyse(plan, results)
    assert error.value.codes == ("not_validated",)


def test_the_script_writes_the_three_files(tmp_path: Path) -> None:
    """`analyse.py --results` writes tables and statistics; without an aggregation it says what to do, in one line."""
    _, results = prepared(tmp_path)
    command = [sys.executable, "workflow/scripts/analyse.py", "--results", str(results.root)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert all((results.root / output).exists() for output in OUTPUTS)

    results.table("records").unlink()
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("tables/records.parquet: is missing, stage aggregate wrote it; write it anew")
    assert 1 == done.stderr.count("\n")


def test_memory_follows_records_and_not_samples(tmp_path: Path) -> None:
    """Twenty times the samples need no more memory: the analysis never opens them."""
    peaks = []
    for iterations in (20, 400):
        measurement = {"modes": ["host_start"], "isolated_loops": False, "iterations": iterations, "warmups": 2}
        plan, results = prepared(tmp_path / str(iterations), measurement=measurement)
        results.table("samples").unlink()
        tracemalloc.start()
        analyse(plan, results)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()

    assert peaks[1] < 1.2 * peaks[0]
