"""Validation of the folder: missing, unknown, altered and malformed files, each with its reason code."""

from __future__ import annotations

import gzip
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from forge import edit_start, read, replace_file
from plans import make_plan
from synthetic import Attempt, make_results

from ep_campaign.validate import State, validate
from ep_worker.contract.canonical import pretty_json
from ep_worker.contract.terms import Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ep_campaign.layout import Results
    from ep_campaign.plan import Plan

START = "ep2/decode/round-02/torch-a2a"
RECORD = f"starts/{START}/attempt-1/start.json"
OUTCOME = f"starts/{START}/outcome-1.json"


@pytest.fixture
def made(tmp_path: Path) -> tuple[Plan, Results]:
    """An honest folder."""
    plan = make_plan(tmp_path)
    return plan, make_results(tmp_path / "results", plan)


def _found(made: tuple[Plan, Results]) -> set[tuple[str, str]]:
    """(code, file) of every violation."""
    return {(violation.code, violation.file) for violation in validate(*made).violations}


GARBAGE: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("not_json", lambda data: data[: len(data) // 2]),
    ("not_json", lambda data: b""),
    ("not_json", lambda data: b"[" * 100_000),
    ("unreadable_file", lambda data: b"\xff\xfe" + data),
    ("not_an_object", lambda data: b"[]"),
    ("not_finite", lambda data: data.replace(b'"position": ', b'"position": NaN, "x": ', 1)),
    ("not_finite", lambda data: data.replace(b'"position": ', b'"position": 1e999, "x": ', 1)),
    ("number_too_large", lambda data: data.replace(b'"position": ', b'"position": 9223372036854775808, "x": ', 1)),
    ("number_too_large", lambda data: data.replace(b'"position": ', b'"position": ' + b"9" * 5000 + b', "x": ', 1)),
    ("duplicate_key", lambda data: data.replace(b'"position": ', b'"position": 1, "position": ', 1)),
]


@pytest.mark.parametrize(("code", "spoil"), GARBAGE)
def test_a_record_that_is_no_strict_json_is_refused(
    made: tuple[Plan, Results], code: str, spoil: Callable[[bytes], bytes]
) -> None:
    """Cut short, empty, endlessly nested, not ASCII, no object, no number, too large a number, a key twice."""
    path = made[1].attempt(START, 1) / "start.json"
    path.chmod(0o644)
    path.write_bytes(spoil(path.read_bytes()))
    assert _found(made) == {(code, RECORD)}


def _nothing(value: dict[str, Any]) -> None:
    del value["records"]


FIELDS: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("schema", lambda value: value.update(schema="ep-campaign/start/0")),
    ("records", _nothing),
    ("surprise", lambda value: value.update(surprise=1)),
    ("sequence", lambda value: value.update(sequence=-1)),
    ("attempt", lambda value: value.update(attempt="1")),
    ("infrastructure", lambda value: value.update(infrastructure=0)),
    ("clock.seconds", lambda value: value["clock"].update(seconds=-0.5)),
    ("status", lambda value: value.update(status="fine")),
    ("records.0.latency.median_ns", lambda value: value["records"][0]["latency"].update(median_ns=-1.0)),
    ("records.0.samples.shape.0", lambda value: value["records"][0]["samples"]["shape"].__setitem__(0, 0)),
    ("workload.uniform.route_sha256", lambda value: value["workload"]["uniform"].update(route_sha256="abc")),
    ("workload.uniform.counts", lambda value: value["workload"]["uniform"]["counts"]["num_rows"][0].append(1)),
    ("provenance", lambda value: value["provenance"].update(kernel={"by_rank": 5})),
    ("(top level)", lambda value: value.update(records=[])),
    ("(top level)", lambda value: value.update(teardown=None, provenance=None)),
]


@pytest.mark.parametrize(("field", "spoil"), FIELDS)
def test_a_record_with_a_bad_field_is_refused(
    made: tuple[Plan, Results], field: str, spoil: Callable[[dict[str, Any]], object]
) -> None:
    """Another version, missing, unknown, negative, mistyped or impossible: the field is named."""
    edit_start(made[1], START, spoil)
    violations = validate(*made).violations
    assert {(v.code, v.file, v.field) for v in violations} == {("bad_start", RECORD, field)}


def test_all_bad_fields_of_a_record_are_named(made: tuple[Plan, Results]) -> None:
    """A file is mended once, not line by line."""
    edit_start(made[1], START, lambda value: value.update(sequence=0, status="fine", surprise=1))
    assert {v.field for v in validate(*made).violations} == {"sequence", "status", "surprise"}


@pytest.mark.parametrize("name", ["start.json", "rank-0.jsonl", "rank-1.log", "samples.bin.gz", "spec.json"])
def test_an_altered_byte_is_refused(made: tuple[Plan, Results], name: str) -> None:
    """One changed byte in any raw file is found by its digest, and the folder is not summarised anew."""
    path = made[1].attempt(START, 1) / name
    path.chmod(0o644)
    data = bytearray(path.read_bytes() or b"\n")
    data[-1] ^= 1
    if name == "start.json":
        data[-1] = ord(" ")  # still JSON: only the digest in the outcome can tell
    path.write_bytes(bytes(data))
    assert ("altered_file", f"starts/{START}/attempt-1/{name}") in _found(made)
    assert validate(*made).state is State.REFUSED


@pytest.mark.parametrize("name", ["start.json", "rank-0.jsonl", "samples.bin.gz", "spec.json"])
def test_a_missing_file_is_refused(made: tuple[Plan, Results], name: str) -> None:
    """A file that a digest names must be there."""
    (made[1].attempt(START, 1) / name).unlink()
    assert ("missing_file", f"starts/{START}/attempt-1/{name}") in _found(made)


def test_an_unnamed_file_is_refused(made: tuple[Plan, Results]) -> None:
    """A start's folder holds what its record names; hidden files and raw samples of a broken-off clean-up are ignored."""
    folder = made[1].attempt(START, 1)
    for name in (".hidden", "rank-0.samples", "extra.bin"):
        (folder / name).write_bytes(b"x")
    assert _found(made) == {("unknown_file", f"starts/{START}/attempt-1/extra.bin")}


def test_an_unnamed_entry_beside_attempts_is_noted(made: tuple[Plan, Results]) -> None:
    """It is none of ours, and changes nothing."""
    (made[1].start(START) / "notes.txt").write_text("mine")
    assert _found(made) == {("unknown_file", f"starts/{START}/notes.txt")}
    assert validate(*made).state is State.COMPLETE


def test_a_start_of_another_plan_is_refused(made: tuple[Plan, Results]) -> None:
    """A folder under starts/ that the plan does not have."""
    shutil.copytree(made[1].start(START), made[1].start("ep2/decode/round-09/torch-a2a"))
    assert _found(made) == {("unknown_start", "starts/ep2/decode/round-09/torch-a2a")}


def test_a_start_in_the_place_of_another_is_refused(made: tuple[Plan, Results]) -> None:
    """A record says which start it is of; copied elsewhere it is refused."""
    shutil.rmtree(made[1].start(START))
    shutil.copytree(made[1].start("ep2/decode/round-01/torch-a2a"), made[1].start(START))
    codes = {violation.code for violation in validate(*made).violations}
    assert {"identity_differs", "outcome_disagrees", "spec_differs", "duplicate_sequence"} <= codes


def test_a_missing_start_is_partial(made: tuple[Plan, Results]) -> None:
    """A start that was never begun is incomplete, not inconsistent."""
    shutil.rmtree(made[1].start(START))
    lines = made[1].journal.read_text().splitlines(keepends=True)
    made[1].journal.write_text("".join(line for line in lines if f'"{START}"' not in line))
    assert _found(made) == {("missing_start", f"starts/{START}")}
    assert validate(*made).state is State.PARTIAL


def test_a_begun_attempt_whose_folder_is_gone_is_refused(made: tuple[Plan, Results]) -> None:
    """What was measured and is not there any more may have displeased somebody: the journal knows of it."""
    shutil.rmtree(made[1].start(START))
    assert ("attempt_missing", "journal.jsonl") in _found(made)
    assert validate(*made).state is State.REFUSED


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (lambda lines: [*lines, lines[0]], "attempt_repeated"),
        (lambda lines: lines[1:], "journal_disagrees"),
        (lambda lines: [], "journal_disagrees"),
        (lambda lines: [line.replace('"sequence": 1,', '"sequence": 9,') for line in lines], "journal_disagrees"),
    ],
    ids=["begun twice", "a line lost", "all lost", "renumbered"],
)
def test_the_journal_and_the_attempts_must_agree(made: tuple[Plan, Results], edit: Any, code: str) -> None:
    """Each attempt was begun once, in the place that its record says; torn lines are nobody's."""
    journal = made[1].journal
    journal.write_text("".join(edit(journal.read_text().splitlines(keepends=True))) + '{"torn": ')
    assert (code, "journal.jsonl") in _found(made)


def test_an_attempt_without_a_record_is_partial(made: tuple[Plan, Results]) -> None:
    """An outcome may say that an attempt left no record."""
    path = made[1].outcome(START, 1)
    value = read(path)
    value["attempts"][0].update(sha256=None, status="crashed", reason="the disk was full")
    value["status"] = "crashed"
    path.chmod(0o644)
    path.write_text(pretty_json(value))
    assert _found(made) == {("no_record", RECORD)}


OUTCOMES: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("start", lambda value: value.update(start="ep2/decode/round-01/torch-a2a")),
    ("status", lambda value: value.update(status="crashed")),
    ("attempts", lambda value: value["attempts"][0].update(attempt=2)),
]


@pytest.mark.parametrize(("field", "spoil"), OUTCOMES)
def test_an_outcome_that_contradicts_itself_is_refused(
    made: tuple[Plan, Results], field: str, spoil: Callable[[dict[str, Any]], object]
) -> None:
    """Another start, another status than its last attempt's, attempts that do not begin at its number."""
    _rewrite(made[1].outcome(START, 1), spoil)
    found = {(v.code, v.file, v.field) for v in validate(*made).violations}
    assert ("outcome_disagrees", OUTCOME, field) in found


def test_an_outcome_that_contradicts_the_record_is_refused(made: tuple[Plan, Results]) -> None:
    """Status and infrastructure of an attempt are the record's."""

    def spoil(value: dict[str, Any]) -> None:
        value.update(status="crashed")
        value["attempts"][0].update(status="crashed", infrastructure=True)

    _rewrite(made[1].outcome(START, 1), spoil)
    assert {(v.code, v.file, v.field) for v in validate(*made).violations} == {
        ("outcome_disagrees", RECORD, "status"),
        ("outcome_disagrees", RECORD, "infrastructure"),
    }


def test_an_attempt_in_two_outcomes_is_refused(made: tuple[Plan, Results]) -> None:
    """Each attempt belongs to one job."""
    shutil.copyfile(made[1].outcome(START, 1), made[1].outcome(START, 2))
    assert ("outcome_disagrees", f"starts/{START}/outcome-2.json") in _found(made)


@pytest.mark.parametrize("text", ["", "{}", '{"schema": "ep-campaign/outcome/9"}'])
def test_an_outcome_that_is_none_is_refused(made: tuple[Plan, Results], text: str) -> None:
    """Empty, without fields, or of another version."""
    path = made[1].outcome(START, 1)
    path.chmod(0o644)
    path.write_text(text)
    assert {code for code, file in _found(made) if file == OUTCOME} <= {"not_json", "bad_outcome"}
    assert validate(*made).state is State.REFUSED


def test_a_leftover_attempt_is_noted(tmp_path: Path) -> None:
    """An attempt that no outcome mentions was interrupted: it is in the census, and its start is missing."""
    plan = make_plan(tmp_path)
    results = make_results(tmp_path / "results", plan, attempts={START: (Attempt(interrupted=True),)})
    found = validate(plan, results)
    assert found.codes == ["leftover_attempt", "missing_start"]
    assert found.census["leftover_attempts"] == [f"starts/{START}/attempt-1"]


@pytest.mark.parametrize("name", ["plan.json", "worker.json", "admission/ep2.json"])
@pytest.mark.parametrize("text", ["", "[]", '{"digest": NaN}', '{"digest": "0"}', '{"accepted": 3, "digest": 1}'])
def test_garbage_at_the_top_is_refused(made: tuple[Plan, Results], name: str, text: str) -> None:
    """Whatever stands in the campaign's own files, there is a reason code and no exception."""
    (made[1].root / name).write_text(text)
    assert name in {file for _, file in _found(made)}
    assert validate(*made).state is State.REFUSED


def test_a_missing_plan_or_worker_file_is_refused(made: tuple[Plan, Results]) -> None:
    """Without them nobody can say what was measured, or by what."""
    made[1].plan.unlink()
    made[1].worker.unlink()
    assert {("missing_file", "plan.json"), ("missing_file", "worker.json")} <= _found(made)


def test_no_admission_is_partial(made: tuple[Plan, Results]) -> None:
    """Every EP size is admitted before its first scored start."""
    made[1].admission(2).unlink()
    assert _found(made) == {("no_admission", "admission/ep2.json")}


def test_what_admission_left_is_checked(made: tuple[Plan, Results]) -> None:
    """Its brief runs prove the arms: their records are whole, of this plan, of their kind, and their files unaltered."""
    plan, results = made
    folder = results.admission(2).with_suffix("") / "torch-a2a" / "attempt-1"
    shutil.copytree(results.attempt(START, 1), folder)
    path = folder / "start.json"
    path.chmod(0o644)
    value = read(path) | {"kind": "admission"}
    path.write_text(pretty_json(value))
    assert _found(made) == set()
    file = str(path.relative_to(results.root))
    (folder / "rank-0.jsonl").unlink()
    (folder / "rank-1.jsonl").chmod(0o644)
    (folder / "rank-1.jsonl").write_text("")
    path.write_text(pretty_json(value | {"kind": "scored", "plan_digest": "0" * 64}))
    assert _found(made) == {
        ("identity_differs", file),
        ("plan_digest_differs", file),
        ("missing_file", file.replace("start.json", "rank-0.jsonl")),
        ("altered_file", file.replace("start.json", "rank-1.jsonl")),
    }
    path.write_text("{}")
    assert _found(made) == {("bad_start", file)}
    assert plan.num_rounds == {2: 3}


def test_an_empty_folder_is_refused_and_says_once_that_nothing_was_measured(tmp_path: Path) -> None:
    """Nothing at all: the plan is missing, and one line stands for all of its starts."""
    plan = make_plan(tmp_path)
    results = make_results(tmp_path / "results", plan)
    shutil.rmtree(results.root)
    found = validate(plan, results)
    assert found.state is State.REFUSED
    assert "missing_start" not in found.codes
    (nothing,) = (violation for violation in found.violations if violation.code == "nothing_measured")
    assert nothing.expected == f"outcomes of {len(plan.starts)} starts"


def test_one_measured_start_makes_the_others_missing_ones(tmp_path: Path) -> None:
    """All but the first are named, each; the text names the first of them and how many they are: 3 rounds x 3 arms - 1."""
    plan = make_plan(tmp_path)
    first = plan.starts[0].id
    results = make_results(
        tmp_path / "results", plan, attempts={start.id: () for start in plan.starts if start.id != first}
    )
    found = validate(plan, results)
    missing = [violation for violation in found.violations if violation.code == "missing_start"]
    assert 8 == len(missing)
    lines = [line for line in found.text().splitlines() if "[missing_start]" in line]
    assert lines == [f"{missing[0]} (the first of 8)"]


def test_a_specification_that_is_not_the_plans_is_refused(made: tuple[Plan, Results]) -> None:
    """The ranks were told something else: fewer warm-ups, say."""
    path = made[1].attempt(START, 1) / "spec.json"
    value = read(path)
    value["series"][0]["warmups"] = 0
    replace_file(made[1], START, "spec.json", pretty_json(value).encode())
    assert _found(made) == {("spec_differs", f"starts/{START}/attempt-1/spec.json")}


def test_traces_are_checked(tmp_path: Path) -> None:
    """A trace beside a specification is the one that the plan hashed, and the folder's own copy gives the digests."""
    (tmp_path / "trace.csv").write_text("".join(f"{g % 8},{(g + 1) % 8}\n" for g in range(16)), encoding="ascii")
    plan = make_plan(tmp_path, routes=[{"name": "t", "kind": "trace", "trace": "trace.csv"}])
    results = make_results(tmp_path / "results", plan, traces=tmp_path / "trace.csv")
    assert validate(plan, results).violations == ()
    trace = plan.spec(plan.starts[0]).routes[0].trace
    (results.attempt(START, 1) / trace).write_text("0,1\n")
    (results.attempt("ep2/decode/round-01/torch-a2a", 1) / trace).unlink()
    (results.root / trace).unlink()
    assert {violation.code for violation in validate(plan, results).violations} == {
        "altered_file",
        "missing_file",
        "trace_unreadable",
    }


def test_huge_files_are_not_read(made: tuple[Plan, Results]) -> None:
    """A record above 64 MiB is refused by its size; a sparse file stands for it."""
    path = made[1].attempt(START, 1) / "start.json"
    path.chmod(0o644)
    with path.open("r+b") as stream:
        stream.truncate((64 << 20) + 1)
    assert _found(made) == {("file_too_large", RECORD)}


def test_a_status_of_a_start_that_began_nothing(made: tuple[Plan, Results]) -> None:
    """Closed by admission, a start has no records and says why; it is missing from the matrix, not wrong."""

    def close(value: dict[str, Any]) -> None:
        kept = ("schema", "kind", "campaign", "plan_digest", "start", "attempt", "position", "round", "order_position")
        rest = {key: value[key] for key in (*kept, "ep_size", "profile", "arm", "infrastructure")}
        value.clear()
        value.update(rest, sequence=None, status="inadmissible", reason_code="socket", reason="no RDMA", records=[])
        value["files"] = {}

    folder = made[1].attempt(START, 1)
    for path in list(folder.iterdir()):
        if path.name != "start.json":
            path.unlink()
    edit_start(made[1], START, close)

    def told(value: dict[str, Any]) -> None:
        value["status"] = value["attempts"][0]["status"] = Status.INADMISSIBLE.value

    _rewrite(made[1].outcome(START, 1), told)
    assert _found(made) == {("not_ok", f"starts/{START}")}


def _rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    value = read(path)
    change(value)
    path.chmod(0o644)
    path.write_text(pretty_json(value))


def test_samples_that_do_not_unpack_are_refused(made: tuple[Plan, Results]) -> None:
    """A gzip cut short, garbage, a changed bit inside, too few and too many bytes: each has its code."""
    path = made[1].attempt(START, 1) / "samples.bin.gz"
    whole = path.read_bytes()
    raw = gzip.decompress(whole)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    cases = {
        whole[:-9]: "samples_not_whole",
        whole[:30]: "samples_not_whole",
        b"garbage": "samples_not_whole",
        bytes(flipped): "samples_not_whole",
        gzip.compress(raw[:-8]): "samples_length",
        gzip.compress(raw + b"\0" * 8): "samples_length",
        gzip.compress(b"\0" * (1 << 24)): "samples_length",
        b"": "samples_not_whole",
        whole + b"more": "samples_not_whole",
    }
    for data, code in cases.items():
        replace_file(made[1], START, "samples.bin.gz", data)
        assert _found(made) == {(code, f"starts/{START}/attempt-1/samples.bin.gz")}, data[:20]
